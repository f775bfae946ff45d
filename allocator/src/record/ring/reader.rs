//! The reading end of a ring's file: live from another process, or after its own is dead.

use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use trace_format::{BaseState, DeviceId, Frame, FrameId, Meta, Record, StackId, StringId};

use super::base;
use super::cursor::{self, Cursor, Reached};
use super::layout::{self, Word};
use super::place;
use super::region::Region;
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
    region: Region,
    file: File,
    path: PathBuf,
    cursor: Cursor,
    strings: FxHashMap<StringId, String>,
    frames: FxHashMap<FrameId, Frame>,
    /// Its caller's stack, and its innermost frame.
    stacks: FxHashMap<StackId, (StackId, FrameId)>,
    meta: Option<Meta>,
    text_position: usize,
}

impl RingReader {
    /// Opens the ring at `path`.
    ///
    /// # Errors
    /// Where the file cannot be opened, or is no ring of this version.
    pub fn open(path: &Path) -> Result<Self, RingError> {
        let open = || {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
            let region = Region::open(&file)?;
            io::Result::Ok((file, region))
        };
        let (file, region) =
            open().map_err(|source| RingError { path: path.to_owned(), source })?;
        Ok(Self {
            region,
            file,
            path: path.to_owned(),
            cursor: Cursor::default(),
            strings: FxHashMap::from_iter([(StringId(0), String::new())]),
            frames: FxHashMap::default(),
            stacks: FxHashMap::default(),
            meta: None,
            text_position: 0,
        })
    }

    /// What the ring says about itself now.
    pub fn info(&self) -> RingInfo {
        RingInfo {
            pid: self.region.get(Word::Pid) as u32,
            process_start_ticks: self.region.get(Word::ProcessStart),
            device: DeviceId(self.region.get(Word::Device) as u16),
            slots: self.region.slots(),
            written: self.region.head(),
            lost_by_tape: self.region.get(Word::LostByTape),
            missing_texts: self.region.get(Word::TextMissing),
            missing_blocks: self.region.get(Word::BlocksMissing),
            missing_segments: self.region.get(Word::SegmentsMissing),
            missing_pools: self.region.get(Word::PoolsMissing),
        }
    }

    /// Whether the recording process lives.
    pub fn is_live(&self) -> bool {
        place::is_live(&self.file)
    }

    /// Whether the file was removed, as a process does that ends by itself. If its metadata cannot be read, it counts
    /// as present.
    pub fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Hands out the records since the last call (at first: the oldest there are) and returns how many were
    /// overwritten before they could be read.
    pub fn poll(&mut self, mut take: impl FnMut(Record)) -> u64 {
        let mut take = |record| -> Result<(), Infallible> {
            take(record);
            Ok(())
        };
        let end = self.region.head();
        let mut lost = 0;
        while let Ok(Reached::Gone) = self.cursor.read(&self.region, end, &mut take) {
            lost += self.cursor.skip_overwritten(&self.region);
        }
        lost
    }

    /// The newest records before slot number `end`, without a gap, and how many slots came before them.
    pub fn newest(&self, end: u64) -> (u64, Vec<Record>) {
        cursor::newest(&self.region, 0, end.min(self.region.head()))
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
    /// Where the ring turns over faster than it can be read, or is damaged.
    pub fn base_state(&mut self) -> Result<(BaseState, u64), RingError> {
        let failed = |source| RingError { path: self.path.clone(), source };
        let tables = base::read(&self.region, !self.is_live()).map_err(failed)?;
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

    /// What a tape of the ring says about itself: process, settings as they were at first, the device. `None` where
    /// nobody [said](super::Ring::describe) it.
    pub fn meta(&mut self) -> Option<&Meta> {
        self.read_texts();
        self.meta.as_ref()
    }

    /// The string that a record or a frame names; `None` where the file does not have it.
    pub fn string(&mut self, id: StringId) -> Option<&str> {
        self.read_texts();
        self.strings.get(&id).map(String::as_str)
    }

    /// The stack that a record names, innermost frame first; `None` where the file does not have it.
    pub fn stack(&mut self, id: StackId) -> Option<Vec<Frame>> {
        self.read_texts();
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
        while let Some(entry) = text::next(&self.region, &mut self.text_position) {
            match entry {
                Entry::Meta(json) => self.meta = serde_json::from_slice(&json).ok(),
                Entry::String(id, bytes) => {
                    self.strings.insert(id, String::from_utf8_lossy(&bytes).into_owned());
                }
                Entry::Frame(id, frame) => {
                    self.frames.insert(id, frame);
                }
                Entry::Stack(id, caller, frame) => {
                    self.stacks.insert(id, (caller, frame));
                }
            }
        }
    }
}
