//! `snapshot-contract [--complete] FILE...`: checks snapshots for tests in Python.
//!
//! Prints one line for each fault, with the file and the place in it. Exit codes: 0 all are good, 1 a snapshot has a
//! fault, 2 a file is no snapshot or the arguments are wrong.

use std::path::PathBuf;
use std::process::ExitCode;

use tests::snapshot_contract::{CheckError, Demand, check_file};

fn main() -> ExitCode {
    let mut demand = Demand::Readable;
    let mut files = Vec::new();
    for argument in std::env::args_os().skip(1) {
        if argument == "--complete" {
            demand = Demand::Complete;
        } else {
            files.push(PathBuf::from(argument));
        }
    }
    if files.is_empty() {
        eprintln!("usage: snapshot-contract [--complete] FILE...");
        return ExitCode::from(2);
    }
    let mut worst = 0;
    for file in files {
        let name = file.display();
        let code = match check_file(&file, demand) {
            Ok(report) => {
                for line in report.faults.to_string().lines() {
                    println!("{name}: {line}");
                }
                u8::from(!report.is_good())
            }
            Err(error) => {
                match error {
                    CheckError::Source(error) => eprintln!("{error}"), // Names the file.
                    error => eprintln!("{name}: {error}"),
                }
                2
            }
        };
        worst = worst.max(code);
    }
    ExitCode::from(worst)
}
