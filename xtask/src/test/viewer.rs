//! The viewer's page: types, lints and tests of its TypeScript, and whether the committed build is that of the sources.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::progress::Step;
use crate::tally::{Counts, Outcome};
use crate::{cargo, exec, npm};

use super::parallel::Parallel;

/// The installation takes seconds. The checks take a minute of processor time, beside three builds.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Adds `npm run check` in `viewer/`. Its packages are installed by the first run, which needs the network.
pub(super) fn add(parallel: &Parallel) {
    const NAME: &str = "page of the viewer";
    match install() {
        Ok(()) => parallel.add(NAME.to_owned(), || {
            let mut npm = command()?;
            npm.args(["run", "check"]);
            let output = exec::run(&mut Step::start(NAME), "viewer-check", npm, LIMIT)?;
            Ok(Outcome { counts: Counts::one(output.success()), detail: output.tail() })
        }),
        Err(error) => parallel.tally.skip(NAME, &format!("{error:#}")),
    }
}

/// Installs the packages of the lock file, unless they are there.
fn install() -> Result<()> {
    let folder = cargo::root()?.join("viewer");
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let lock = read(&folder.join("package-lock.json"))?;
    // A copy of the lock file beside the packages that were installed from it.
    let installed = folder.join("node_modules/.installed-from.json");
    if fs::read(&installed).is_ok_and(|from| from == lock) {
        return Ok(());
    }
    let mut install = command()?;
    install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    let mut step = Step::start("installing the packages of the viewer");
    exec::run_or_fail(&mut step, "viewer-install", install, LIMIT, npm::ADVICE)?;
    fs::write(&installed, lock).with_context(|| format!("cannot write {}", installed.display()))?;
    step.done();
    Ok(())
}

fn command() -> Result<Command> {
    let mut npm = Command::new("npm");
    npm.current_dir(cargo::root()?.join("viewer"));
    Ok(npm)
}
