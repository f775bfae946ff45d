//! The reading end of a ring's file: live from another process, or after its own is dead.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use events::StatisticsValues;
use rustc_hash::FxHashMap;
use trace_format::{BaseState, DeviceId, Frame, FrameId, Meta, Record, StackId, StringId};

use super::base;
use super::cursor::{self, Cursor, Reached};
use super::file_region::FileRegion;
use super::layout::{self, HeaderField};
use super::look::Look;
use super::ring_file::{self, Whose};
use super::statistics;
use super::text::{self, Entry};

/// Why a ring cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the ring {}: {source}", path.display())]
pub struct RingError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub source: io::Error,
}

/// What a ring says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingInfo {
    /// Process that records, by its own name for itself (in a container, the container's).
    pub pid: u32,
    /// When that process began, in clock ticks since boot (field 22 of `/proc/<pid>/stat`).
    pub process_start_ticks: u64,
    /// Device whose events these are.
    pub device: DeviceId,
    /// Records that the ring holds at most.
    pub slots: u64,
    /// Slots written so far, nearly all of them records, those that are overwritten included.
    pub written: u64,
    /// Records that the process's tape lost because its drainer was too slow.
    pub lost_by_tape: u64,
    /// Whether the process writes a tape: `None` without one, `Some(false)` after writing has failed.
    pub is_on_tape: Option<bool>,
    /// Strings and stacks that are not in the file because its text log is full.
    pub missing_texts: u64,
    /// Live blocks that the base state lacks, because its table is full.
    pub missing_blocks: u64,
    /// Segments that the base state lacks, likewise.
    pub missing_segments: u64,
    /// Pools and open scopes that the base state lacks, likewise.
    pub missing_pools: u64,
}

impl RingInfo {
    /// Whether a base state has all memory and pools. Names of stacks may be missing all the same.
    pub const fn is_complete(&self) -> bool {
        self.missing_blocks == 0 && self.missing_segments == 0 && self.missing_pools == 0
    }

    /// What the ring has no room for, a sentence each.
    pub fn missing(&self) -> Vec<String> {
        let kinds = [
            (self.missing_blocks, "live blocks"),
            (self.missing_segments, "segments"),
            (self.missing_pools, "private pools and scopes"),
            (self.missing_texts, "strings and stacks"),
        ];
        let missing = kinds.into_iter().filter(|(count, _)| *count > 0);
        let advice = "set ring_events in VRAMTAPE_CONF higher";
        missing
            .map(|(count, what)| {
                format!("device {}: the ring has no room for {count} {what}: {advice}", self.device)
            })
            .collect()
    }
}

/// Whether a file that begins with these bytes means to be a ring.
pub fn is_ring(start: &[u8]) -> bool {
    start.starts_with(&layout::MAGIC.to_le_bytes())
}

/// Reads a ring's file. The writer does not notice.
///
/// A ring holds the newest records, what they name, and tables of what is live: a [base state](Self::base_state) can be
/// had of it at any time, also when its process is dead.
#[derive(Debug)]
pub struct RingReader {
    ring: FileRegion,
    path: PathBuf,
    /// Said once, in the header.
    identity: RingInfo,
    cursor: Cursor,
    strings: FxHashMap<StringId, String>,
    frames: FxHashMap<FrameId, Frame>,
    /// Its caller's stack, and its innermost frame.
    stacks: FxHashMap<StackId, (StackId, FrameId)>,
    meta: Option<Meta>,
    text_position: usize,
}

impl RingReader {
    /// Opens a ring that was found at `path`.
    ///
    /// # Errors
    /// Where the file cannot be opened, is not this user's own or could be written by others, or is no ring of this
    /// version.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        Self::open_of(path, Whose::Own)
    }

    /// Opens the ring that the user named: root may name that of another user.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn open_named(path: &Path) -> Result<Self, RingError> {
        Self::open_of(path, Whose::Named)
    }

    /// Opens a ring that [`list_readable_rings`](crate::list_readable_rings) found.
    ///
    /// # Errors
    /// As for [`open`](Self::open); as root, as for [`open_named`](Self::open_named).
    pub fn open_readable(path: &Path) -> Result<Self, RingError> {
        Self::open_of(path, ring_file::readable())
    }

    /// Whether the ring is this user's own.
    pub fn is_own(&self) -> bool {
        ring_file::is_own(self.ring.file())
    }

    fn open_of(path: &Path, whose: Whose) -> Result<Self, RingError> {
        let failed = |source| RingError { path: path.to_owned(), source };
        let ring = ring_file::open(path, whose).and_then(FileRegion::open).map_err(failed)?;
        let identity = info(&ring).ok_or_else(|| io::Error::other("its header is damaged"));
        ring.check().map_err(failed)?;
        let identity = identity.map_err(failed)?;
        Ok(Self {
            ring,
            path: path.to_owned(),
            identity,
            cursor: Cursor::default(),
            strings: FxHashMap::from_iter([(StringId(0), String::new())]),
            frames: FxHashMap::default(),
            stacks: FxHashMap::default(),
            meta: None,
            text_position: 0,
        })
    }

    /// What the ring says about itself now; as it said at first where it cannot be read any more.
    pub fn info(&self) -> RingInfo {
        let now = info(&self.ring).filter(|_| !self.ring.has_failed());
        now.unwrap_or_else(|| self.identity.clone())
    }

    /// An error if the ring could not be read, now or earlier: something truncated its file. Nothing that was read
    /// since then counts.
    ///
    /// # Errors
    /// As said.
    pub fn check(&self) -> Result<(), RingError> {
        self.ring.check().map_err(|source| RingError { path: self.path.clone(), source })
    }

    /// Whether the recording process lives.
    pub fn is_live(&self) -> bool {
        ring_file::is_live(self.ring.file())
    }

    /// Whether the file was removed, as a process does that ends by itself. If its metadata cannot be read, it counts
    /// as present.
    pub fn is_removed(&self) -> bool {
        self.ring.file().metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Hands out the records since the last call (at first: the oldest there are) and returns how many were
    /// overwritten before they could be read.
    pub fn poll(&mut self, mut take: impl FnMut(Record)) -> u64 {
        let mut take = |record| -> Result<(), Infallible> {
            take(record);
            Ok(())
        };
        let end = self.ring.written();
        let mut lost = 0;
        while let Ok(Reached::Gone) = self.cursor.read(&self.ring, end, &mut take) {
            if self.ring.has_failed() {
                break;
            }
            lost += self.cursor.skip_overwritten(&self.ring);
        }
        lost
    }

    /// The newest records before slot number `end`, without a gap, and how many slots came before them.
    pub fn newest(&self, end: u64) -> (u64, Vec<Record>) {
        cursor::newest(&self.ring, 0, end.min(self.ring.written()))
    }

    /// Goes to slot `next`: what [`base_state`](Self::base_state) gave, or the oldest that is there for 0.
    pub fn seek(&mut self, next: u64) {
        self.cursor.jump(next);
    }

    /// The number of the next slot that [`poll`](Self::poll) looks at.
    pub fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// The state that the records up to a number have led to, and that number, where [`seek`](Self::seek) goes on. Its
    /// stacks are the ring's. Where the tables are full it lacks what [`info`](Self::info) counts as missing.
    ///
    /// # Errors
    /// Where the ring turns over faster than it can be read, is damaged, or cannot be read any more.
    pub fn base_state(&mut self) -> Result<(BaseState, u64), RingError> {
        let failed = |source| RingError { path: self.path.clone(), source };
        let tables = base::read(&self.ring, !self.is_live());
        self.check()?;
        let tables = tables.map_err(failed)?;
        let next = tables.next;
        let (settings, fraction) = match self.meta() {
            Some(meta) => {
                let device = meta.devices.first();
                (meta.alloc_conf.clone(), device.and_then(|device| device.memory_fraction))
            }
            None => (String::new(), None),
        };
        let string = |id| self.string(id).map(str::to_owned);
        let base = tables.into_base(string, settings, fraction);
        let base = base.ok_or_else(|| {
            let reason = "it has no room for the text of the settings: set ring_events higher";
            RingError { path: self.path.clone(), source: io::Error::other(reason) }
        })?;
        Ok((base, next))
    }

    /// The newest copy of the allocator's statistics, and the number of the first record that it does not count, where
    /// [`seek`](Self::seek) goes on. `None` before the first block, and where the allocator counts nothing.
    pub fn statistics(&self) -> Option<(StatisticsValues, u64)> {
        statistics::newest(&self.ring)
    }

    /// The metadata of a tape of the ring: process, settings at the start, device. `None` before
    /// [`describe`](super::Ring::describe).
    pub fn meta(&mut self) -> Option<&Meta> {
        self.read_texts();
        self.meta.as_ref()
    }

    /// The first description, read without the names and stacks behind it. `None` before
    /// [`describe`](super::Ring::describe).
    pub fn description(&self) -> Option<Meta> {
        match text::first(&self.ring)? {
            Entry::Meta(json) => serde_json::from_slice(&json).ok(),
            _ => None,
        }
    }

    /// The string that a record or a frame names; `None` where the file does not have it.
    pub fn string(&mut self, id: StringId) -> Option<&str> {
        if !self.strings.contains_key(&id) {
            self.read_texts();
        }
        self.strings.get(&id).map(String::as_str)
    }

    /// The stack that a record names, innermost frame first; `None` where the file does not have it.
    pub fn stack(&mut self, id: StackId) -> Option<Vec<Frame>> {
        // Whatever an entry names stands before it.
        if !self.stacks.contains_key(&id) {
            self.read_texts();
        }
        let mut frames = Vec::new();
        let mut next = id;
        // A caller's number is lower: this ends.
        while next != StackId::NONE {
            let (caller, frame) = *self.stacks.get(&next)?;
            frames.push(*self.frames.get(&frame)?);
            next = caller;
        }
        Some(frames)
    }

    fn read_texts(&mut self) {
        let Self { ring, text_position, meta, strings, frames, stacks, .. } = self;
        text::read(ring, text_position, |entry| match entry {
            Entry::Meta(json) => *meta = serde_json::from_slice(&json).ok(),
            Entry::String(id, bytes) => {
                strings.insert(id, String::from_utf8_lossy(&bytes).into_owned());
            }
            Entry::Frame(id, frame) => {
                frames.insert(id, frame);
            }
            Entry::Stack(id, caller, frame) => {
                stacks.insert(id, (caller, frame));
            }
        });
    }
}

/// `None` where the header names a process or a device that cannot be.
fn info(ring: &FileRegion) -> Option<RingInfo> {
    Some(RingInfo {
        pid: u32::try_from(ring.field(HeaderField::Pid)).ok()?,
        process_start_ticks: ring.field(HeaderField::ProcessStart),
        device: DeviceId(u16::try_from(ring.field(HeaderField::Device)).ok()?),
        slots: ring.slot_count(),
        written: ring.written(),
        lost_by_tape: ring.field(HeaderField::LostByTape),
        is_on_tape: super::on_tape(ring.field(HeaderField::Tape)),
        missing_texts: ring.field(HeaderField::TextMissing),
        missing_blocks: ring.field(HeaderField::BlocksMissing),
        missing_segments: ring.field(HeaderField::SegmentsMissing),
        missing_pools: ring.field(HeaderField::PoolsMissing),
    })
}
