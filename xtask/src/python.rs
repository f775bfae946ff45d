//! Finds a Python that can make the virtual environments.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Result, bail};

use crate::requirements::Requirements;

/// Prints the minor version of a Python 3 that has what a virtual environment needs.
const PROBE: &str = "\
import sys
assert sys.version_info[0] == 3
print(sys.version_info[1])
try:
    import venv, ensurepip
except ImportError:
    sys.exit(9)
";

/// The interpreter for the environment of `requirements`: `$VRAMTAPE_PYTHON`, else the first of
/// `python3` and `python3.N` that is neither too old nor too new and has its venv module.
pub(crate) fn find(requirements: &Requirements) -> Result<String> {
    let range = format!("3.{} to 3.{}", requirements.python_min, requirements.python_max);
    if let Ok(python) = env::var("VRAMTAPE_PYTHON") {
        return match probe(&python) {
            Probe::Good(minor) if fits(requirements, minor) => Ok(python),
            Probe::Good(minor) => {
                bail!(
                    "VRAMTAPE_PYTHON={python} is Python 3.{minor}; {} needs {range}",
                    requirements.name
                )
            }
            Probe::NoVenv(minor) => bail!(no_venv(&python, minor)),
            Probe::None => bail!("VRAMTAPE_PYTHON={python} does not run; name a Python {range}"),
        };
    }
    let mut seen = Vec::new();
    let mut without_venv = None;
    let versioned = (requirements.python_min..=requirements.python_max)
        .rev()
        .map(|minor| format!("python3.{minor}"));
    for python in std::iter::once("python3".to_owned()).chain(versioned) {
        match probe(&python) {
            Probe::Good(minor) if fits(requirements, minor) => return Ok(python),
            Probe::Good(minor) => seen.push(format!("{python} is 3.{minor}")),
            Probe::NoVenv(minor) if fits(requirements, minor) => {
                without_venv.get_or_insert((python, minor));
            }
            Probe::NoVenv(_) | Probe::None => {}
        }
    }
    if let Some((python, minor)) = without_venv {
        bail!(no_venv(&python, minor));
    }
    let found = if seen.is_empty() { "no python3 is on PATH".to_owned() } else { seen.join(", ") };
    bail!(
        "{} needs Python {range} and {found}: install one (for example `apt install \
         python3.12 python3.12-venv`), or set VRAMTAPE_PYTHON to it",
        requirements.name
    )
}

/// Every Python 3 from 3.`min` to 3.`max` with its venv module, oldest first: on PATH, or one of pyenv's.
pub(crate) fn all(min: u32, max: u32) -> Vec<(u32, String)> {
    let of = |minor| {
        let name = format!("python3.{minor}");
        let mut candidates = vec!["python3".to_owned(), name.clone()];
        candidates.extend(of_pyenv(minor).map(|folder| format!("{folder}/bin/{name}")));
        let good = |python: &String| matches!(probe(python), Probe::Good(found) if found == minor);
        Some((minor, candidates.into_iter().find(good)?))
    };
    (min..=max).filter_map(of).collect()
}

/// The folder of a Python 3.`minor` that pyenv keeps, whether or not it is switched on.
fn of_pyenv(minor: u32) -> Option<String> {
    let root =
        env::var("PYENV_ROOT").or_else(|_| Ok::<_, env::VarError>(env::var("HOME")? + "/.pyenv"));
    let versions = fs::read_dir(Path::new(&root.ok()?).join("versions")).ok()?;
    let paths = versions.filter_map(|version| Some(version.ok()?.path()));
    let wanted = format!("3.{minor}.");
    let is_wanted = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&wanted))
    };
    Some(paths.filter(is_wanted).max()?.to_string_lossy().into_owned())
}

enum Probe {
    Good(u32),
    NoVenv(u32),
    None,
}

fn probe(python: &str) -> Probe {
    let Ok(output) = Command::new(python).args(["-c", PROBE]).output() else { return Probe::None };
    match (String::from_utf8_lossy(&output.stdout).trim().parse(), output.status.code()) {
        (Ok(minor), Some(0)) => Probe::Good(minor),
        (Ok(minor), Some(9)) => Probe::NoVenv(minor),
        _ => Probe::None,
    }
}

fn fits(requirements: &Requirements, minor: u32) -> bool {
    (requirements.python_min..=requirements.python_max).contains(&minor)
}

fn no_venv(python: &str, minor: u32) -> String {
    format!(
        "{python} (3.{minor}) has no venv module: install it (Debian and Ubuntu: `apt install \
         python3.{minor}-venv`), then run the same command again"
    )
}
