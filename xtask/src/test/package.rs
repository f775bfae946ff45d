//! The Python package, as pip builds and installs it: its wheel in a fresh environment of the oldest and of the newest
//! Python that are here, and every `tests/python/package/test_*.py` in each; those of `extras` once, beside what the
//! package's extras ask for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::scripts;
use crate::artefacts::Artefacts;
use crate::kit::PACKAGE;
use crate::progress::Step;
use crate::tally::{Counts, Outcome, Tally};
use crate::venv::Venv;
use crate::{cargo, exec, python};

/// The Pythons that the package is for: 3.N.
const PYTHON_MIN: u32 = 9;
/// The newest of them.
const PYTHON_MAX: u32 = 14;
/// A cold release build on two cores takes a fraction of this.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Builds the wheel and tests it.
pub(super) fn run(tally: &mut Tally, artefacts: &Artefacts) -> Result<()> {
    let folder = cargo::root()?.join("tests/python/package");
    let (plain, extras) = (scripts::find(&folder)?, scripts::find(&folder.join("extras"))?);
    let mut built = None;
    tally.group("wheel of the Python package", || {
        let tools = Venv::ensure(&PACKAGE)?.python();
        built = Some((build(&tools)?, tools));
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    let Some((wheel, tools)) = built else { return Ok(()) };
    for (minor, interpreter) in oldest_and_newest()? {
        let python = format!("Python 3.{minor}");
        test(tally, &plain, &python, artefacts, || install(minor, &interpreter, &wheel));
    }
    test(tally, &extras, "extras", artefacts, || install_beside(&tools, &wheel));
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

/// Runs the scripts with a Python that has the wheel.
fn test(
    tally: &mut Tally,
    scripts: &[PathBuf],
    with: &str,
    artefacts: &Artefacts,
    install: impl FnOnce() -> Result<Installed>,
) {
    let mut installed = None;
    tally.group(&format!("installation of the package ({with})"), || {
        installed = Some(install()?);
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    let Some(Installed { python, beside }) = installed else { return };
    for script in scripts {
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("package {name} ({with})");
        let mut python = Command::new(&python);
        python.envs(beside.iter().map(|folder| ("PYTHONPATH", folder)));
        tally.group(&name, || scripts::run_script(&name, script, python, artefacts));
    }
}

/// A Python that has the wheel, in its own folder or in one beside it.
struct Installed {
    python: PathBuf,
    beside: Option<PathBuf>,
}

/// The wheel, of this checkout.
fn build(tools: &Path) -> Result<PathBuf> {
    let folder = empty("wheel")?;
    let mut pip = pip(tools);
    pip.args(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir"]);
    pip.arg(&folder).arg(cargo::root()?);
    run_step("pip-wheel", pip)?;
    let made = fs::read_dir(&folder).context("cannot list the wheel")?;
    let mut wheels = made.filter_map(|wheel| Some(wheel.ok()?.path()));
    let is_for_any_python = |wheel: &PathBuf| wheel.to_string_lossy().contains("-py3-none-linux_");
    wheels.find(is_for_any_python).context("pip made no py3-none-linux wheel")
}

/// A fresh environment with nothing but the wheel.
fn install(minor: u32, interpreter: &str, wheel: &Path) -> Result<Installed> {
    let folder = empty(&format!("package-3.{minor}"))?;
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
    let folder = empty("package-extras")?;
    let mut pip = pip(tools);
    pip.args(["install", "--no-index", "--no-deps", "--target"]).arg(&folder).arg(wheel);
    run_step("pip-package-extras", pip)?;
    Ok(Installed { python: tools.to_owned(), beside: Some(folder) })
}

fn pip(python: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}

fn run_step(name: &str, command: Command) -> Result<()> {
    let advice = "The same command by hand says more.";
    exec::run_or_fail(&mut Step::start(name), name, command, LIMIT, advice).map(drop)
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
