//! Strings, lines of code and call stacks by number: one table for all rings of a process.
//!
//! A stack is its caller's stack and one more frame, so that stacks share what they have in common. Ids never change
//! and never go away; the table is bounded instead, and what no longer fits has no number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;
use trace_format::{Frame, FrameId, StackId, StringId};

use crate::cast;

/// Stacks, callers' stacks included: 2^21 slots of the hash table, at most seven eighths of them full.
pub(super) const STACKS_MAX: usize = 7 << 18;
/// Frames.
pub(super) const FRAMES_MAX: usize = 1 << 20;
/// Bytes of all strings.
const STRINGS_MAX_BYTES: usize = 32 << 20;
/// Strings; a ring's text log has 24 bits for a number.
const STRINGS_MAX: usize = 1 << 24;

/// What records name by number.
#[derive(Debug, Default)]
pub struct Interner {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    strings: Vec<Arc<str>>,
    string_ids: HashMap<Arc<str>, StringId>,
    string_bytes: usize,
    frames: Vec<Frame>,
    frame_ids: FxHashMap<Frame, FrameId>,
    /// Stack `n` is at `n - 1`.
    stacks: Vec<Node>,
    stack_ids: HashTable<StackId>,
}

/// A stack: one frame, called by another stack. Its number is higher than its caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) caller: StackId,
    pub(super) frame: FrameId,
}

impl Interner {
    /// The number of `text`: 0 for the empty string, from 1 on for others. `None` where there is no room for another.
    pub fn string(&self, text: &str) -> Option<StringId> {
        self.lock().string(text)
    }

    /// The number of a frame whose strings are from here. `None` where there is no room for another.
    pub fn frame(&self, frame: Frame) -> Option<FrameId> {
        self.lock().frame(frame)
    }

    /// The number of the stack that is `caller` (a number from here, or none) with one more frame inside. `None` where
    /// there is no room for another.
    pub fn stack(&self, caller: StackId, frame: FrameId) -> Option<StackId> {
        self.lock().stack(Node { caller, frame })
    }

    /// The text of a number that [`string`](Self::string) gave; `None` for 0 and for any other.
    pub fn text(&self, id: StringId) -> Option<Arc<str>> {
        self.lock().strings.get((id.0 as usize).checked_sub(1)?).cloned()
    }

    /// The frames of a stack, innermost first; `None` where it is not from here.
    pub fn frames(&self, id: StackId) -> Option<Vec<Frame>> {
        let inner = self.lock();
        let mut node = inner.node(id)?;
        let mut frames = Vec::new();
        loop {
            frames.push(*inner.frames.get(node.frame.0 as usize)?);
            match inner.node(node.caller) {
                Some(caller) => node = caller,
                None => return Some(frames),
            }
        }
    }

    /// A frame by its number.
    pub(super) fn frame_of(&self, id: FrameId) -> Option<Frame> {
        self.lock().frames.get(id.0 as usize).copied()
    }

    /// A stack by its number.
    pub(super) fn node(&self, id: StackId) -> Option<Node> {
        self.lock().node(id)
    }

    /// Bytes that it takes, about.
    pub fn size_bytes(&self) -> usize {
        let inner = self.lock();
        // The text is kept once, with two counts before it; each table entry has a byte of its own besides.
        let string = 16 + 2 * size_of::<Arc<str>>() + size_of::<StringId>() + 1;
        let frame = size_of::<Frame>();
        inner.string_bytes
            + inner.strings.capacity() * string
            + inner.frames.capacity() * frame
            + inner.frame_ids.capacity() * (frame + size_of::<FrameId>() + 1)
            + inner.stacks.capacity() * size_of::<Node>()
            + inner.stack_ids.allocation_size()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is complete before anything can panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn string(&mut self, text: &str) -> Option<StringId> {
        if text.is_empty() {
            return Some(StringId(0));
        }
        if let Some(&id) = self.string_ids.get(text) {
            return Some(id);
        }
        let bytes = self.string_bytes + text.len();
        if bytes > STRINGS_MAX_BYTES || self.strings.len() + 1 >= STRINGS_MAX {
            return None;
        }
        self.string_bytes = bytes;
        let text: Arc<str> = Arc::from(text);
        self.strings.push(Arc::clone(&text));
        let id = StringId(cast::count_of(self.strings.len()));
        self.string_ids.insert(text, id);
        Some(id)
    }

    fn frame(&mut self, frame: Frame) -> Option<FrameId> {
        if let Some(&id) = self.frame_ids.get(&frame) {
            return Some(id);
        }
        if self.frames.len() == FRAMES_MAX {
            return None;
        }
        let id = FrameId(cast::count_of(self.frames.len()));
        self.frames.push(frame);
        self.frame_ids.insert(frame, id);
        Some(id)
    }

    fn stack(&mut self, node: Node) -> Option<StackId> {
        let Self { stacks, stack_ids, .. } = self;
        let hash = |node: &Node| FxBuildHasher.hash_one(node);
        let of = |id: &StackId| stacks[id.0 as usize - 1];
        if let Some(&id) = stack_ids.find(hash(&node), |id| of(id) == node) {
            return Some(id);
        }
        if stacks.len() == STACKS_MAX {
            return None;
        }
        let id = StackId(cast::count_of(stacks.len()) + 1);
        stack_ids.insert_unique(hash(&node), id, |id| hash(&of(id)));
        stacks.push(node);
        Some(id)
    }

    fn node(&self, id: StackId) -> Option<Node> {
        self.stacks.get((id.0 as usize).checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(table: &Interner, line: u32) -> FrameId {
        let name = table.string("forward").unwrap();
        let filename = table.string("model.py").unwrap();
        table.frame(Frame { name, filename, line }).unwrap()
    }

    #[test]
    fn a_stack_is_its_frames_from_the_inside_and_has_one_number() {
        let table = Interner::default();
        let [outer, inner] = [frame(&table, 1), frame(&table, 2)];
        let caller = table.stack(StackId::NONE, outer).unwrap();
        let stack = table.stack(caller, inner).unwrap();
        assert!(caller < stack);
        assert_eq!(table.stack(caller, inner), Some(stack));
        assert_ne!(table.stack(StackId::NONE, inner), Some(stack));
        let lines: Vec<u32> = table.frames(stack).unwrap().iter().map(|frame| frame.line).collect();
        assert_eq!(lines, [2, 1]);
        assert_eq!((table.frames(StackId::NONE), table.frames(StackId(99))), (None, None));
        assert_eq!(table.text(table.string("forward").unwrap()).as_deref(), Some("forward"));
        assert_eq!((table.string(""), table.text(StringId(0))), (Some(StringId(0)), None));
    }

    /// What is full refuses what is new and still knows what is old.
    #[test]
    fn the_table_is_bounded() {
        let table = Interner::default();
        let frame = frame(&table, 1);
        let mut newest = StackId::NONE;
        for _ in 0..STACKS_MAX {
            newest = table.stack(newest, frame).expect("room");
        }
        assert_eq!(table.stack(newest, frame), None);
        assert_eq!(table.stack(StackId::NONE, frame), Some(StackId(1)));
        let full = "x".repeat(STRINGS_MAX_BYTES);
        assert_eq!(table.string(&full), None);
        assert_eq!(table.string("forward"), Some(StringId(1)));
        println!("{STACKS_MAX} nodes: {} bytes", table.size_bytes());
        assert!(table.size_bytes() < 32 << 20);
    }
}
