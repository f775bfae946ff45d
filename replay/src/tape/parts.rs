//! The two parts of a tape with a size limit (`tape_max`), read as one run.
//!
//! The newest part has the tape's name and the one before it `NAME.1`. Each has strings and stacks of its own and
//! begins with the state of memory at the end of the part before, so that the run continues there without a gap.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use trace_format::{
    DeviceId, Event, Frame, FrameId, Item, Meta, ReadError, Reader, Record, StackId, StringId,
    Tables,
};

use super::collect::stretches;
use super::stretch::Stretches;
use super::{Tape, finished, stacks_of};
use crate::snapshot::Stacks;

impl Tape {
    /// Reads the tape at `path` from `source`; where it is the newest part of two that are there, both.
    ///
    /// # Errors
    /// As for [`Reader`].
    pub(super) fn read_parts(
        path: &Path,
        source: impl Read,
        name: String,
        trust_factor: u64,
    ) -> Result<Self, ReadError> {
        let newest = Reader::with_limits(source, name, trust_factor)?;
        let tape = match older_part(path, newest.meta(), trust_factor) {
            Some(older) => join(older, newest),
            None => Self::collect(newest),
        };
        Ok(Self { trust_factor, ..tape? })
    }
}

/// Whether `path` is the older part of a tape that is there, and is read with it.
pub(crate) fn is_older_part(path: &Path) -> bool {
    let newest = path.extension().filter(|end| *end == "1").map(|_| path.with_extension(""));
    newest.is_some_and(|newest| {
        let reader = Reader::open(&newest);
        reader.is_ok_and(|reader| older_part(&newest, reader.meta(), 1).is_some())
    })
}

/// The part before the one that `meta` describes, if it is there and whole.
fn older_part(path: &Path, meta: &Meta, trust_factor: u64) -> Option<Reader<BufReader<File>>> {
    let part = meta.part.filter(|part| *part > 1)?;
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    let path = PathBuf::from(name);
    let file = File::open(&path).ok()?;
    let (file, name) = (BufReader::new(file), path.display().to_string());
    let older = Reader::with_limits(file, name, trust_factor).ok()?;
    let said = older.meta();
    let is_of_this_run = (said.pid, said.start_time_ns, &said.hostname)
        == (meta.pid, meta.start_time_ns, &meta.hostname);
    (is_of_this_run && said.part == Some(part - 1)).then_some(older)
}

/// Both parts; the newest alone where the older one does not reach its beginning.
fn join<A: Read, B: Read>(mut older: Reader<A>, mut newest: Reader<B>) -> Result<Tape, ReadError> {
    let mut devices: Vec<(DeviceId, Stretches)> = Vec::new();
    for item in older.by_ref() {
        let taken = match item {
            Ok(Item::Meta(_)) => Ok(()),
            Ok(Item::Base(id, base)) => stretches(&mut devices, id).base(*base),
            Ok(Item::Event(id, record)) => stretches(&mut devices, id).push(record),
            Err(_) => return Tape::collect(newest),
        };
        if taken.is_err() {
            return Tape::collect(newest);
        }
    }
    if !older.recovered().finished {
        return Tape::collect(newest);
    }
    let mut joined = Joined::new(stacks_of(older.tables()));
    while let Some(item) = newest.next() {
        let item = item?;
        joined.learn(newest.tables());
        let taken = match item {
            Item::Meta(_) => Ok(()),
            Item::Base(id, mut base) => {
                for segment in &mut base.segments {
                    segment.stack = joined.stack(segment.stack);
                    for block in &mut segment.blocks {
                        block.stack = joined.stack(block.stack);
                    }
                }
                stretches(&mut devices, id).base(*base)
            }
            Item::Event(id, record) => stretches(&mut devices, id).push(joined.record(record)),
        };
        taken.map_err(|error| newest.refuse(error.to_string()))?;
    }
    let tape = finished(newest.meta(), newest.recovered(), devices, joined.all);
    Ok(Tape { meta: Meta { part: None, ..tape.meta }, ..tape })
}

/// Strings and stacks of both, and the newest part's under their numbers there.
struct Joined {
    all: Stacks,
    string_ids: HashMap<String, StringId>,
    frame_ids: HashMap<Frame, FrameId>,
    stack_ids: HashMap<Box<[FrameId]>, StackId>,
    strings: Vec<StringId>,
    frames: Vec<FrameId>,
    stacks: Vec<StackId>,
}

impl Joined {
    fn new(all: Stacks) -> Self {
        Self {
            string_ids: numbered(&all.strings, StringId),
            frame_ids: numbered(&all.frames, FrameId),
            stack_ids: numbered(&all.stacks, StackId),
            all,
            strings: Vec::new(),
            frames: Vec::new(),
            stacks: Vec::new(),
        }
    }

    /// Takes what the newest part's tables have by now.
    fn learn(&mut self, tables: &Tables) {
        for id in self.strings.len() as u32..=tables.strings_len() {
            let text = tables.string(StringId(id)).unwrap_or_default().to_owned();
            self.strings.push(number(&mut self.all.strings, &mut self.string_ids, text, StringId));
        }
        for id in self.frames.len() as u32..tables.frames_len() {
            let Some(frame) = tables.frame_ids(FrameId(id)) else { continue };
            let (name, filename) = (self.string(frame.name), self.string(frame.filename));
            let frame = Frame { name, filename, ..frame };
            self.frames.push(number(&mut self.all.frames, &mut self.frame_ids, frame, FrameId));
        }
        for id in self.stacks.len() as u32..=tables.stacks_len() {
            let frames = tables.stack(StackId(id)).unwrap_or_default().iter();
            let frames = frames.filter_map(|frame| self.frames.get(frame.0 as usize).copied());
            let frames: Box<[FrameId]> = frames.collect();
            self.stacks.push(number(&mut self.all.stacks, &mut self.stack_ids, frames, StackId));
        }
    }

    fn string(&self, id: StringId) -> StringId {
        self.strings.get(id.0 as usize).copied().unwrap_or_default()
    }

    fn stack(&self, id: StackId) -> StackId {
        self.stacks.get(id.0 as usize).copied().unwrap_or_default()
    }

    fn record(&self, record: Record) -> Record {
        let event = match record.event {
            Event::Settings { text } => Event::Settings { text: self.string(text) },
            Event::Mark { kind, name } => Event::Mark { kind, name: self.string(name) },
            event => event,
        };
        Record { stack: self.stack(record.stack), event, ..record }
    }
}

fn numbered<T: Clone + Eq + Hash, Id>(all: &[T], id: fn(u32) -> Id) -> HashMap<T, Id> {
    all.iter().cloned().enumerate().map(|(at, one)| (one, id(at as u32))).collect()
}

fn number<T: Clone + Eq + Hash, Id: Copy>(
    all: &mut Vec<T>,
    ids: &mut HashMap<T, Id>,
    one: T,
    id: fn(u32) -> Id,
) -> Id {
    *ids.entry(one).or_insert_with_key(|one| {
        all.push(one.clone());
        id(all.len() as u32 - 1)
    })
}
