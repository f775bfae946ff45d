//! A ring's numbers for strings and stacks as numbers of a tape.

use std::fs::File;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use trace_format::{BaseState, Event, Frame, Record, StackId, StringId, WriteError, Writer};

use crate::record::ring::Ring;

/// What a tape already has of a ring's strings and stacks.
#[derive(Debug)]
pub(super) struct Names {
    ring: Arc<Ring>,
    strings: FxHashMap<StringId, StringId>,
    stacks: FxHashMap<StackId, StackId>,
}

impl Names {
    pub(super) fn new(ring: Arc<Ring>) -> Self {
        Self { ring, strings: FxHashMap::default(), stacks: FxHashMap::default() }
    }

    /// Makes a record of the ring a record of the tape.
    #[inline]
    pub(super) fn record(
        &mut self,
        writer: &mut Writer<File>,
        mut record: Record,
    ) -> Result<Record, WriteError> {
        record.stack = self.stack(writer, record.stack)?;
        match &mut record.event {
            Event::Settings { text: name } | Event::Mark { name, .. } => {
                *name = self.string(writer, *name)?;
            }
            _ => {}
        }
        Ok(record)
    }

    /// The same for a base state, whose blocks remember stacks.
    pub(super) fn base(
        &mut self,
        writer: &mut Writer<File>,
        mut base: BaseState,
    ) -> Result<BaseState, WriteError> {
        for segment in &mut base.segments {
            segment.stack = self.stack(writer, segment.stack)?;
            for block in &mut segment.blocks {
                block.stack = self.stack(writer, block.stack)?;
            }
        }
        Ok(base)
    }

    fn string(&mut self, writer: &mut Writer<File>, id: StringId) -> Result<StringId, WriteError> {
        if let Some(&known) = self.strings.get(&id) {
            return Ok(known);
        }
        let on_tape = match self.ring.string(id) {
            Some(text) => writer.string(&text)?,
            None => StringId::default(),
        };
        self.strings.insert(id, on_tape);
        Ok(on_tape)
    }

    #[inline]
    fn stack(&mut self, writer: &mut Writer<File>, id: StackId) -> Result<StackId, WriteError> {
        if id == StackId::NONE {
            return Ok(id);
        }
        if let Some(&known) = self.stacks.get(&id) {
            return Ok(known);
        }
        let frames = self.ring.stack(id);
        let frames = frames.iter().flat_map(|frames| frames.iter()).map(|frame| {
            let name = self.string(writer, frame.name)?;
            let filename = self.string(writer, frame.filename)?;
            Ok(Frame { name, filename, line: frame.line })
        });
        let frames = frames.collect::<Result<Vec<_>, WriteError>>()?;
        let on_tape = writer.stack(&frames)?;
        self.stacks.insert(id, on_tape);
        Ok(on_tape)
    }
}
