//! A killed process's tape, which ends with its last whole chunk, and its ring, which goes on from before there: one
//! tape of both.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;
use trace_format::{
    DeviceId, Event, Frame, Item, Meta, Reader, Record, StackId, StringId, Tables, WriteError,
    Writer,
};

use super::names::{Names, Texts};
use super::recover::{RecoverError, Recovered, held_by, meta_of};
use super::ring_slice::{RingSlice, Written};
use crate::cast;
use crate::ring::RingReader;

/// Records at the end of the tape that are looked for in the ring.
const SOUGHT: usize = 256;
/// Times of one record differ by this at most: a ring's clock becomes more exact while it runs.
const SAME_TIME_NS: u64 = 10_000_000;

/// Saves the tape at `torn`, and what its process's rings hold beyond it, at `path`, where the file appears when it is
/// complete. Where a ring does not reach back to the tape's end, the gap is on the tape as a loss, with the state
/// behind it.
///
/// # Errors
/// Where the tape or a ring cannot be read or the file cannot be written.
pub fn join_rings(
    torn: &Path,
    rings: &[PathBuf],
    path: &Path,
) -> Result<Vec<Recovered>, RecoverError> {
    let mut readers =
        rings.iter().map(|ring| RingReader::open_named(ring)).collect::<Result<Vec<_>, _>>()?;
    let end = readers.first_mut().and_then(|ring| meta_of(ring).end);
    let mut reader = Reader::open(torn)?;
    let mut writer = Writer::create(path, &without_end(reader.meta()))?;
    let tails = copy(&mut reader, &mut writer)?;
    let append = |ring: RingReader| {
        let tail = tails.get(&ring.info().device);
        append(ring, tail.unwrap_or(&Tail::default()), &mut writer)
    };
    let recovered: Vec<Recovered> = readers.into_iter().map(append).collect::<Result<_, _>>()?;
    let mut meta = Meta { end, ..reader.meta().clone() };
    meta.inferred.extend(recovered.iter().flat_map(|ring| ring.missing.clone()));
    writer.meta(&meta)?;
    writer.finish()?;
    Ok(recovered)
}

/// The end of a device's records on the tape.
#[derive(Default)]
struct Tail {
    last: VecDeque<Record>,
    records: u64,
    /// Records that the tape says it lost.
    lost: u64,
    /// Whether the tape has records or a state of the device.
    is_begun: bool,
}

/// The strings and stacks of the tape, as far as it was read.
#[derive(Default)]
struct TapeTexts {
    strings: Vec<Arc<str>>,
    stacks: Vec<Vec<Frame>>,
}

impl TapeTexts {
    fn learn(&mut self, tables: &Tables) {
        for id in cast::count_of(self.strings.len())..=tables.strings_len() {
            self.strings.push(Arc::from(tables.string(StringId(id)).unwrap_or_default()));
        }
        for id in cast::count_of(self.stacks.len())..=tables.stacks_len() {
            let frames = tables.stack(StackId(id)).unwrap_or_default().iter();
            self.stacks.push(frames.filter_map(|frame| tables.frame_ids(*frame)).collect());
        }
    }
}

impl Texts for TapeTexts {
    fn string(&mut self, id: StringId) -> Option<Arc<str>> {
        self.strings.get(id.0 as usize).cloned()
    }

    fn stack(&mut self, id: StackId) -> Option<Vec<Frame>> {
        self.stacks.get(id.0 as usize).cloned()
    }
}

/// The process went on behind the end of a tape that failed.
fn without_end(meta: &Meta) -> Meta {
    Meta { end: None, ..meta.clone() }
}

/// Copies all whole chunks.
fn copy<R: Read, W: Write>(
    reader: &mut Reader<R>,
    writer: &mut Writer<W>,
) -> Result<FxHashMap<DeviceId, Tail>, RecoverError> {
    let mut names = Names::new(TapeTexts::default());
    let mut tails = FxHashMap::<DeviceId, Tail>::default();
    while let Some(item) = reader.next() {
        let item = item?;
        names.texts_mut().learn(reader.tables());
        match item {
            Item::Meta(meta) => writer.meta(&without_end(&meta))?,
            Item::Base(device, base) => {
                let base = names.base(writer, *base)?;
                writer.base(device, &base)?;
                tails.entry(device).or_default().is_begun = true;
            }
            Item::Event(device, record) => {
                let tail = tails.entry(device).or_default();
                tail.is_begun = true;
                match record.event {
                    Event::Lost { count } => tail.lost += count,
                    _ => tail.records += 1,
                }
                if tail.last.len() == SOUGHT {
                    tail.last.pop_front();
                }
                tail.last.push_back(record);
                let record = names.record(writer, record)?;
                writer.push(device, &record)?;
            }
        }
    }
    Ok(tails)
}

/// Writes what the ring has beyond the tape.
fn append<W: Write>(
    mut ring: RingReader,
    tail: &Tail,
    writer: &mut Writer<W>,
) -> Result<Recovered, RecoverError> {
    let RingSlice { device, end, records, lost, initial } = held_by(&mut ring);
    let begins_both = !tail.is_begun && lost == 0;
    let Some(known) = goes_on_at(&tail.last, &records).or(begins_both.then_some(0)) else {
        let lost = lost.saturating_sub(tail.records + tail.lost).max(1);
        let slice = RingSlice { device, end, records, lost, initial };
        let missing = ring.info().missing();
        let mut names = Names::new(ring);
        let Written { records, lost, has_base } = slice.write(writer, &mut names)?;
        names.texts_mut().check()?;
        return Ok(Recovered { device, records: tail.records + records, lost, has_base, missing });
    };
    let mut names = Names::new(ring);
    // The same clock read later is more exact, and must not run backwards for that.
    let last_ns = tail.last.back().map_or(0, |record| record.time_ns);
    let push = |record: &Record| -> Result<(), WriteError> {
        let mut record = names.record(writer, *record)?;
        record.time_ns = record.time_ns.max(last_ns);
        writer.push(device, &record)
    };
    records[known..].iter().try_for_each(push)?;
    names.texts_mut().check()?;
    let records = tail.records + (records.len() - known) as u64;
    Ok(Recovered { device, records, lost: 0, has_base: true, missing: Vec::new() })
}

/// How many of the ring's records are on the tape already: up to where its last ones are found. Steps of a training
/// loop are like each other, so that the time decides between several such places.
fn goes_on_at(tail: &VecDeque<Record>, records: &[Record]) -> Option<usize> {
    let last_ns = tail.back()?.time_ns;
    let begin = records.partition_point(|record| record.time_ns + SAME_TIME_NS < last_ns);
    let near = begin + 1..=records.len();
    let near = near.take_while(|end| records[end - 1].time_ns <= last_ns + SAME_TIME_NS);
    let is_there = |end: &usize| {
        let before = records[..*end].iter().rev();
        before.zip(tail.iter().rev()).all(|(ring, tape)| is_same(&ring.event, &tape.event))
    };
    near.filter(is_there).min_by_key(|end| records[end - 1].time_ns.abs_diff(last_ns))
}

/// Whether both are one event; of strings, the ring and the tape have different numbers.
fn is_same(ring: &Event, tape: &Event) -> bool {
    match (ring, tape) {
        (Event::Settings { .. }, Event::Settings { .. }) => true,
        (Event::Mark { kind, .. }, Event::Mark { kind: other, .. }) => kind == other,
        _ => ring == tape,
    }
}
