//! PyTorch's own allocator and vramtape side by side, in one run. `cargo xtask bench --peers` starts it.
//!
//! It compiles the programs in `cpp` against the headers and libraries of an installed PyTorch, runs it on the
//! simulated driver with nothing set in the environment, and prints the table.

mod build;
mod machine;
mod replays;
mod run;
mod saved;
mod table;
mod times;

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Serialize;

use build::Torch;
use machine::Machine;
use table::Table;

/// Times PyTorch's own allocator and vramtape in one run.
#[derive(Parser)]
struct Options {
    /// The site-packages folder of an environment with torch and nvidia-cuda-crt
    site_packages: PathBuf,
    /// libvramtape.so
    #[arg(long, env = "VRAMTAPE_LIBRARY", value_name = "FILE")]
    library: PathBuf,
    /// The folder of the simulated driver
    #[arg(long, env = "VRAMTAPE_SIMCUDA", value_name = "FOLDER")]
    simcuda: PathBuf,
    /// How often each measurement is repeated; the subjects take turns
    #[arg(long, default_value_t = 51, value_name = "N")]
    rounds: u32,
    /// Operations in each measurement, few enough to end before the system interrupts most of them
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    count: u32,
    /// Only the operations whose name contains this; may be repeated
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// The replay of tapes beside PyTorch's allocator doing what they ask for, in place of single operations
    #[arg(long, conflicts_with_all = ["count", "only"])]
    replays: bool,
    /// Print JSON in place of the table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let torch = Torch::find(&options.site_packages)?;
    if options.replays {
        return print(&replays::measure(&torch, &options)?, options.json);
    }
    let program = torch.build("peers")?;
    let mut machine = Machine::look();
    let lines = run::run(&program, &options)?;
    machine.look_again();
    let table = Table::read(&torch.version, machine, options.rounds, options.count, &lines)?;
    print(&table, options.json)
}

fn print(results: &(impl Display + Serialize), as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(results).context("cannot write JSON")?);
    } else {
        print!("{results}");
    }
    Ok(())
}
