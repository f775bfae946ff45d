//! `cargo xtask test`: every test, with one line a group and the sum at the end.

mod advisories;
mod asan;
mod browser;
mod package;
mod parallel;
mod rings;
mod rust;
mod scripts;
mod style;
mod viewer;
mod workflow;

use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use anyhow::Result;

use crate::artefacts::Artefacts;
use crate::cargo;
use crate::tally::Tally;
use parallel::Parallel;

/// Options of the tests.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Leave out the real-PyTorch tests, their environments and the release build
    #[arg(long)]
    quick: bool,
}

/// Runs all tests, also after a failure.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let started = Instant::now();
    let mut tally = Tally::new();
    cargo::require_compiler()?;
    if !options.quick {
        thread::spawn(scripts::prepare); // Downloads while the compiler works.
    }
    style::run(&mut tally);
    workflow::run(&mut tally);
    rust::check(&mut tally);
    let built = OnceLock::new();
    without_pytorch(&mut tally, (!options.quick).then_some(&built));
    if options.quick {
        tally.leave_out("real PyTorch", "left out by --quick");
    } else if let Some(artefacts) = built.get() {
        scripts::run(&mut tally, artefacts)?;
    }
    Ok(tally.finish(started.elapsed().as_secs()))
}

/// Everything else that needs no PyTorch, and the release build, side by side: one test program after another keeps one
/// processor busy.
fn without_pytorch(tally: &mut Tally, release: Option<&OnceLock<Artefacts>>) {
    let mut parallel = Parallel::default();
    rust::add(&mut parallel);
    asan::add(&mut parallel, tally);
    if let Some(built) = release {
        scripts::add_build(&mut parallel, built);
    }
    viewer::add(&mut parallel, tally);
    browser::add(&mut parallel, tally);
    rust::add_doctests(&mut parallel);
    parallel.run(tally);
}
