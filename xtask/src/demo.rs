//! `cargo xtask demo`: an unmodified PyTorch trains through vramtape, and its tape replays.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};

use crate::artefacts::Artefacts;
use crate::cargo;
use crate::torch;
use crate::venv::Venv;

/// The page: memory over time and the comparison.
const PAGE: &str = "view.html";

/// Options of the demo.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The PyTorch to train with (2.7.1, 2.11.0 or 2.15.0)
    #[arg(long, default_value = torch::DEFAULT, value_name = "VERSION")]
    torch: String,
    /// Training steps
    #[arg(long, default_value_t = 10, value_name = "N")]
    steps: u32,
}

/// Runs the demo.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let torch = torch::find(&options.torch)?;
    let root = cargo::root()?;
    cargo::require_compiler()?; // A missing compiler is reported before the long steps.
    let venv = Venv::ensure(&torch.requirements)?;
    let artefacts = Artefacts::build_for_demo()?;
    let out = root.join("demo-output");
    fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
    let tape = out.join("gpt.vtape");
    train(options.steps, &venv, &artefacts, &root, &tape)?;
    compare(&artefacts, &tape, &out)?;
    println!();
    println!("Try another policy on the same run:");
    println!(
        "  {} replay {} --config max_split_size_mb:64",
        artefacts.vramtape.display(),
        tape.display()
    );
    println!("The tape, the table and the same as JSON are in {}.", out.display());
    println!(
        "Open {} in a browser: memory over time, waste, strategies.",
        out.join(PAGE).display()
    );
    Ok(ExitCode::SUCCESS)
}

fn train(steps: u32, venv: &Venv, artefacts: &Artefacts, root: &Path, tape: &Path) -> Result<()> {
    let mut python = Command::new(venv.python());
    python.args(["-m", "vramtape", "run", "--force", "--output"]).arg(tape);
    artefacts.announce(&mut python);
    if has_gpu() {
        python.env_remove("VRAMTAPE_SIMCUDA");
    } else {
        python.arg("--sim");
    }
    python.arg(root.join("examples/gpt.py")).args(["--steps", &steps.to_string()]);
    python.env("PYTHONPATH", root.join("python")).env_remove("VRAMTAPE_CONF");
    let status = python.status().context("cannot start the environment's python")?;
    if !status.success() {
        bail!("the training failed ({status}); its output is above");
    }
    if !tape.exists() {
        bail!("the training ended well but left no tape at {}", tape.display());
    }
    Ok(())
}

/// Whether the driver of a GPU is loaded here.
fn has_gpu() -> bool {
    Path::new("/dev/nvidiactl").exists() || Path::new("/dev/dxg").exists()
}

/// Prints the table, and keeps it for people and for programs.
fn compare(artefacts: &Artefacts, tape: &Path, out: &Path) -> Result<()> {
    let table = vramtape(artefacts, "compare", tape, &[])?;
    fs::write(out.join("compare.txt"), &table).context("cannot write compare.txt")?;
    let page = out.join(PAGE);
    let page = page.to_str().context("the folder's name is no text")?;
    let json = vramtape(artefacts, "compare", tape, &["--json", "--html", page, "--force"])?;
    fs::write(out.join("compare.json"), json).context("cannot write compare.json")?;
    println!();
    print!("{}", String::from_utf8_lossy(&table));
    Ok(())
}

fn vramtape(artefacts: &Artefacts, verb: &str, tape: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new(&artefacts.vramtape);
    command.arg(verb).arg(tape).args(args).stderr(Stdio::inherit());
    let output = command.output().context("cannot start vramtape")?;
    if !output.status.success() {
        bail!("`vramtape {verb} {}` failed ({})", tape.display(), output.status);
    }
    Ok(output.stdout)
}
