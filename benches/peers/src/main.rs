//! PyTorch's own allocator and vramtape side by side, in one run. `cargo xtask bench --peers` starts it.
//!
//! It compiles `cpp/peers.cpp` against the headers and libraries of an installed PyTorch, runs it on the
//! simulated driver with nothing set in the environment, and prints the table.

mod build;
mod machine;
mod run;
mod saved;
mod table;
mod times;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;

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
    /// Print JSON in place of the table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let torch = Torch::find(&options.site_packages)?;
    let program = torch.build()?;
    let mut machine = Machine::look();
    let lines = run::run(&program, &options)?;
    machine.look_again();
    let table = Table::read(&torch.version, machine, options.rounds, options.count, &lines)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&table).context("cannot write JSON")?);
    } else {
        print!("{table}");
    }
    Ok(())
}
