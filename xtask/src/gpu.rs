//! `cargo xtask gpu`: the suite that needs a GPU, put together and, where there is one, run.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::artefacts::Artefacts;
use crate::venv::Venv;
use crate::{cargo, torch};

/// Options of the suite.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rehearse on the simulated driver: small, and no values
    #[arg(long)]
    simulated: bool,
    /// The most that the run may take
    #[arg(long, default_value_t = 16.0, value_name = "MINUTES")]
    minutes: f64,
}

/// Makes the bundle and runs it here if that is possible.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let venv = Venv::ensure(&torch::find(torch::DEFAULT)?.requirements)?;
    venv.ensure_cuda_headers()?;
    let artefacts = Artefacts::build()?;
    let target = cargo::target()?;
    let scripts = cargo::root()?.join("tests/gpu");
    let plans = target.join("vramtape-gpu-plans");
    println!("recording and planning the programs on the simulated driver (some minutes)");
    let planned = |script: &str, arguments: [&Path; 2]| -> Result<()> {
        let mut planner = Command::new(venv.python());
        planner.arg(scripts.join(script)).args(arguments);
        artefacts.announce(&mut planner);
        if !planner.status().context("cannot start the environment's python")?.success() {
            bail!("{script} failed; the error is above");
        }
        Ok(())
    };
    planned("plans.py", [artefacts.vramtape.as_path(), &plans])?;
    println!("searching for the largest batches on the simulated driver (ten minutes)");
    planned("batches.py", [&plans.join("batches.json"), Path::new("h100")])?;
    let mut bundle = Command::new(venv.python());
    bundle.arg(scripts.join("bundle.py")).arg(&artefacts.library).arg(&target).arg(&plans);
    let status = bundle.status();
    if !status.context("cannot start the environment's python")?.success() {
        bail!("the bundle was not made; the error is above");
    }
    let suite = target.join("vramtape-gpu/run.py");
    if !options.simulated && !has_gpu() {
        println!("No GPU here (`nvidia-smi -L` lists none). On a machine with one, and torch:");
        println!("  tar xzf vramtape-gpu.tar.gz && python3 vramtape-gpu/run.py");
        return Ok(ExitCode::SUCCESS);
    }
    let out = target.join("gpu-results");
    let mut python = Command::new(venv.python());
    python.arg(&suite).arg("--out").arg(&out).args(["--minutes", &options.minutes.to_string()]);
    if options.simulated {
        python.arg("--simulated");
        artefacts.announce(&mut python);
    }
    let status = python.status().context("cannot start the environment's python")?;
    if !options.simulated {
        keep(&out)?;
    }
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn has_gpu() -> bool {
    let listed = Command::new("nvidia-smi").arg("-L").output();
    listed.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

/// Copies the page and the numbers to where measurements are kept, under their date.
fn keep(out: &Path) -> Result<()> {
    let text = fs::read_to_string(out.join("results.json")).context("the suite left no results")?;
    let date = text.split("\"date\": \"").nth(1).and_then(|rest| rest.get(..10));
    let date = date.context("results.json has no date")?;
    let folder = cargo::root()?.join("docs/results");
    for kind in ["md", "json"] {
        let to = folder.join(format!("{date}-gpu.{kind}"));
        fs::copy(out.join(format!("results.{kind}")), &to)
            .with_context(|| format!("cannot write {}", to.display()))?;
        println!("{}", to.display());
    }
    Ok(())
}
