//! Packages of npm that tests use, each installed once into the cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::progress::Step;
use crate::{cache, exec};

/// The installation takes seconds.
const LIMIT: Duration = Duration::from_secs(5 * 60);
/// What an installation needs.
pub(crate) const ADVICE: &str =
    "The first run needs the network, and npm with Node.js 20 or later.";

/// The folder of a package of this version. The first call installs it, which needs the network.
pub(crate) fn package(name: &str, version: &str) -> Result<PathBuf> {
    let plain = name.rsplit('/').next().unwrap_or(name);
    let folder = cache::folder()?.join("npm").join(format!("{plain}-{version}"));
    if !folder.exists() {
        install(&format!("{name}@{version}"), &folder)?;
    }
    Ok(folder.join("node_modules").join(name))
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
    exec::run_or_fail(&mut step, "npm-install", npm, LIMIT, ADVICE)?;
    step.done();
    match fs::rename(made.path(), folder) {
        Err(error) if !folder.exists() => {
            Err(error).with_context(|| format!("cannot write {}", folder.display()))
        }
        _ => Ok(()), // Another process was faster.
    }
}
