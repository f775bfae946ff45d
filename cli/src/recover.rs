//! `vramtape recover`: the tape of a process that was killed, from what its rings still hold.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use recorder::{Recovered, RingReader, join_rings, list_rings, recover_rings};
use serde::Serialize;

use crate::rings::RingFolder;
use crate::table::Table;
use crate::{Verdict, caller, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A process, or one ring's file; without it, list what is available
    #[arg(value_name = "PID|RING", requires = "output")]
    what: Option<String>,
    /// Where to write the tape
    #[arg(short, long, value_name = "FILE", requires = "what")]
    output: Option<PathBuf>,
    /// The tape that the process was writing, whose end is torn; the rings go on from there
    #[arg(long, value_name = "TAPE", requires = "what")]
    tape: Option<PathBuf>,
    /// Replace the file if it is there
    #[arg(short, long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    rings: RingFolder,
}

/// A ring as it is listed.
#[derive(Serialize)]
struct Ring {
    path: PathBuf,
    pid: u32,
    device: u16,
    is_live: bool,
    /// Events that it held so far, nearly.
    written: u64,
    /// Of these, how many it still holds at most.
    held: u64,
}

#[derive(Serialize)]
struct List {
    rings: Vec<Ring>,
}

#[derive(Serialize)]
struct Report {
    tape: PathBuf,
    devices: Vec<Made>,
}

#[derive(Serialize)]
struct Made {
    device: u16,
    records: u64,
    lost: u64,
    /// Whether the tape starts with the state before its first record, so that it replays.
    has_base: bool,
    /// Records that its ring had no space for, a sentence each.
    missing: Vec<String>,
}

/// Lists, or writes the tape.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let (Some(what), Some(tape)) = (&options.what, &options.output) else {
        list(options)?;
        return Ok(Verdict::Good);
    };
    output::check(tape, options.force)?;
    let rings = rings_of(what, &options.rings.path())?;
    let recovered = match &options.tape {
        Some(torn) => join_rings(torn, &rings, tape)?,
        None => recover_rings(&rings, tape)?,
    };
    let devices = recovered.iter().map(|recovered| {
        let Recovered { device, records, lost, has_base, missing } = recovered.clone();
        Made { device: device.0, records, lost, has_base, missing }
    });
    let report = Report { tape: tape.clone(), devices: devices.collect() };
    if options.json {
        output::print_json(&report)?;
    } else {
        for device in &report.devices {
            output::print(&sentence(tape, device, options.tape.is_some()))?;
        }
    }
    let is_whole = report.devices.iter().all(|device| device.has_base);
    Ok(if is_whole { Verdict::Good } else { Verdict::Bad })
}

fn sentence(tape: &Path, device: &Made, is_joined: bool) -> String {
    let Made { device, records, lost, has_base, missing } = device;
    let before = match (lost, has_base) {
        (0, true) if is_joined => "the rings go on where the tape ended".to_owned(),
        (0, true) => "everything since the process began".to_owned(),
        (_, true) => format!("the state to replay from; {lost} others are gone"),
        (_, false) => "no state to replay them from: its tables were too small or are damaged; set ring_events higher"
            .to_owned(),
    };
    let mut lines =
        vec![format!("{}: device {device}, {records} records, and {before}\n", tape.display())];
    lines.extend(missing.iter().map(|what| format!("  {what}\n")));
    lines.concat()
}

fn list(options: &Options) -> Result<()> {
    let list = List { rings: all(&options.rings.path())? };
    if options.json {
        return output::print_json(&list);
    }
    if list.rings.is_empty() {
        return output::print("no ring: nothing records here, and nothing that did was killed\n");
    }
    let mut table = Table::new(&["ring", ">pid", ">device", "process", ">events"]);
    for ring in &list.rings {
        table.row([
            ring.path.display().to_string(),
            ring.pid.to_string(),
            ring.device.to_string(),
            if ring.is_live { "runs" } else { "is dead" }.to_owned(),
            ring.held.to_string(),
        ]);
    }
    output::print(&table.render())
}

/// The rings in the folder that this version can read.
fn all(folder: &Path) -> Result<Vec<Ring>> {
    let paths = list_rings(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut rings = Vec::new();
    for path in paths {
        match RingReader::open(&path) {
            Ok(reader) => {
                let info = reader.info();
                rings.push(Ring {
                    path,
                    pid: info.pid,
                    device: info.device.0,
                    is_live: reader.is_live(),
                    written: info.written,
                    held: info.written.min(info.slots),
                });
            }
            Err(error) => caller::warn(&error.to_string()),
        }
    }
    Ok(rings)
}

/// The file, or all rings of the process: of the dead ones where a living process has its id by now.
fn rings_of(what: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let Ok(pid) = what.parse::<u32>() else {
        let ring = PathBuf::from(what);
        if fs::symlink_metadata(&ring).is_err() {
            bail!(
                "{what} is neither a process with a ring nor a ring: `vramtape recover` lists both"
            );
        }
        return Ok(vec![ring]);
    };
    let mut rings = all(folder)?;
    rings.retain(|ring| ring.pid == pid);
    if rings.iter().any(|ring| !ring.is_live) {
        rings.retain(|ring| !ring.is_live);
    }
    for (at, ring) in rings.iter().enumerate() {
        if let Some(other) = rings[..at].iter().find(|other| other.device == ring.device) {
            bail!(
                "two processes {pid} left a ring of device {}: name one of {} and {}",
                ring.device,
                other.path.display(),
                ring.path.display()
            );
        }
    }
    if rings.is_empty() {
        bail!(
            "process {pid} has no ring in {}: `vramtape recover` lists those that are there; a process that ended by \
             itself and wrote a tape leaves none",
            folder.display()
        );
    }
    Ok(rings.into_iter().map(|ring| ring.path).collect())
}
