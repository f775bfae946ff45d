//! The flight recorder's ring: a mapped file of fixed slots that keeps the newest records, whatever becomes of us.
//!
//! One writer (under the heap's lock), any number of readers that it does not notice: the drainer that writes the
//! tape, and other processes. The file holds the records and the strings they name; it is never truncated, and all
//! its pages exist before it is used, so writing to it cannot fail.

mod base;
mod clock_snapshot;
mod contexts;
mod cursor;
mod file_region;
mod layout;
mod look;
mod mappings;
mod memory;
mod pack;
mod pages;
mod pool_state;
mod pool_table;
mod protocol;
mod reader;
mod recorder;
mod region;
mod retention;
mod ring_file;
mod segments;
mod statistics;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod thread;
mod warning;
mod words;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use trace_format::{DeviceId, Frame, Meta, Record, StackId, StringId};

use super::clock::{Calibration, Moment};
use super::interner::Interner;
use clock_snapshot::ClockSnapshot;
pub(super) use cursor::{Cursor, Reached};
use layout::Shape;
pub(super) use memory::Memory;
pub use reader::{RingError, RingInfo, RingReader, is_ring};
pub use recorder::RingRecorder;
use region::{HeaderField, Region};
pub use retention::remove_dead_rings;
use ring_file::RingFile;
pub use ring_file::{RING_DIR_VARIABLE, list_readable_rings, list_rings, ring_dir};
use tables::RingNames;

/// Fewer slots than this hold no whole wide event.
const SLOTS_MIN: usize = 16;
/// Bytes of a ring's text log, unless its maker needs more.
const TEXT_BYTES: usize = 1 << 20;
/// The most of a text log for each slot: a small ring holds few records, which name few stacks.
const TEXT_BYTES_PER_SLOT: usize = 16;

/// Longest string kept, in bytes; longer ones are cut, as one mark must not fill the text log.
const STRING_MAX_BYTES: usize = 64 << 10;
/// Deepest stack kept; of a deeper one (an endless recursion) the innermost frames.
const FRAMES_MAX: usize = 4 << 10;

/// How to make a ring.
#[derive(Clone, Debug)]
pub struct RingOptions {
    /// Where its file goes; [`ring_dir`] for all but tests.
    pub dir: PathBuf,
    /// Device whose events it takes.
    pub device: DeviceId,
    /// Records it holds, rounded up to a power of two. Each takes 32 bytes; a rare one takes several.
    pub slots: usize,
    /// Whether it has a table of the mappings of pages, which `stitch` alone has.
    pub has_pages: bool,
}

/// A ring in its own process, shared between its recorder and its readers.
#[derive(Debug)]
pub struct Ring {
    device: DeviceId,
    region: Region,
    tables: RingNames,
    /// `None` in memory of this process alone, and after [`Ring::remove`].
    file: Mutex<Option<RingFile>>,
    /// Whether this is a forked child, in which the ring's pages are the parent's.
    is_muted: AtomicBool,
}

/// The parts of a ring of so many slots whose text log has at most `text_bytes`.
fn shape_of(slots: usize, has_pages: bool, text_bytes: usize) -> Shape {
    let scaled = slots.saturating_mul(TEXT_BYTES_PER_SLOT).max(TEXT_BYTES);
    let shape = Shape::new(slots, text_bytes.min(scaled) / 8);
    if has_pages { shape.with_pages() } else { shape }
}

impl Ring {
    fn create(
        options: &RingOptions,
        text_bytes: usize,
        names: Arc<Interner>,
        calibration: &Calibration,
    ) -> io::Result<Self> {
        let slots = options.slots.max(SLOTS_MIN).checked_next_power_of_two().unwrap_or(usize::MAX);
        let shape = shape_of(slots, options.has_pages, text_bytes);
        let size_bytes = Region::size_bytes(shape).ok_or(io::ErrorKind::OutOfMemory)?;
        let in_file = || {
            retention::remove_excess(&options.dir, retention::Limits::of(&options.dir)?);
            let (file, to_map) = RingFile::create(&options.dir, options.device, size_bytes)?;
            match Region::in_file(&to_map, shape) {
                Ok(region) => Ok((Some(file), region)),
                Err(error) => {
                    file.remove();
                    Err(error)
                }
            }
        };
        let (file, region) = match in_file() {
            Ok(in_file) => in_file,
            Err(error) => {
                tracing::warn!("{}", warning::anonymous(options, text_bytes, size_bytes, &error));
                (None, Region::anonymous(shape)?)
            }
        };
        region.set(HeaderField::Pid, u64::from(std::process::id()));
        region.set(HeaderField::ProcessStart, process_start_ticks());
        region.set(HeaderField::Device, u64::from(options.device.0));
        region.set(HeaderField::NsPerTick, calibration.ns_per_tick.to_bits());
        clock_snapshot::set_newest(&region, ClockSnapshot { number: 0, moment: calibration.start });
        region.seal();
        let (file, is_muted) = (Mutex::new(file), AtomicBool::new(false));
        Ok(Self { device: options.device, region, tables: RingNames::new(names), file, is_muted })
    }

    /// Writes into the file what a tape of it says: process, settings, device. Called before anything is recorded, and
    /// again at the end of a process whose ring stays; the last description counts.
    pub fn describe(&self, meta: &Meta) {
        match serde_json::to_string(meta) {
            Ok(json) if !self.is_muted() => self.tables.describe(&self.region, &json),
            Ok(_) => {}
            Err(error) => tracing::warn!(
                "a tape recovered from the ring will not name its program and settings: {error}"
            ),
        }
    }

    /// The device whose events it takes.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Records that it holds at most.
    pub fn slots(&self) -> u64 {
        self.region.slots()
    }

    /// Slots written so far, nearly all of them records. Under the heap's lock: the number of the next one.
    pub fn sequence(&self) -> u64 {
        self.region.head()
    }

    /// The ring's number for `text`; 0 for the empty string. Takes a lock of its own, never the heap's.
    pub fn intern(&self, text: &str) -> StringId {
        // In a child another thread of the parent may hold the lock for ever.
        if text.is_empty() || self.is_muted() {
            return StringId(0);
        }
        self.tables.intern(&self.region, cut(text))
    }

    /// The number of a stack, innermost frame first, whose strings were [interned](Self::intern) here; none where
    /// there is no room for it. To be called before the heap's lock is taken.
    pub fn intern_stack(&self, frames: &[Frame]) -> StackId {
        if self.is_muted() {
            return StackId::NONE;
        }
        let names = self.tables.names();
        let mut innermost_first = frames[..frames.len().min(FRAMES_MAX)].iter().rev();
        let stack = innermost_first
            .try_fold(StackId::NONE, |caller, frame| names.stack(caller, names.frame(*frame)?));
        stack.inspect(|id| self.tell_stack(*id)).unwrap_or(StackId::NONE)
    }

    /// Writes this stack of the ring's [`Interner`] where readers find it. To be called before the
    /// heap's lock is taken to record something with it.
    #[inline]
    pub fn tell_stack(&self, id: StackId) {
        if !self.is_muted() {
            self.tables.tell(&self.region, id);
        }
    }

    /// The text behind a number that [`intern`](Self::intern) gave; `None` for 0 and for any other.
    pub fn string(&self, id: StringId) -> Option<Arc<str>> {
        self.tables.names().text(id)
    }

    /// The frames behind a number that [`intern_stack`](Self::intern_stack) gave; `None` for any other.
    pub fn stack(&self, id: StackId) -> Option<Vec<Frame>> {
        self.tables.names().frames(id)
    }

    /// The ring's file, if it has one that is this process's own.
    pub fn path(&self) -> Option<PathBuf> {
        if self.is_muted() {
            return None;
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.as_ref().map(|file| file.path.clone())
    }

    /// Removes the file, as at a normal exit. Recording goes on, unseen.
    pub fn remove(&self) {
        if self.is_muted() {
            return;
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(file) = file {
            file.remove();
        }
    }

    /// Leaves the file where it is when the process ends, and returns whether there is one. To be called at that end:
    /// such files are pruned sooner than those of killed processes.
    pub fn keep(&self) -> bool {
        if self.is_muted() {
            return false;
        }
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        file.is_some_and(RingFile::keep)
    }

    /// Call in a forked child, before it allocates or frees: it records nothing from here on, and its copy of the
    /// file's lock no longer says that the parent lives. Waits for nothing.
    pub fn after_fork_child(&self) {
        self.is_muted.store(true, Ordering::Relaxed);
        if let Ok(mut file) = self.file.try_lock() {
            *file = None;
        }
    }

    /// Hands out the records from `cursor` to number `end`, which is not past [`sequence`](Self::sequence).
    ///
    /// # Errors
    /// What `take` returns, at once.
    pub(super) fn read<E>(
        &self,
        cursor: &mut Cursor,
        end: u64,
        take: impl FnMut(Record) -> Result<(), E>,
    ) -> Result<Reached, E> {
        cursor.read(&self.region, end, take)
    }

    /// The newest records from slot number `start` on and before number `end`, without a gap, and how many slots of
    /// these are gone.
    pub(super) fn newest(&self, start: u64, end: u64) -> (u64, Vec<Record>) {
        cursor::newest(&self.region, start, end)
    }

    /// Makes the length of a tick more exact, for all readers.
    fn refine(&self, start: Moment, now: Moment) {
        let ns_per_tick = f64::from_bits(self.region.get(HeaderField::NsPerTick));
        let refined = Calibration { start, ns_per_tick }.refined(now);
        self.region.set(HeaderField::NsPerTick, refined.ns_per_tick.to_bits());
    }

    /// Adds to the records that a tape lost.
    pub(super) fn add_lost_by_tape(&self, count: u64) {
        self.region.word(HeaderField::LostByTape).fetch_add(count, Ordering::Relaxed);
    }

    /// Whether a tape of the ring is written, for readers: `Some(false)` after writing has failed.
    pub(super) fn set_on_tape(&self, is_on_tape: Option<bool>) {
        self.region.set(
            HeaderField::Tape,
            is_on_tape.map_or(0, |is_written| if is_written { 1 } else { 2 }),
        );
    }

    /// As [`set_on_tape`](Self::set_on_tape) set it.
    pub(super) fn is_on_tape(&self) -> Option<bool> {
        on_tape(self.region.get(HeaderField::Tape))
    }

    /// Records that a tape lost.
    pub fn lost_by_tape(&self) -> u64 {
        self.region.get(HeaderField::LostByTape)
    }

    #[inline]
    fn is_muted(&self) -> bool {
        self.is_muted.load(Ordering::Relaxed)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The meaning of [`HeaderField::Tape`].
fn on_tape(word: u64) -> Option<bool> {
    (word != 0).then_some(word == 1)
}

/// `text`, up to the longest string kept.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(STRING_MAX_BYTES)).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Field 22 of `/proc/self/stat`; 0 where it cannot be read.
fn process_start_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in brackets that may hold anything, brackets and blanks included.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    after_name.split_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}
