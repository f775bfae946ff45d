//! The runs of a folder, a row each.

use std::fs;
use std::path::Path;

use anyhow::Result;
use replay::ending::Ending;
use replay::import::RunLimits;
use replay::ranks::{Skipped, find};
use replay::tape::Tape;
use serde::Serialize;

use super::devices;
use crate::progress::Spinner;
use crate::table::Table;
use crate::{Verdict, bytes, describe, output};

#[derive(Serialize)]
struct Folder {
    runs: Vec<Run>,
    /// Files that are no runs, or cannot be read.
    skipped: Vec<Skipped>,
}

#[derive(Serialize)]
struct Run {
    name: String,
    size_bytes: u64,
    devices: usize,
    records: u64,
    /// The most that one of its devices held from the device at once.
    peak_reserved_bytes: u64,
    finished: bool,
    /// How the program ended.
    ending: Ending,
}

/// Lists the runs.
pub(super) fn run(folder: &Path, as_json: bool) -> Result<Verdict> {
    let found = find(&[folder.to_owned()])?;
    let mut listed = Folder { runs: Vec::new(), skipped: found.skipped.clone() };
    for (file, name) in found.files.iter().zip(found.names()) {
        let reading = Spinner::start(&format!("reading {}", file.display()));
        match info_of(file, name) {
            Ok(run) => listed.runs.push(run),
            Err(error) => {
                let (file, reason) = (file.display().to_string(), describe(&error));
                listed.skipped.push(Skipped { file, reason });
            }
        }
        drop(reading);
    }
    if as_json {
        output::print_json(&listed)?;
    } else {
        output::print(&text(folder, &listed))?;
    }
    Ok(Verdict::Good)
}

fn info_of(file: &Path, name: String) -> Result<Run> {
    let tape = Tape::open(file, &RunLimits::default())?;
    let devices = devices(&tape)?;
    Ok(Run {
        name,
        size_bytes: fs::metadata(file)?.len(),
        devices: devices.len(),
        records: tape.records_len(),
        peak_reserved_bytes: devices.iter().map(|info| info.peak_reserved_bytes).max().unwrap_or(0),
        finished: tape.recovery.finished,
        ending: Ending::of(&tape),
    })
}

fn text(folder: &Path, listed: &Folder) -> String {
    let mut table =
        Table::new(&["run", ">size", ">devices", ">records", ">peak reserved", "ended"]);
    for run in &listed.runs {
        table.row([
            run.name.clone(),
            bytes::show(run.size_bytes),
            run.devices.to_string(),
            run.records.to_string(),
            bytes::show(run.peak_reserved_bytes),
            run.ending.to_string(),
        ]);
    }
    let skipped = listed.skipped.iter();
    let skipped = skipped.map(|Skipped { file, reason }| format!("left out: {file}: {reason}\n"));
    let next = format!("\nnext: vramtape info {}/RUN for one of them\n", folder.display());
    table.render() + &skipped.collect::<String>() + &next
}
