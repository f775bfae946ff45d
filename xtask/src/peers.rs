//! PyTorch's own allocator beside ours: as a measurement for people, and as a test of what both hand out.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::artefacts::{Artefacts, LIBRARIES};
use crate::progress::Step;
use crate::tally::{Counts, Outcome};
use crate::venv::Venv;
use crate::{cargo, exec};

/// The test takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// The program that measures against the PyTorch of `venv`, built for release with cargo's `features`.
pub(crate) fn command(venv: &Venv, artefacts: &Artefacts, features: &str) -> Result<Command> {
    let mut build = cargo::command(&["build", "--release", "-q", "-p", "peers"])?;
    let status = build.args(LIBRARIES).args(["--features", features]).status()?;
    if !status.success() {
        bail!("the build of the peers bench failed; its errors are above");
    }
    beside(&cargo::target()?.join("release/peers"), venv, artefacts)
}

/// This program, against the PyTorch of `venv`.
fn beside(program: &Path, venv: &Venv, artefacts: &Artefacts) -> Result<Command> {
    venv.ensure_cuda_headers()?;
    let mut peers = Command::new(program);
    peers.arg(venv.site_packages()?);
    artefacts.announce(&mut peers);
    Ok(peers)
}

/// One round of `what`, which fails where an allocator hands out, counts or reserves what it should not.
pub(crate) fn test(
    name: &str,
    what: &[&str],
    venv: &Venv,
    artefacts: &Artefacts,
) -> Result<Outcome> {
    // That of the Rust tests: nothing is measured, and to build it for release takes longer than the round.
    let mut peers = beside(&cargo::target()?.join("debug/peers"), venv, artefacts)?;
    peers.args(what).args(["--rounds", "1", "--json"]);
    let log = name.replace([' ', '(', ')'], "-");
    let output = exec::run(&mut Step::start(name), &log, peers, LIMIT)?;
    Ok(Outcome { counts: Counts::one(output.success()), detail: output.tail() })
}
