//! The reader's side: what the chunks so far have defined.

use super::{FRAME_COST_BYTES, Frame, stack_cost_bytes, string_cost_bytes};
use crate::{
    FrameId, StackId, StringId,
    layout::{TABLES_MAX_BYTES, count_of},
    varint::{Cursor, Malformed},
};

/// Strings and stacks read so far.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    strings: Vec<Box<str>>,
    frames: Vec<Frame>,
    /// The frames of all stacks, one stack after the other.
    stack_frames: Vec<FrameId>,
    /// Where each stack ends in `stack_frames`.
    stack_ends: Vec<usize>,
    bytes: usize,
}

/// A frame with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameText<'a> {
    /// The function's name.
    pub name: &'a str,
    /// The file it is in.
    pub filename: &'a str,
    /// The line in that file; 0 where it is not known.
    pub line: u32,
}

impl Tables {
    /// Number of strings; ids run from 1 to it, and 0 is the empty string.
    pub fn strings_len(&self) -> u32 {
        count_of(self.strings.len())
    }

    /// Number of frames; ids run from 0.
    pub fn frames_len(&self) -> u32 {
        count_of(self.frames.len())
    }

    /// Number of stacks; ids run from 1 to it, and 0 is no stack.
    pub fn stacks_len(&self) -> u32 {
        count_of(self.stack_ends.len())
    }

    /// The string of an id that came from this tape.
    pub fn string(&self, id: StringId) -> Option<&str> {
        match (id.0 as usize).checked_sub(1) {
            None => Some(""),
            Some(index) => self.strings.get(index).map(AsRef::as_ref),
        }
    }

    /// A frame by the numbers of its strings.
    pub fn frame_ids(&self, id: FrameId) -> Option<Frame> {
        self.frames.get(id.0 as usize).copied()
    }

    /// The text of a frame.
    pub fn frame(&self, id: FrameId) -> Option<FrameText<'_>> {
        let frame = self.frames.get(id.0 as usize)?;
        let name = self.string(frame.name)?;
        let filename = self.string(frame.filename)?;
        Some(FrameText { name, filename, line: frame.line })
    }

    /// The frames of a stack, the innermost first; none for [`StackId::NONE`].
    pub fn stack(&self, id: StackId) -> Option<&[FrameId]> {
        let Some(index) = (id.0 as usize).checked_sub(1) else { return Some(&[]) };
        let end = *self.stack_ends.get(index)?;
        let begin = index.checked_sub(1).map_or(0, |before| self.stack_ends[before]);
        Some(&self.stack_frames[begin..end])
    }

    /// Their approximate size in memory.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(crate) fn add_strings(&mut self, payload: &[u8], count: u32) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(payload);
        if cursor.u64()? != self.strings.len() as u64 {
            return Err(Malformed::Reference);
        }
        for _ in 0..count {
            let text = cursor.str()?;
            self.grow(string_cost_bytes(text))?;
            self.strings.push(text.into());
        }
        cursor.end()
    }

    pub(crate) fn add_stacks(&mut self, payload: &[u8], count: u32) -> Result<(), Malformed> {
        let mut cursor = Cursor::new(payload);
        if cursor.u64()? != self.frames.len() as u64 {
            return Err(Malformed::Reference);
        }
        for _ in 0..cursor.count()? {
            let name = self.known_string(cursor.u32()?)?;
            let filename = self.known_string(cursor.u32()?)?;
            self.grow(FRAME_COST_BYTES)?;
            self.frames.push(Frame { name, filename, line: cursor.u32()? });
        }
        if cursor.u64()? != self.stack_ends.len() as u64 {
            return Err(Malformed::Reference);
        }
        for _ in 0..count {
            let depth = cursor.count()?;
            self.grow(stack_cost_bytes(depth))?;
            for _ in 0..depth {
                let frame = cursor.u32()?;
                if frame as usize >= self.frames.len() {
                    return Err(Malformed::Reference);
                }
                self.stack_frames.push(FrameId(frame));
            }
            self.stack_ends.push(self.stack_frames.len());
        }
        cursor.end()
    }

    fn known_string(&self, id: u32) -> Result<StringId, Malformed> {
        if id as usize > self.strings.len() { Err(Malformed::Reference) } else { Ok(StringId(id)) }
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.bytes += bytes;
        if self.bytes > TABLES_MAX_BYTES { Err(Malformed::Range) } else { Ok(()) }
    }
}
