//! `vramtape info RUN`: what a run holds.

mod count;
mod folder;
mod mappings;
mod module;
mod origin;

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::Result;
use replay::categories::CategoryMemory;
use replay::ending::Ending;
use replay::host_memory::HostMemory;
use replay::import::RunLimits;
use replay::tape::Tape;
use serde::Serialize;
use trace_format::Meta;

use crate::input::TrustFlag;
use crate::start::Started;
use crate::{Verdict, bytes, holders, input, output};
use count::DeviceInfo;

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A tape, a snapshot or a log; or a folder, whose runs are listed
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Info {
    meta: Meta,
    /// How the file ended.
    end: String,
    finished: bool,
    /// The command that gets the rest of a killed run from its rings, where those are still there.
    recover: Option<String>,
    /// How the program ended.
    ending: Ending,
    /// Pinned host memory; `null` where the run has no statistics of it.
    host_memory: Option<HostMemory>,
    strings: u64,
    stacks: u64,
    devices: Vec<DeviceInfo>,
}

/// Reads the run and prints a summary.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    if options.run.is_dir() {
        return folder::run(&options.run, options.json);
    }
    let tape = input::read(&options.run, &options.trust.with(&RunLimits::default()))?;
    let info = Info {
        end: tape.recovery.to_string(),
        finished: tape.recovery.finished,
        recover: origin::recovery_command(&options.run, &tape),
        ending: Ending::of(&tape),
        host_memory: HostMemory::of(&tape),
        strings: tape.stacks.strings.len() as u64 - 1,
        stacks: tape.stacks.stacks.len() as u64 - 1,
        devices: devices(&tape)?,
        meta: tape.meta.clone(),
    };
    if options.json {
        output::print_json(&info)?;
    } else {
        output::print(&text(&tape, &info)?)?;
    }
    Ok(Verdict::Good)
}

/// What is known about the program, as names and texts.
pub(crate) fn facts(meta: &Meta) -> Vec<(String, String)> {
    let inferred = meta.inferred.iter().map(|what| ("inferred", Some(what.clone())));
    let rows = origin::rows(meta).into_iter().chain(inferred);
    let known = rows.filter_map(|(name, value)| Some((name, value.filter(|it| !it.is_empty())?)));
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn devices(tape: &Tape) -> Result<Vec<DeviceInfo>> {
    tape.devices.iter().map(|device| DeviceInfo::of(tape, device)).collect()
}

fn text(tape: &Tape, info: &Info) -> Result<String> {
    let mut text = String::new();
    let meta = &tape.meta;
    let before = [("written by", Some(meta.producer.clone()))];
    let after = [
        ("ended", Some(info.ending.to_string())),
        ("file", (info.end != "complete").then(|| info.end.clone())),
        ("recover", info.recover.clone()),
        ("pinned host", info.host_memory.map(|host| host.at(Some(host.last)))),
        ("stacks", (info.stacks > 0).then(|| info.stacks.to_string())),
    ];
    for (name, value) in before.into_iter().chain(origin::rows(meta)).chain(after) {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            writeln!(text, "{name:<12} {value}")?;
        }
    }
    for what in &meta.inferred {
        writeln!(text, "{:<12} {what}", "inferred")?;
    }
    for device in &info.devices {
        let name = tape.device_meta(trace_format::DeviceId(device.id));
        let name = name.map_or("", |device| device.name.as_str());
        writeln!(text, "{}", format!("\ndevice {} {name}", device.id).trim_end())?;
        writeln!(text, "  records        {:>14}", device.records)?;
        if let Some(start) = device.start {
            write!(text, "  {}", Started { start, cold: false }.sentence(None))?;
        }
        if device.lost > 0 {
            writeln!(text, "  lost           {:>14}", device.lost)?;
            writeln!(text, "  left out       {:>14}", device.left_out)?;
        }
        if let Some(seconds) = device.seconds {
            writeln!(text, "  seconds        {seconds:>14.3}")?;
        }
        writeln!(text, "  peak allocated {:>14}", bytes::show(device.peak_allocated_bytes))?;
        for CategoryMemory { category, allocated_bytes, .. } in &device.peak_held {
            writeln!(text, "    {category:<15} {:>11}", bytes::show(*allocated_bytes))?;
        }
        writeln!(text, "  peak reserved  {:>14}", bytes::show(device.peak_reserved_bytes))?;
        if let Some(mappings) = &device.mappings {
            mappings.write(&mut text)?;
        }
        for (name, count) in &device.events {
            writeln!(text, "  {name:<14} {count:>14}")?;
        }
        if device.peak_allocated_bytes > 0 {
            write!(text, "\n{}", holders::text(&device.holders))?;
        }
        if !device.peak_modules.is_empty() {
            write!(text, "\n{}", module::table(&device.peak_modules))?;
        }
    }
    Ok(text)
}
