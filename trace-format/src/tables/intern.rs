//! The writer's side: finds the number of what is known, and keeps what is new until a chunk takes it.

use rustc_hash::FxHashMap;

use super::Frame;
use crate::{
    ids::{FrameId, StackId, StringId},
    varint::{put, put_bytes},
};

/// Everything interned so far, and the encoded additions that no chunk holds yet.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    strings: FxHashMap<Box<str>, StringId>,
    frames: FxHashMap<Frame, FrameId>,
    stacks: FxHashMap<Box<[FrameId]>, StackId>,
    new_strings: Additions,
    new_frames: Additions,
    new_stacks: Additions,
}

/// New entries of one table, encoded.
#[derive(Debug, Default)]
struct Additions {
    bytes: Vec<u8>,
    count: u32,
}

impl Interner {
    /// Number of strings; string 0, the empty one, is not counted.
    pub(crate) fn strings_len(&self) -> u32 {
        self.strings.len() as u32
    }

    /// Number of stacks; stack 0, none, is not counted.
    pub(crate) fn stacks_len(&self) -> u32 {
        self.stacks.len() as u32
    }

    /// Bytes that wait for a chunk.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.new_strings.bytes.len() + self.new_frames.bytes.len() + self.new_stacks.bytes.len()
    }

    pub(crate) fn string(&mut self, text: &str) -> StringId {
        if text.is_empty() {
            return StringId(0);
        }
        if let Some(&id) = self.strings.get(text) {
            return id;
        }
        let id = StringId(self.strings_len() + 1);
        self.strings.insert(text.into(), id);
        put_bytes(&mut self.new_strings.bytes, text.as_bytes());
        self.new_strings.count += 1;
        id
    }

    pub(crate) fn stack(&mut self, frames: &[Frame]) -> StackId {
        if frames.is_empty() {
            return StackId::NONE;
        }
        let ids: Box<[FrameId]> = frames.iter().map(|frame| self.frame(*frame)).collect();
        if let Some(&id) = self.stacks.get(&ids) {
            return id;
        }
        let id = StackId(self.stacks_len() + 1);
        let out = &mut self.new_stacks.bytes;
        put(out, ids.len() as u64);
        for frame in &ids {
            put(out, frame.0.into());
        }
        self.new_stacks.count += 1;
        self.stacks.insert(ids, id);
        id
    }

    fn frame(&mut self, frame: Frame) -> FrameId {
        let next = FrameId(self.frames.len() as u32);
        let id = *self.frames.entry(frame).or_insert(next);
        if id == next {
            let out = &mut self.new_frames.bytes;
            put(out, frame.name.0.into());
            put(out, frame.filename.0.into());
            put(out, frame.line.into());
            self.new_frames.count += 1;
        }
        id
    }

    /// Appends the payload of a strings chunk to `out` and returns how many strings it adds.
    pub(crate) fn take_strings(&mut self, out: &mut Vec<u8>) -> u32 {
        let count = std::mem::take(&mut self.new_strings.count);
        put(out, (self.strings_len() - count).into());
        out.append(&mut self.new_strings.bytes);
        count
    }

    /// Appends the payload of a stacks chunk to `out` and returns how many stacks it adds.
    pub(crate) fn take_stacks(&mut self, out: &mut Vec<u8>) -> u32 {
        let frames = std::mem::take(&mut self.new_frames.count);
        let count = std::mem::take(&mut self.new_stacks.count);
        put(out, self.frames.len() as u64 - u64::from(frames));
        put(out, frames.into());
        out.append(&mut self.new_frames.bytes);
        put(out, (self.stacks_len() - count).into());
        out.append(&mut self.new_stacks.bytes);
        count
    }
}
