//! Writing a tape from memory.

use std::io::Write;

use trace_format::{BaseState, Event};
use trace_format::{Frame, Record, StackId, StringId, WriteError, Writer};

use super::Tape;

impl Tape {
    /// Writes everything to `writer`, which was begun with this tape's description. Strings and stacks that nothing
    /// names are written too, so that the tape keeps what its source had.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write<W: Write>(&self, mut writer: Writer<W>) -> Result<W, WriteError> {
        let strings = self.write_strings(&mut writer)?;
        let stacks = self.write_stacks(&mut writer, &strings)?;
        for device in &self.devices {
            if device.base != BaseState::default() {
                writer.base(device.id, &renumber_base(&device.base, &stacks))?;
            }
            for record in &device.records {
                writer.push(device.id, &renumber(record, &strings, &stacks))?;
            }
        }
        writer.finish()
    }

    fn write_strings<W: Write>(&self, writer: &mut Writer<W>) -> Result<Vec<StringId>, WriteError> {
        self.stacks.strings.iter().map(|text| writer.string(text)).collect()
    }

    fn write_stacks<W: Write>(
        &self,
        writer: &mut Writer<W>,
        strings: &[StringId],
    ) -> Result<Vec<StackId>, WriteError> {
        let mut frames = Vec::new();
        let mut ids = Vec::with_capacity(self.stacks.stacks.len());
        for stack in &self.stacks.stacks {
            frames.clear();
            frames.extend(stack.iter().map(|&frame| {
                let Frame { name, filename, line } = self.stacks.frame(frame);
                let (name, filename) = (strings[name.0 as usize], strings[filename.0 as usize]);
                Frame { name, filename, line }
            }));
            ids.push(writer.stack(&frames)?);
        }
        Ok(ids)
    }
}

/// The record under the numbers of the tape being written.
fn renumber(record: &Record, strings: &[StringId], stacks: &[StackId]) -> Record {
    let event = match record.event {
        Event::Settings { text } => Event::Settings { text: strings[text.0 as usize] },
        Event::Mark { kind, name } => Event::Mark { kind, name: strings[name.0 as usize] },
        event => event,
    };
    Record { stack: stacks[record.stack.0 as usize], event, ..*record }
}

fn renumber_base(base: &BaseState, stacks: &[StackId]) -> BaseState {
    let mut base = base.clone();
    for segment in &mut base.segments {
        segment.stack = stacks[segment.stack.0 as usize];
        for block in &mut segment.blocks {
            block.stack = stacks[block.stack.0 as usize];
        }
    }
    base
}
