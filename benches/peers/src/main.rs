//! PyTorch's own allocator and vramtape side by side, in one run. `cargo xtask bench --peers` starts it.
//!
//! It compiles `peers.cpp` against the headers and libraries of an installed PyTorch, runs it on the
//! simulated driver with nothing set in the environment, and prints the table.

mod build;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Parser;

use build::Torch;
use table::Table;

/// Settings that would make either allocator other than it ships.
const STEERING: [&str; 5] = [
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "VRAMTAPE_CONF",
];

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
    #[arg(long, default_value_t = 101, value_name = "N")]
    rounds: u32,
    /// Allocations and frees in each measurement, few enough to end before the system interrupts most of them
    #[arg(long, default_value_t = 2_000, value_name = "N")]
    pairs: u32,
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
    let lines = run(&program, &options)?;
    let table = Table::read(&torch.version, options.rounds, options.pairs, &lines)?;
    if options.json {
        println!("{}", serde_json::to_string_pretty(&table).context("cannot write JSON")?);
    } else {
        print!("{table}");
    }
    Ok(())
}

/// Runs the program on two simulated devices; its standard error goes straight through.
fn run(program: &Path, options: &Options) -> Result<String> {
    let driver = options.simcuda.join("libcuda.so.1");
    for file in [&driver, &options.library] {
        if !file.exists() {
            bail!("{} does not exist: run `cargo xtask bench --peers`", file.display());
        }
    }
    let mut command = Command::new(program);
    command.arg(&options.library).args([options.rounds, options.pairs].map(|n| n.to_string()));
    command.args(&options.only);
    for variable in STEERING {
        command.env_remove(variable);
    }
    command.env("LD_PRELOAD", &driver).env("LD_LIBRARY_PATH", &options.simcuda);
    command.env("VRAMTAPE_SIM_DEVICES", "2").stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        bail!("{} failed ({}); its words are above", program.display(), output.status);
    }
    String::from_utf8(output.stdout).context("the program did not print text")
}
