//! Finds a Python that can make the virtual environments.

use std::env;
use std::process::Command;

use anyhow::{Result, bail};

use crate::torch::Torch;

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

/// The interpreter to make `torch`'s environment with: `$VRAMTAPE_PYTHON`, else the first of
/// `python3` and `python3.N` that is neither too old nor too new and has its venv module.
pub(crate) fn find(torch: &Torch) -> Result<String> {
    let range = format!("3.{} to 3.{}", torch.python_min, torch.python_max);
    if let Ok(python) = env::var("VRAMTAPE_PYTHON") {
        return match probe(&python) {
            Probe::Good(minor) if fits(torch, minor) => Ok(python),
            Probe::Good(minor) => {
                bail!(
                    "VRAMTAPE_PYTHON={python} is Python 3.{minor}; torch {} needs {range}",
                    torch.version
                )
            }
            Probe::NoVenv(minor) => bail!(no_venv(&python, minor)),
            Probe::None => bail!("VRAMTAPE_PYTHON={python} does not run; name a Python {range}"),
        };
    }
    let mut seen = Vec::new();
    let mut without_venv = None;
    let versioned =
        (torch.python_min..=torch.python_max).rev().map(|minor| format!("python3.{minor}"));
    for python in std::iter::once("python3".to_owned()).chain(versioned) {
        match probe(&python) {
            Probe::Good(minor) if fits(torch, minor) => return Ok(python),
            Probe::Good(minor) => seen.push(format!("{python} is 3.{minor}")),
            Probe::NoVenv(minor) if fits(torch, minor) => {
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
        "torch {} needs Python {range} and {found}: install one (for example `apt install \
         python3.12 python3.12-venv`), or set VRAMTAPE_PYTHON to it",
        torch.version
    )
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

fn fits(torch: &Torch, minor: u32) -> bool {
    (torch.python_min..=torch.python_max).contains(&minor)
}

fn no_venv(python: &str, minor: u32) -> String {
    format!(
        "{python} (3.{minor}) has no venv module: install it (Debian and Ubuntu: `apt install \
         python3.{minor}-venv`), then run the same command again"
    )
}
