//! What PyTorch loads: `libvramtape.so` and the simulated driver, built for release.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// What cargo builds for them. Whatever is built beside them is asked for together with them: then both share what
/// they depend on, which has one set of features.
pub(crate) const PACKAGES: [&str; 8] = ["-p", "ffi", "-p", "simcuda", "-p", "cli", "-p", "python"];

/// The built files, by absolute path.
pub(crate) struct Artefacts {
    /// The allocator, for `CUDAPluggableAllocator`.
    pub(crate) library: PathBuf,
    /// The replay lab, for the Python package.
    pub(crate) lab: PathBuf,
    /// The folder with the stand-ins for `libcuda.so.1` and `libnvidia-ml.so.1`.
    pub(crate) simcuda: PathBuf,
    /// The `vramtape` command.
    pub(crate) vramtape: PathBuf,
}

impl Artefacts {
    /// Builds them all; cargo shows its own progress.
    pub(crate) fn build() -> Result<Self> {
        cargo::require_compiler()?;
        let mut build = cargo::command(&["build", "--release"])?;
        let status = build.args(PACKAGES).status().context("cannot start cargo")?;
        if !status.success() {
            bail!("the build failed; its errors are above");
        }
        let release = cargo::target()?.join("release");
        assemble(&release.join("libsimcuda.so"), &release.join("simcuda"))?;
        let artefacts = Self {
            library: release.join("libvramtape.so"),
            lab: release.join("libvramtape_lab.so"),
            simcuda: release.join("simcuda"),
            vramtape: release.join("vramtape"),
        };
        let driver = artefacts.simcuda.join("libcuda.so.1");
        for file in [&artefacts.library, &artefacts.lab, &driver, &artefacts.vramtape] {
            if !file.exists() {
                bail!("the build left no {}: run `cargo clean` and try again", file.display());
            }
        }
        Ok(artefacts)
    }

    /// Tells `command`'s Python scripts where they are.
    pub(crate) fn announce(&self, command: &mut Command) {
        command.env("VRAMTAPE_LIBRARY", &self.library).env("VRAMTAPE_LAB_LIBRARY", &self.lab);
        self.announce_to_installed(command);
    }

    /// The same for scripts that use the libraries of an installed package.
    pub(crate) fn announce_to_installed(&self, command: &mut Command) {
        command.env("VRAMTAPE_SIMCUDA", &self.simcuda).env("VRAMTAPE_COMMAND", &self.vramtape);
    }
}

/// Puts the simulated driver together under the names that programs load.
fn assemble(library: &Path, folder: &Path) -> Result<()> {
    let script = cargo::root()?.join("simcuda/assemble.sh");
    let status = Command::new(&script).arg(library).arg(folder).status();
    let status = status.with_context(|| format!("cannot start {}", script.display()))?;
    if !status.success() {
        bail!("{} failed ({status}): does the C compiler (cc) work?", script.display());
    }
    Ok(())
}
