//! Memory by stack as a file for speedscope (<https://www.speedscope.app/file-format-schema.json>).

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use hashbrown::HashMap;
use serde::Serialize;
use trace_format::{Commit, Event, StackId};

use super::{ExportError, NO_STACK};
use crate::holders::{HolderFrame, stacks_at_peak};
use crate::snapshot::Stacks;
use crate::tape::Device;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: &'static str,
    name: &'a str,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Default, Serialize)]
struct Shared {
    frames: Vec<FrameText>,
}

#[derive(Serialize)]
struct FrameText {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    file: String,
    #[serde(skip_serializing_if = "is_zero")]
    line: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    /// Stacks, outermost frame first.
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(line: &u32) -> bool {
    *line == 0
}

/// Writes two profiles of each device to `path`, where the file appears when it is complete: the bytes that each stack
/// held at the first moment with the most allocated, and the bytes that each allocated over the run.
///
/// # Errors
/// When the file cannot be written.
pub fn write_speedscope(
    path: &Path,
    name: &str,
    stacks: &Stacks,
    devices: &[&Device],
) -> Result<(), ExportError> {
    let mut frames = Frames { stacks, known: HashMap::new(), shared: Shared::default() };
    let mut profiles = Vec::new();
    for device in devices {
        let at_peak = stacks_at_peak(device);
        profiles.push(frames.profile(format!("device {}: at the peak", device.id), &at_peak));
        let mut over_run = BTreeMap::new();
        for record in &device.records {
            if let Event::Alloc { size_bytes, .. } = record.event {
                *over_run.entry(record.stack).or_default() += size_bytes;
            }
        }
        let title = format!("device {}: allocated over the run", device.id);
        profiles.push(frames.profile(title, &over_run));
    }
    let exporter = concat!("vramtape ", env!("CARGO_PKG_VERSION"));
    let file = File { schema: SCHEMA, exporter, name, shared: frames.shared, profiles };
    let write = || -> io::Result<()> {
        let (out, commit) = Commit::begin(path)?;
        let mut out = BufWriter::new(out);
        serde_json::to_writer(&mut out, &file)?;
        out.flush()?;
        commit.finish()
    };
    write().map_err(|source| ExportError { path: path.to_owned(), source })
}

/// The frames of the file, each once.
struct Frames<'s> {
    stacks: &'s Stacks,
    known: HashMap<(String, String, u32), usize>,
    shared: Shared,
}

impl Frames<'_> {
    fn profile(&mut self, name: String, bytes: &BTreeMap<StackId, u64>) -> Profile {
        let samples = bytes.keys().map(|stack| self.sample(*stack)).collect();
        let weights: Vec<u64> = bytes.values().copied().collect();
        let (kind, unit) = ("sampled", "bytes");
        let end_value = weights.iter().sum();
        Profile { kind, name, unit, start_value: 0, end_value, samples, weights }
    }

    fn sample(&mut self, stack: StackId) -> Vec<usize> {
        let frames = HolderFrame::of(self.stacks, self.stacks.frames_of(stack));
        if frames.is_empty() {
            return vec![self.number(NO_STACK.to_owned(), String::new(), 0)];
        }
        let outermost_first = frames.into_iter().rev();
        outermost_first.map(|frame| self.number(frame.function, frame.file, frame.line)).collect()
    }

    fn number(&mut self, name: String, file: String, line: u32) -> usize {
        let frames = &mut self.shared.frames;
        *self.known.entry((name, file, line)).or_insert_with_key(|(name, file, line)| {
            frames.push(FrameText { name: name.clone(), file: file.clone(), line: *line });
            frames.len() - 1
        })
    }
}
