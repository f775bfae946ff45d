//! The Python package, as pip builds and installs it: its wheel in a fresh environment of the oldest and of the newest
//! Python that are here, and every `tests/python/package/test_*.py` in each; those of `extras` once, beside what the
//! package's extras ask for. And its wheel with bridges, beside every PyTorch: those of `bridges`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::parallel::Parallel;
use super::scripts;
use crate::artefacts::Artefacts;
use crate::requirements::PACKAGE;
use crate::tally::{Counts, Outcome, Tally};
use crate::venv::Venv;
use crate::wheel::{self, pip, run_step};
use crate::{cargo, python};

/// The Pythons that the package is for: 3.N.
const PYTHON_MIN: u32 = 9;
/// The newest of them.
const PYTHON_MAX: u32 = 14;

/// Builds the wheel, installs it, and adds its tests.
pub(super) fn add<'a>(parallel: &Parallel<'_, 'a>, artefacts: &'a Artefacts) -> Result<()> {
    let tally = parallel.tally;
    let folder = cargo::root()?.join("tests/python/package");
    let (plain, extras) = (scripts::find(&folder)?, scripts::find(&folder.join("extras"))?);
    let mut built = None;
    tally.group("wheel of the Python package", || {
        let tools = Venv::ensure(&PACKAGE)?.python();
        built = Some((wheel::build(&tools, artefacts.lab.as_deref())?, tools));
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    let Some((wheel, tools)) = built else { return Ok(()) };
    tally.group("wheel for other machines", || audit(&tools, &wheel));
    for (minor, interpreter) in oldest_and_newest()? {
        let python = format!("Python 3.{minor}");
        test(parallel, &plain, &python, artefacts, || install(minor, &interpreter, &wheel));
    }
    test(parallel, &extras, "extras", artefacts, || install_beside(&tools, &wheel));
    Ok(())
}

/// The ends of the range of Pythons that are here.
fn oldest_and_newest() -> Result<Vec<(u32, String)>> {
    let mut pythons = python::all(PYTHON_MIN, PYTHON_MAX);
    if pythons.is_empty() {
        bail!("no Python 3.{PYTHON_MIN} or later with its venv module: install one");
    }
    if pythons.len() > 2 {
        pythons.drain(1..pythons.len() - 1);
    }
    Ok(pythons)
}

/// A folder with the package from the wheel with bridges, for the scripts of `bridges`; `None` if it cannot be made.
pub(super) fn with_bridges(tally: &Tally, artefacts: &Artefacts) -> Option<PathBuf> {
    let mut installed = None;
    tally.group("wheel with bridges", || {
        let tools = Venv::ensure(&PACKAGE)?.python();
        let wheel = wheel::build_with_bridges(&tools, artefacts.lab.as_deref())?;
        let outcome = audit(&tools, &wheel)?;
        installed = Some(install_into(&tools, &wheel, "package-bridges")?);
        Ok(outcome)
    });
    installed
}

fn audit(tools: &Path, wheel: &Path) -> Result<Outcome> {
    Ok(Outcome { counts: Counts::one(true), detail: wheel::audit(tools, wheel)? })
}

/// The scripts with a Python that has the wheel.
fn test(
    parallel: &Parallel,
    scripts: &[PathBuf],
    with: &str,
    artefacts: &Artefacts,
    install: impl FnOnce() -> Result<Installed>,
) {
    let mut installed = None;
    parallel.tally.group(&format!("installation of the package ({with})"), || {
        installed = Some(install()?);
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    let Some(Installed { python, beside }) = installed else { return };
    for script in scripts {
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("package {name} ({with})");
        let mut python = Command::new(&python);
        artefacts.announce_to_installed(&mut python);
        python.envs(beside.iter().map(|folder| ("PYTHONPATH", folder)));
        let script = script.clone();
        parallel.add(name.clone(), move || scripts::run_script(&name, &script, python));
    }
}

/// A Python that has the wheel, in its own folder or in one beside it.
struct Installed {
    python: PathBuf,
    beside: Option<PathBuf>,
}

/// A fresh environment with nothing but the wheel.
fn install(minor: u32, interpreter: &str, wheel: &Path) -> Result<Installed> {
    let folder = cargo::empty(&format!("package-3.{minor}"))?;
    let mut make = Command::new(interpreter);
    make.args(["-m", "venv"]).arg(&folder);
    run_step("venv", make)?;
    let python = folder.join("bin/python");
    let mut pip = pip(&python);
    pip.args(["install", "--no-index"]).arg(wheel);
    run_step(&format!("pip-package-3.{minor}"), pip)?;
    Ok(Installed { python, beside: None })
}

/// The wheel beside an environment that stays as it is.
fn install_beside(tools: &Path, wheel: &Path) -> Result<Installed> {
    let folder = install_into(tools, wheel, "package-extras")?;
    Ok(Installed { python: tools.to_owned(), beside: Some(folder) })
}

/// The wheel in a folder of its own.
fn install_into(tools: &Path, wheel: &Path, name: &str) -> Result<PathBuf> {
    let folder = cargo::empty(name)?;
    let mut pip = pip(tools);
    pip.args(["install", "--no-index", "--no-deps", "--target"]).arg(&folder).arg(wheel);
    run_step(&format!("pip-{name}"), pip)?;
    Ok(folder)
}
