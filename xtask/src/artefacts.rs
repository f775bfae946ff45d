//! The libraries that PyTorch loads, `libvramtape.so` and the simulated driver, and the command, built for release.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;

/// The packages of the libraries, which are those of the wheel. Whatever is built beside them is asked for together
/// with them: then both share what they depend on, which has one set of features.
pub(crate) const LIBRARIES: [&str; 6] = ["-p", "ffi", "-p", "simcuda", "-p", "python"];

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
    /// The checker of snapshots, a tool of the tests; not built otherwise.
    snapshot_contract: Option<PathBuf>,
}

impl Artefacts {
    /// Builds them all; cargo shows its own progress.
    pub(crate) fn build() -> Result<Self> {
        run(&["build", "--release", "-p", "cli"], &LIBRARIES)?;
        Self::assembled(cargo::target()?.join("release/vramtape"), None)
    }

    /// The same with the programs that the Rust tests ran. The command's code is in the lab's library too, which is
    /// what the wheel has; to optimise it a second time would take a minute.
    pub(crate) fn build_for_tests() -> Result<Self> {
        run(&["build", "--release"], &LIBRARIES)?;
        // Of the workspace, as everything was built for that: for one package alone features differ.
        run(&["build", "--workspace", "--bin", "vramtape", "--bin", "snapshot-contract"], &[])?;
        let debug = cargo::target()?.join("debug");
        Self::assembled(debug.join("vramtape"), Some(debug.join("snapshot-contract")))
    }

    fn assembled(vramtape: PathBuf, snapshot_contract: Option<PathBuf>) -> Result<Self> {
        let release = cargo::target()?.join("release");
        assemble(&release.join("libsimcuda.so"), &release.join("simcuda"))?;
        let artefacts = Self {
            library: release.join("libvramtape.so"),
            lab: release.join("libvramtape_lab.so"),
            simcuda: release.join("simcuda"),
            vramtape,
            snapshot_contract,
        };
        let driver = artefacts.simcuda.join("libcuda.so.1");
        let files = [&artefacts.library, &artefacts.lab, &driver, &artefacts.vramtape];
        for file in files.into_iter().chain(&artefacts.snapshot_contract) {
            if !file.exists() {
                bail!("the build left no {}: run `cargo clean` and try again", file.display());
            }
        }
        Ok(artefacts)
    }

    /// Passes their paths to `command`'s Python scripts.
    pub(crate) fn announce(&self, command: &mut Command) {
        command.env("VRAMTAPE_LIBRARY", &self.library).env("VRAMTAPE_LAB_LIBRARY", &self.lab);
        self.announce_to_installed(command);
    }

    /// The same for scripts that use the libraries of an installed package.
    pub(crate) fn announce_to_installed(&self, command: &mut Command) {
        command.env("VRAMTAPE_SIMCUDA", &self.simcuda).env("VRAMTAPE_COMMAND", &self.vramtape);
        command
            .envs(self.snapshot_contract.iter().map(|file| ("VRAMTAPE_SNAPSHOT_CONTRACT", file)));
    }
}

/// `cargo ARGS MORE`, which has to succeed.
fn run(args: &[&str], more: &[&str]) -> Result<()> {
    cargo::require_compiler()?;
    let mut build = cargo::command(args)?;
    let status = build.args(more).status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the build failed; its errors are above");
    }
    Ok(())
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
