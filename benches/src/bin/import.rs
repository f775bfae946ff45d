//! Imports a file once or several times, for `benches/peers/snapshots.py`: the best times, and the most memory held.
//!
//! Prints one line of JSON. `cpu_s` is the processor's time, which others on the machine do not add to. The memory is
//! that of the whole process (`VmHWM`), so ask for one round to learn that of an import.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use replay::import::{RunLimits, import_file};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().map(PathBuf::from);
    let rounds = arguments.next().map_or(Some(1), |text| text.to_str()?.parse::<u32>().ok());
    let (Some(path), Some(rounds @ 1..)) = (path, rounds) else {
        eprintln!("usage: import FILE [ROUNDS]");
        return ExitCode::from(2);
    };
    let (mut best_s, mut cpu_s) = (f64::INFINITY, f64::INFINITY);
    let mut records = 0;
    for _ in 0..rounds {
        let (start, cpu_start_ns) = (Instant::now(), cpu_ns());
        let import = match import_file(&path, &RunLimits::default()) {
            Ok(import) => import,
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        };
        best_s = best_s.min(start.elapsed().as_secs_f64());
        cpu_s = cpu_s.min((cpu_ns() - cpu_start_ns) as f64 / 1e9);
        records = import.devices.iter().map(|device| device.records.len()).sum();
    }
    let peak = peak_bytes();
    println!(
        r#"{{"records": {records}, "best_s": {best_s:.6}, "cpu_s": {cpu_s:.6}, "peak_bytes": {peak}}}"#
    );
    ExitCode::SUCCESS
}

/// The processor time of this process's one thread.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The most memory that this process has held.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
