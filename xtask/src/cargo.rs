//! How cargo is called.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

/// The project's root.
pub(crate) fn root() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .context("the project's folder has moved: run cargo xtask from inside it")
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> Result<PathBuf> {
    let root = root()?;
    Ok(env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir)))
}

/// An empty folder of this name in `target/xtask`, for what lasts until the next run.
pub(crate) fn empty(name: &str) -> Result<PathBuf> {
    let folder = target()?.join("xtask").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// `cargo ARGS`, in the project's root.
pub(crate) fn command(args: &[&str]) -> Result<Command> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root()?).args(args);
    Ok(cargo)
}

/// Whether `cargo SUBCOMMAND` exists here.
pub(crate) fn has(subcommand: &str) -> bool {
    command(&[subcommand, "--version"])
        .and_then(|mut cargo| Ok(cargo.output()?))
        .is_ok_and(|output| output.status.success())
}

/// Fails, with what to install, where there is no C++ compiler.
pub(crate) fn require_compiler() -> Result<()> {
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    match Command::new(&compiler).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => bail!(
            "no C++ compiler ({}): install one (Debian and Ubuntu: `apt install g++`; Fedora: \
             `dnf install gcc-c++`), or set CXX",
            compiler.to_string_lossy()
        ),
    }
}
