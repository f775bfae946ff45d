//! The call stacks of allocations and their frames.

use std::path::Path;

use replay::snapshot::Stacks;
use trace_format::{Frame, StackId};

use crate::row::{Column, Row, ids, texts};
use crate::sink::Sink;
use crate::{Format, Result, Source, Written};

struct StackRow {
    stack_id: u32,
    depth: u32,
    site: Option<String>,
    stack: String,
}

impl Row for StackRow {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("stack_id", |rows| ids(rows, |row| Some(row.stack_id))),
            ("depth", |rows| ids(rows, |row| Some(row.depth))),
            ("site", |rows| texts(rows, |row| row.site.as_deref())),
            ("stack", |rows| texts(rows, |row| Some(&row.stack))),
        ]
    }
}

struct FrameRow<'t> {
    stack_id: u32,
    depth: u32,
    function: &'t str,
    file: &'t str,
    line: u32,
}

impl Row for FrameRow<'_> {
    fn columns() -> Vec<Column<Self>> {
        vec![
            ("stack_id", |rows| ids(rows, |row| Some(row.stack_id))),
            ("depth", |rows| ids(rows, |row| Some(row.depth))),
            ("function", |rows| texts(rows, |row| Some(row.function))),
            ("file", |rows| texts(rows, |row| Some(row.file))),
            ("line", |rows| ids(rows, |row| Some(row.line).filter(|line| *line > 0))),
        ]
    }
}

/// Every stack but the one that is none.
fn stacks_of(stacks: &Stacks) -> impl Iterator<Item = StackId> {
    (1..stacks.stacks.len() as u32).map(StackId)
}

pub(crate) fn write_stacks(source: &Source<'_>, path: &Path, format: Format) -> Result<Written> {
    let mut sink = Sink::create(path, format)?;
    for id in stacks_of(source.stacks) {
        let frames = source.stacks.frames_of(id).map(|frame| text(source.stacks, frame));
        let mut frames: Vec<_> = frames.collect();
        let (depth, site) = (frames.len() as u32, frames.first().cloned());
        frames.reverse();
        sink.push(StackRow { stack_id: id.0, depth, site, stack: frames.join(";") })?;
    }
    sink.end()
}

/// A frame in words, those of `vramtape edit`.
fn text(stacks: &Stacks, frame: Frame) -> String {
    format!("{}:{} {}", stacks.text(frame.filename), frame.line, stacks.text(frame.name))
}

pub(crate) fn write_frames(source: &Source<'_>, path: &Path, format: Format) -> Result<Written> {
    let mut sink = Sink::create(path, format)?;
    for id in stacks_of(source.stacks) {
        for (depth, frame) in source.stacks.frames_of(id).enumerate() {
            let Frame { name, filename, line } = frame;
            sink.push(FrameRow {
                stack_id: id.0,
                depth: depth as u32,
                function: source.stacks.text(name),
                file: source.stacks.text(filename),
                line,
            })?;
        }
    }
    sink.end()
}
