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

use crate::cargo;
use crate::tally::Tally;

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
    let tally = Tally::new();
    cargo::require_compiler()?;
    if !options.quick {
        thread::spawn(scripts::prepare); // Downloads while the compiler works.
    }
    style::run(&tally);
    workflow::run(&tally);
    rust::check_format(&tally);
    let built = OnceLock::new();
    parallel::run(&tally, |parallel| {
        parallel.add_step(|parallel| {
            let tally = parallel.tally;
            let libraries = || !options.quick && scripts::build(tally);
            let are_built = rayon::join(|| rust::build(tally), libraries);
            rust::add(parallel);
            browser::add(parallel);
            // Once nothing else waits for the folder that it builds in.
            rust::add_checks(parallel);
            if are_built == (true, true) {
                scripts::add(parallel, &built);
            }
        });
        // Beside the builds.
        asan::add(parallel);
        viewer::add(parallel);
    })?;
    if options.quick {
        tally.leave_out("real PyTorch", "left out by --quick");
    }
    Ok(tally.finish(started.elapsed().as_secs()))
}
