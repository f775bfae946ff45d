//! `cargo xtask`: everything a fresh machine needs, with nothing hidden.
//!
//! Needed beforehand: cargo, a C++ compiler and python3 with its venv module. What is downloaded goes
//! to one folder ([`cache`]), what is built to `target/`, what the demo makes to `demo-output/`.

mod artefacts;
mod bench;
mod cache;
mod cargo;
mod demo;
mod exec;
mod gpu;
mod instructions;
mod lines;
mod npm;
mod peers;
mod progress;
mod python;
mod requirements;
mod tally;
mod test;
mod torch;
mod venv;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Train a small GPT in an unmodified PyTorch through vramtape, then replay its tape
    Demo(demo::Options),
    /// Run every test, the real-PyTorch ones included
    Test(test::Options),
    /// Run the benchmarks
    Bench(bench::Options),
    /// Put the suite for a GPU together, and run it where there is one
    Gpu(gpu::Options),
    /// Count the lines of code without tests
    Lines(lines::Options),
    /// Build the Python package's wheel with the bridge of every supported PyTorch inside
    Wheel,
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Demo(options) => demo::run(&options),
        Verb::Test(options) => test::run(&options),
        Verb::Bench(options) => bench::run(&options),
        Verb::Gpu(options) => gpu::run(&options),
        Verb::Lines(options) => lines::run(&options),
        Verb::Wheel => wheel::run(),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
