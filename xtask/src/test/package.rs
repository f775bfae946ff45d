//! The Python package, as pip builds and installs it: its wheel in a fresh environment of the oldest and of the newest
//! Python that are here, and every `tests/python/package/test_*.py` in each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::scripts;
use crate::artefacts::Artefacts;
use crate::progress::Step;
use crate::tally::{Counts, Outcome, Tally};
use crate::{cargo, exec, python};

/// The Pythons that the package is for: 3.N.
const PYTHON_MIN: u32 = 9;
/// The newest of them that it was tested with.
const PYTHON_MAX: u32 = 14;
/// A cold release build on two cores takes a fraction of this.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const PIP_ADVICE: &str = "The build needs hatchling, which pip downloads: behind a mirror or a proxy, set pip's own \
    PIP_INDEX_URL or HTTPS_PROXY.";

/// Builds the wheel and tests it.
pub(super) fn run(tally: &mut Tally, artefacts: &Artefacts) -> Result<()> {
    let pythons = python::all(PYTHON_MIN, PYTHON_MAX);
    let Some((_, newest)) = pythons.last() else {
        bail!("no Python 3.{PYTHON_MIN} or later with its venv module: install one");
    };
    let mut wheel = None;
    tally.group("wheel of the Python package", || {
        wheel = Some(build(newest)?);
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    let Some(wheel) = wheel else { return Ok(()) };
    let scripts = scripts::find(&cargo::root()?.join("tests/python/package"))?;
    let ends = if pythons.len() == 1 {
        &pythons[..]
    } else {
        &[pythons[0].clone(), pythons[pythons.len() - 1].clone()]
    };
    for (minor, interpreter) in ends {
        let mut python = None;
        tally.group(&format!("the package in a fresh Python 3.{minor}"), || {
            python = Some(install(*minor, interpreter, &wheel)?);
            Ok(Outcome { counts: Counts::one(true), detail: String::new() })
        });
        let Some(python) = python else { continue };
        for script in &scripts {
            let name = script.file_stem().unwrap_or_default().to_string_lossy();
            let name = format!("package {name} (Python 3.{minor})");
            tally.group(&name, || scripts::run_script(&name, script, &python, artefacts));
        }
    }
    Ok(())
}

/// The wheel, of this checkout.
fn build(interpreter: &str) -> Result<PathBuf> {
    let folder = empty("wheel")?;
    let venv = venv(interpreter, &empty("wheel-venv")?)?;
    let mut pip = pip(&venv);
    pip.args(["wheel", "--no-deps", "--wheel-dir"]).arg(&folder).arg(cargo::root()?);
    run_step("pip-wheel", pip)?;
    let made = fs::read_dir(&folder).context("cannot list the wheel")?;
    let mut wheels = made.filter_map(|wheel| Some(wheel.ok()?.path()));
    let is_for_any_python = |wheel: &PathBuf| wheel.to_string_lossy().contains("-py3-none-linux_");
    wheels.find(is_for_any_python).context("pip made no py3-none-linux wheel")
}

/// A fresh environment with nothing but the wheel: its interpreter.
fn install(minor: u32, interpreter: &str, wheel: &Path) -> Result<PathBuf> {
    let python = venv(interpreter, &empty(&format!("package-3.{minor}"))?)?;
    let mut pip = pip(&python);
    pip.args(["install", "--no-index"]).arg(wheel);
    run_step(&format!("pip-package-3.{minor}"), pip)?;
    Ok(python)
}

/// Makes a virtual environment and names its interpreter.
fn venv(interpreter: &str, folder: &Path) -> Result<PathBuf> {
    let mut make = Command::new(interpreter);
    make.args(["-m", "venv"]).arg(folder);
    run_step("venv", make)?;
    Ok(folder.join("bin/python"))
}

fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}

fn run_step(name: &str, command: Command) -> Result<()> {
    exec::run_or_fail(&mut Step::start(name), name, command, LIMIT, PIP_ADVICE).map(drop)
}

/// An empty folder of this name, for what lasts as long as one run of the tests.
fn empty(name: &str) -> Result<PathBuf> {
    let folder = cargo::target()?.join("xtask").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}
