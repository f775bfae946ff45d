//! The writer's side: finds the ids of known entries, and keeps new entries until a chunk is written.

use rustc_hash::FxHashMap;

use super::{FRAME_COST_BYTES, Frame, stack_cost_bytes, string_cost_bytes};
use crate::{
    FrameId, StackId, StringId,
    layout::{TABLES_MAX_BYTES, count_of},
    varint::{put, put_bytes},
};

/// Everything interned so far, and the encoded additions that no chunk holds yet.
#[derive(Debug, Default)]
pub(crate) struct TapeInterner {
    strings: FxHashMap<Box<str>, StringId>,
    frames: FxHashMap<Frame, FrameId>,
    stacks: FxHashMap<Box<[FrameId]>, StackId>,
    new_strings: Additions,
    new_frames: Additions,
    new_stacks: Additions,
    /// The size of the tables in a reader.
    bytes: usize,
}

/// The tape's tables have reached the limit of readers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// New entries of one table, encoded.
#[derive(Debug, Default)]
struct Additions {
    bytes: Vec<u8>,
    count: u32,
}

impl TapeInterner {
    /// Number of strings; string 0, the empty one, is not counted.
    pub(crate) fn strings_len(&self) -> u32 {
        count_of(self.strings.len())
    }

    /// Number of stacks; stack 0, none, is not counted.
    pub(crate) fn stacks_len(&self) -> u32 {
        count_of(self.stacks.len())
    }

    /// Bytes that wait for a chunk.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.new_strings.bytes.len() + self.new_frames.bytes.len() + self.new_stacks.bytes.len()
    }

    pub(crate) fn string(&mut self, text: &str) -> Result<StringId, Full> {
        if text.is_empty() {
            return Ok(StringId(0));
        }
        if let Some(&id) = self.strings.get(text) {
            return Ok(id);
        }
        self.grow(string_cost_bytes(text))?;
        let id = StringId(self.strings_len() + 1);
        self.strings.insert(text.into(), id);
        put_bytes(&mut self.new_strings.bytes, text.as_bytes());
        self.new_strings.count += 1;
        Ok(id)
    }

    pub(crate) fn stack(&mut self, frames: &[Frame]) -> Result<StackId, Full> {
        if frames.is_empty() {
            return Ok(StackId::NONE);
        }
        let ids: Result<Box<[FrameId]>, Full> =
            frames.iter().map(|frame| self.frame(*frame)).collect();
        let ids = ids?;
        if let Some(&id) = self.stacks.get(&ids) {
            return Ok(id);
        }
        self.grow(stack_cost_bytes(ids.len()))?;
        let id = StackId(self.stacks_len() + 1);
        let out = &mut self.new_stacks.bytes;
        put(out, ids.len() as u64);
        for frame in &ids {
            put(out, frame.0.into());
        }
        self.new_stacks.count += 1;
        self.stacks.insert(ids, id);
        Ok(id)
    }

    fn frame(&mut self, frame: Frame) -> Result<FrameId, Full> {
        if let Some(&id) = self.frames.get(&frame) {
            return Ok(id);
        }
        self.grow(FRAME_COST_BYTES)?;
        let id = FrameId(count_of(self.frames.len()));
        self.frames.insert(frame, id);
        let out = &mut self.new_frames.bytes;
        put(out, frame.name.0.into());
        put(out, frame.filename.0.into());
        put(out, frame.line.into());
        self.new_frames.count += 1;
        Ok(id)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        if self.bytes + bytes > TABLES_MAX_BYTES {
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Appends the payload of a strings chunk to `out` and returns how many strings it adds; `None` if there are none.
    pub(crate) fn take_strings(&mut self, out: &mut Vec<u8>) -> Option<u32> {
        let count = std::mem::take(&mut self.new_strings.count);
        put(out, (self.strings_len() - count).into());
        out.append(&mut self.new_strings.bytes);
        (count > 0).then_some(count)
    }

    /// Appends the payload of a stacks chunk to `out` and returns how many stacks it adds; `None` if it adds nothing.
    pub(crate) fn take_stacks(&mut self, out: &mut Vec<u8>) -> Option<u32> {
        let frames = std::mem::take(&mut self.new_frames.count);
        let count = std::mem::take(&mut self.new_stacks.count);
        put(out, self.frames.len() as u64 - u64::from(frames));
        put(out, frames.into());
        out.append(&mut self.new_frames.bytes);
        put(out, (self.stacks_len() - count).into());
        out.append(&mut self.new_stacks.bytes);
        (frames > 0 || count > 0).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Tables, *};

    /// An entry refused at the limit leaves the tables of writer and reader the same.
    #[test]
    fn full_tables_refuse_new_entries_and_find_old_ones() {
        let frame = |line| Frame { line, ..Frame::default() };
        let room = string_cost_bytes("old") + 4 * FRAME_COST_BYTES + stack_cost_bytes(1) + 3;
        let mut interner =
            TapeInterner { bytes: TABLES_MAX_BYTES - room, ..TapeInterner::default() };
        assert_eq!(interner.string("old"), Ok(StringId(1)));
        assert_eq!(interner.stack(&[frame(1)]), Ok(StackId(1)));
        assert_eq!(interner.stack(&[frame(2), frame(3), frame(4)]), Err(Full));
        assert_eq!(interner.string("new"), Err(Full));
        assert_eq!(interner.string("old"), Ok(StringId(1)));
        assert_eq!(interner.stack(&[frame(1)]), Ok(StackId(1)));
        let mut tables = Tables::default();
        let mut payload = Vec::new();
        let strings = interner.take_strings(&mut payload).unwrap();
        tables.add_strings(&payload, strings).unwrap();
        payload.clear();
        let stacks = interner.take_stacks(&mut payload).unwrap();
        tables.add_stacks(&payload, stacks).unwrap();
        assert_eq!((tables.strings_len(), tables.frames_len(), tables.stacks_len()), (1, 4, 1));
        assert_eq!(interner.take_stacks(&mut payload), None);
    }
}
