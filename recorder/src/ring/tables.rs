//! Names of the process that a ring has for its readers: each string, frame and stack once, before the first record
//! that names it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use trace_format::{Frame, FrameId, StackId, StringId};

use super::region::{HeaderField, Region};
use super::text::{self, Entry};
use crate::interner::{Interner, STACKS_MAX};

/// The process's names, and which of them are in this ring's text log.
#[derive(Debug)]
pub(super) struct RingNames {
    names: Arc<Interner>,
    /// A bit for each stack, read without the lock; there once a stack is.
    stacks: OnceLock<Box<[AtomicU64]>>,
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    strings: Bits,
    frames: Bits,
}

impl RingNames {
    pub(super) fn new(names: Arc<Interner>) -> Self {
        Self { names, stacks: OnceLock::new(), written: Mutex::default() }
    }

    pub(super) fn names(&self) -> &Interner {
        &self.names
    }

    /// The number of `text`, which readers know from here on; 0 where there is no room for it.
    pub(super) fn intern(&self, region: &Region, text: &str) -> StringId {
        let mut written = self.lock();
        let Some(id) = self.names.string(text) else {
            region.set(HeaderField::TextMissing, region.get(HeaderField::TextMissing) + 1);
            return StringId(0);
        };
        self.write_string(region, &mut written, id);
        id
    }

    /// Appends what a tape of the ring would say about itself, as JSON.
    pub(super) fn describe(&self, region: &Region, json: &str) {
        let _one_writer = self.lock();
        text::append(region, &Entry::Meta(json.as_bytes().to_vec()));
    }

    /// Sees to it that readers know the stack.
    #[inline]
    pub(super) fn tell(&self, region: &Region, id: StackId) {
        if !self.is_written(id) {
            self.tell_stack(region, id);
        }
    }

    #[inline]
    fn is_written(&self, id: StackId) -> bool {
        let (word, bit) = (id.0 as usize / 64, id.0 % 64);
        let Some(stacks) = self.stacks.get() else { return false };
        stacks.get(word).is_none_or(|word| word.load(Ordering::Acquire) & 1 << bit != 0)
    }

    #[cold]
    fn tell_stack(&self, region: &Region, id: StackId) {
        let mut written = self.lock();
        let stacks = self.stacks.get_or_init(|| {
            // Number 0 is none and needs no telling.
            let words = (0..=STACKS_MAX / 64).map(|word| AtomicU64::new((word == 0).into()));
            words.collect()
        });
        let mut new = Vec::new();
        let mut next = id;
        while !self.is_written(next) {
            let Some(node) = self.names.node(next) else { break };
            new.push((next, node));
            next = node.caller;
        }
        for (id, node) in new.into_iter().rev() {
            if written.frames.insert(node.frame.0)
                && let Some(frame) = self.names.frame_of(node.frame)
            {
                self.write_frame(region, &mut written, node.frame, frame);
            }
            text::append(region, &Entry::Stack(id, node.caller, node.frame));
            stacks[id.0 as usize / 64].fetch_or(1 << (id.0 % 64), Ordering::Release);
        }
    }

    fn write_frame(&self, region: &Region, written: &mut Written, id: FrameId, frame: Frame) {
        self.write_string(region, written, frame.name);
        self.write_string(region, written, frame.filename);
        text::append(region, &Entry::Frame(id, frame));
    }

    fn write_string(&self, region: &Region, written: &mut Written, id: StringId) {
        if let Some(text) = self.names.text(id)
            && written.strings.insert(id.0)
        {
            text::append(region, &Entry::String(id, text.as_bytes().to_vec()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        // Every change is complete before anything can panic.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A set of small numbers.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// Whether `number` was not in the set; it is now.
    fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}
