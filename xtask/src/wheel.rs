//! The wheel of the Python package; and `cargo xtask wheel`, which puts the bridge of every supported PyTorch into it,
//! so that its users need no compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::progress::Step;
use crate::requirements::PACKAGE;
use crate::torch::{self, Torch};
use crate::venv::Venv;
use crate::{cargo, exec};

/// In the name of every wheel.
const FOR_ANY_PYTHON: &str = "-py3-none-manylinux_";
/// The build hook's name for the folder of bridges (`python/build_wheel.py`).
const BRIDGES: &str = "VRAMTAPE_BRIDGES";
/// Its name for the file of a lab.
const LAB: &str = "VRAMTAPE_PREBUILT_LAB";
/// Copies the bridge for a Python's torch, as an earlier run left it or compiled now.
const TAKE_BRIDGE: &str = "\
import shutil, sys, torch
from vramtape._bridge import library
shutil.copy(library(torch), sys.argv[1])
";
/// A cold release build on two cores takes a fraction of this.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// `cargo xtask wheel`.
pub(crate) fn run() -> Result<ExitCode> {
    cargo::require_compiler()?;
    let tools = Venv::ensure(&PACKAGE)?.python();
    let wheel = build_with_bridges(&tools, None)?;
    let tag = audit(&tools, &wheel)?;
    let versions: Vec<_> = torch::ALL.iter().map(|torch| torch.version).collect();
    println!("{}", wheel.display());
    println!("for {tag}, with the bridges for torch {}", versions.join(", "));
    Ok(ExitCode::SUCCESS)
}

/// The wheel as `pip install .` makes it, of this checkout; with this lab, or one that is built now.
pub(crate) fn build(tools: &Path, lab: Option<&Path>) -> Result<PathBuf> {
    build_in(&cargo::empty("wheel")?, tools, &Prebuilt { bridges: None, lab })
}

/// The same with the bridge of every supported PyTorch inside.
pub(crate) fn build_with_bridges(tools: &Path, lab: Option<&Path>) -> Result<PathBuf> {
    let bridges = cargo::empty("bridges")?;
    thread::scope(|scope| {
        let take = |torch| {
            let bridges = &bridges;
            scope.spawn(move || take_bridge(torch, bridges))
        };
        let taken: Vec<_> = torch::ALL.iter().map(take).collect();
        taken.into_iter().try_for_each(|bridge| {
            bridge
                .join()
                .unwrap_or_else(|_| bail!("a bridge was not built: its thread ended early"))
        })
    })?;
    let prebuilt = Prebuilt { bridges: Some(&bridges), lab };
    build_in(&cargo::empty("wheel-with-bridges")?, tools, &prebuilt)
}

/// Whether the wheel is fit for the oldest Linux that its name promises; that Linux.
pub(crate) fn audit(tools: &Path, wheel: &Path) -> Result<String> {
    let mut audit = Command::new(tools);
    audit.arg(cargo::root()?.join("tests/python/package/audit.py")).arg(wheel);
    let said = audit.output().context("cannot run auditwheel")?;
    if !said.status.success() {
        bail!("{}", String::from_utf8_lossy(&said.stderr));
    }
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// A command that has to succeed, with its log in `target/xtask`.
pub(crate) fn run_step(name: &str, command: Command) -> Result<()> {
    let advice = "The same command by hand says more.";
    exec::run_or_fail(&mut Step::start(name), name, command, LIMIT, advice).map(drop)
}

/// `PYTHON -m pip`.
pub(crate) fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}

fn take_bridge(torch: &'static Torch, folder: &Path) -> Result<()> {
    let venv = Venv::ensure(&torch.requirements)?;
    venv.ensure_cuda_headers()?;
    let mut take = Command::new(venv.python());
    take.args(["-B", "-c", TAKE_BRIDGE]).arg(folder);
    take.env("PYTHONPATH", cargo::root()?.join("python"));
    run_step(&format!("bridge-{}", torch.version), take)
}

/// What the wheel takes along instead of building it.
struct Prebuilt<'p> {
    /// A folder.
    bridges: Option<&'p Path>,
    /// A file.
    lab: Option<&'p Path>,
}

fn build_in(folder: &Path, tools: &Path, prebuilt: &Prebuilt) -> Result<PathBuf> {
    let mut pip = pip(tools);
    pip.args(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]);
    pip.arg(folder).arg(cargo::root()?);
    for (name, path) in [(BRIDGES, prebuilt.bridges), (LAB, prebuilt.lab)] {
        pip.env_remove(name).envs(path.map(|path| (name, path)));
    }
    run_step("pip-wheel", pip)?;
    let made = fs::read_dir(folder).context("cannot list the wheel")?;
    let mut wheels = made.filter_map(|wheel| Some(wheel.ok()?.path()));
    let is_for_any_python = |wheel: &PathBuf| wheel.to_string_lossy().contains(FOR_ANY_PYTHON);
    wheels.find(is_for_any_python).context("pip made no py3-none-manylinux wheel")
}
