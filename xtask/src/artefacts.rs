//! The libraries that PyTorch loads, `libvramtape.so` and the simulated driver, built for release, the replay lab and
//! the command.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{cargo, exec};

/// The packages of the libraries that PyTorch loads. Whatever is built beside them is asked for together with them:
/// then both share what they depend on, which has one set of features.
pub(crate) const LIBRARIES: [&str; 4] = ["-p", "ffi", "-p", "simcuda"];

/// The file of the replay lab.
const LAB: &str = "libvramtape_lab.so";

/// The built files, by absolute path.
pub(crate) struct Artefacts {
    /// The allocator, for `CUDAPluggableAllocator`.
    pub(crate) library: PathBuf,
    /// The replay lab, for the Python package; not built for the demo.
    pub(crate) lab: Option<PathBuf>,
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
        run(&["build", "--release", "-p", "cli", "-p", "python"], &LIBRARIES)?;
        let release = cargo::target()?.join("release");
        Self::assembled(&release, release.join("vramtape"), Some(release.join(LAB)), None)
    }

    /// Builds what the demo uses, as fast as can be: without link-time optimisation, tables and lab.
    pub(crate) fn build_for_demo() -> Result<Self> {
        run(&["build", "--profile", "demo", "--no-default-features", "-p", "cli"], &LIBRARIES)?;
        let demo = cargo::target()?.join("demo");
        Self::assembled(&demo, demo.join("vramtape"), None, None)
    }

    /// Builds the libraries that PyTorch loads for release.
    pub(crate) fn build_libraries() -> Result<()> {
        run(&["build", "--release"], &LIBRARIES)
    }

    /// The libraries that PyTorch loads, built for release. The command and the lab are those of the Rust tests: to
    /// optimise their dependencies for a release takes longer than all that the tests run of them.
    pub(crate) fn of_tests() -> Result<Self> {
        let (release, debug) = (cargo::target()?.join("release"), cargo::target()?.join("debug"));
        // A test of the lab links it, so it is among what tests depend on.
        let lab = debug.join("deps").join(LAB);
        let snapshot_contract = Some(debug.join("snapshot-contract"));
        Self::assembled(&release, debug.join("vramtape"), Some(lab), snapshot_contract)
    }

    fn assembled(
        folder: &Path,
        vramtape: PathBuf,
        lab: Option<PathBuf>,
        snapshot_contract: Option<PathBuf>,
    ) -> Result<Self> {
        let (library, simcuda) = (folder.join("libvramtape.so"), folder.join("simcuda"));
        assemble(&folder.join("libsimcuda.so"), &simcuda)?;
        let artefacts = Self { library, lab, simcuda, vramtape, snapshot_contract };
        let driver = artefacts.simcuda.join("libcuda.so.1");
        let files = [&artefacts.library, &driver, &artefacts.vramtape];
        let files = files.into_iter().chain(&artefacts.lab).chain(&artefacts.snapshot_contract);
        for file in files {
            if !file.exists() {
                bail!("the build left no {}: run `cargo clean` and try again", file.display());
            }
        }
        Ok(artefacts)
    }

    /// Passes their paths to `command`'s Python scripts.
    pub(crate) fn announce(&self, command: &mut Command) {
        command.env("VRAMTAPE_LIBRARY", &self.library);
        command.envs(self.lab.iter().map(|file| ("VRAMTAPE_LAB_LIBRARY", file)));
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
    let status = exec::status(build.args(more)).context("cannot start cargo")?;
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
