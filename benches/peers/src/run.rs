//! Runs the programs in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::Options;
use crate::saved;

/// Settings that would make an allocator other than it ships.
const STEERING: [&str; 7] = [
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "VRAMTAPE_CONF",
    "MALLOC_CONF",
    "GLIBC_TUNABLES",
];

/// The allocators of host memory, beside this program.
const SCALE: [&str; 3] = ["scale-glibc", "scale-mimalloc", "scale-jemalloc"];

/// Rounds of one start of a program: the programs take turns too.
const ROUNDS_AT_ONCE: u32 = 21;

/// Runs all rounds, and returns what the programs printed; their standard error goes straight through.
pub(crate) fn run(program: &Path, options: &Options) -> Result<String> {
    let driver = driver(options)?;
    expect(&options.library)?;
    let scratch = tempfile::tempdir().context("no folder for temporary files: set TMPDIR")?;
    let (copy, tape) =
        (scratch.path().join("libvramtape-off.so"), scratch.path().join("ring.vtape"));
    fs::copy(&options.library, &copy)
        .with_context(|| format!("cannot copy {}", options.library.display()))?;
    let scale = scale()?;
    let mut lines = String::new();
    let mut left = options.rounds;
    while left > 0 {
        let rounds = left.min(ROUNDS_AT_ONCE);
        left -= rounds;
        let numbers = [rounds, options.count].map(|n| n.to_string());
        let mut peers = Command::new(program);
        peers.args([&options.library, &copy, &tape]).args(&numbers).args(&options.only);
        peers.env("LD_PRELOAD", &driver).env("LD_LIBRARY_PATH", &options.simcuda);
        peers.env("VRAMTAPE_SIM_DEVICES", "4");
        lines.push_str(&output(peers)?);
        saved::check(&tape)?;
        for program in &scale {
            let mut scale = Command::new(program);
            scale.args(&numbers).args(&options.only);
            lines.push_str(&output(scale)?);
        }
    }
    Ok(lines)
}

/// The simulated driver.
pub(crate) fn driver(options: &Options) -> Result<PathBuf> {
    let driver = options.simcuda.join("libcuda.so.1");
    expect(&driver)?;
    Ok(driver)
}

fn expect(file: &Path) -> Result<()> {
    if !file.exists() {
        bail!("{} does not exist: run `cargo xtask bench --peers`", file.display());
    }
    Ok(())
}

/// The programs of [`SCALE`], where this one was built with them.
fn scale() -> Result<Vec<PathBuf>> {
    let own = std::env::current_exe().context("cannot find our own program")?;
    let names = if cfg!(feature = "scale") { SCALE.as_slice() } else { &[] };
    Ok(names.iter().map(|name| own.with_file_name(name)).collect())
}

/// The output of a program, run without variables that change an allocator's defaults.
pub(crate) fn output(mut command: Command) -> Result<String> {
    for variable in STEERING {
        command.env_remove(variable);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!("{program} failed ({}); its words are above", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{program} did not print text"))
}
