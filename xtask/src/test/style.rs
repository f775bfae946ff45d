//! The style and the types of Python code (ruff, mypy), and the style of C and C++ code (clang-format).
//!
//! Their settings are in pyproject.toml and in .clang-format.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::progress::Step;
use crate::requirements::LINTERS;
use crate::tally::{Counts, Outcome, Tally};
use crate::venv::Venv;
use crate::{cargo, exec};

/// A check takes seconds.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Runs the checks. Their programs are installed by the first run, which needs the network.
pub(super) fn run(tally: &Tally) {
    let venv = match Venv::ensure(&LINTERS) {
        Ok(venv) => venv,
        Err(error) => return tally.skip("style of Python, C and C++", &format!("{error:#}")),
    };
    for (name, program, args) in [
        ("lints of Python", "ruff", &["check"][..]),
        ("format of Python", "ruff", &["format", "--diff"]),
        ("types of Python", "mypy", &[]),
    ] {
        tally.group(name, || checked(name, venv.program(program), args, &[]));
    }
    let name = "format of C and C++";
    tally.group(name, || {
        let files = sources()?;
        checked(name, venv.program("clang-format"), &["--dry-run", "--Werror"], &files)
    });
}

/// A program that exits with 0 if it finds nothing.
pub(super) fn checked(
    name: &str,
    program: PathBuf,
    args: &[&str],
    files: &[String],
) -> Result<Outcome> {
    let mut command = Command::new(program);
    command.current_dir(cargo::root()?).args(args).args(files);
    let output = exec::run(&mut Step::start(name), &name.replace(' ', "-"), command, LIMIT)?;
    Ok(Outcome { counts: Counts::one(output.success()), detail: output.tail() })
}

/// The C and C++ files of the checkout.
fn sources() -> Result<Vec<String>> {
    let mut git = Command::new("git");
    git.current_dir(cargo::root()?).args(["ls-files", "-co", "--exclude-standard", "--"]);
    let output = git.args(["*.c", "*.cpp", "*.h"]).output().context("cannot start git")?;
    let files: Vec<_> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    ensure!(!files.is_empty(), "git lists no C or C++ file: is this a checkout?");
    Ok(files)
}
