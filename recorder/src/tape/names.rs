//! A ring's numbers for strings and stacks as numbers of a tape.

use std::io::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use trace_format::{BaseState, Event, Frame, Record, StackId, StringId, WriteError, Writer};

use crate::ring::{Ring, RingReader};

/// Where a ring's strings and stacks are found.
pub(super) trait Texts {
    /// The string behind a number.
    fn string(&mut self, id: StringId) -> Option<Arc<str>>;
    /// The frames behind a number.
    fn stack(&mut self, id: StackId) -> Option<Vec<Frame>>;
}

impl Texts for Arc<Ring> {
    fn string(&mut self, id: StringId) -> Option<Arc<str>> {
        Ring::string(self, id)
    }

    fn stack(&mut self, id: StackId) -> Option<Vec<Frame>> {
        Ring::stack(self, id)
    }
}

impl Texts for RingReader {
    fn string(&mut self, id: StringId) -> Option<Arc<str>> {
        RingReader::string(self, id).map(Arc::from)
    }

    fn stack(&mut self, id: StackId) -> Option<Vec<Frame>> {
        RingReader::stack(self, id)
    }
}

/// What a tape already has of a ring's strings and stacks.
#[derive(Debug)]
pub(super) struct Names<T> {
    ring: T,
    strings: FxHashMap<StringId, StringId>,
    stacks: FxHashMap<StackId, StackId>,
}

impl<T: Texts> Names<T> {
    pub(super) fn new(ring: T) -> Self {
        Self { ring, strings: FxHashMap::default(), stacks: FxHashMap::default() }
    }

    /// Where strings and stacks are found.
    pub(super) fn texts_mut(&mut self) -> &mut T {
        &mut self.ring
    }

    /// Makes a record of the ring a record of the tape.
    #[inline]
    pub(super) fn record<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
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
    pub(super) fn base<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
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

    fn string<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        id: StringId,
    ) -> Result<StringId, WriteError> {
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
    fn stack<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        id: StackId,
    ) -> Result<StackId, WriteError> {
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
