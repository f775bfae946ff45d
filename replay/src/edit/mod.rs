//! What if the program had asked for something else: a tape and edits in, another tape out.
//!
//! The edits change requests only: who asks, how much, on which stream. What the edited program does to memory is then
//! recorded anew, by the real allocator under the run's settings on a device without limit, so that the new tape is one
//! like any other. What was there at the tape's start stays as it was.

mod rewrite;

use allocator::config::Config;
use serde::Serialize;
use trace_format::{Event, MarkKind, PoolId, Record, StackId, Stream, StringId};

use crate::driver::{DriveError, Driver, Follow};
use crate::run::{DeviceTape, Options, scripted_device};
use crate::snapshot::Stacks;
use crate::tape::{Device, Tape};
use crate::timeline::Timeline;
use rewrite::{Matches, rewrite};

/// What to change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edits {
    /// Leave out allocations with one of these in a frame of their stack, as `file:line name`.
    pub drop: Vec<String>,
    /// Multiply sizes.
    pub scale: Vec<Scale>,
    /// Work of the first stream is done on the second.
    pub merge_streams: Vec<(Stream, Stream)>,
}

/// A change of sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// What sizes are multiplied by; more than 0.
    pub factor: f64,
    /// Only where this is in a frame of the stack; everywhere for `None`.
    pub pattern: Option<String>,
}

/// What the edits did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Requests left out.
    pub dropped: u64,
    /// What they asked for together.
    pub dropped_bytes: u64,
    /// Requests of another size.
    pub scaled: u64,
    /// Requests on another stream.
    pub moved: u64,
    /// Frees that wait for no other stream any more.
    pub freed_at_once: u64,
}

/// Edits that make no sense for a tape.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Nothing to do.
    #[error("no edit: give --drop, --scale or --merge-stream")]
    Nothing,
    /// A factor that makes no size.
    #[error("--scale {factor}: the factor has to be more than 0 and at most 1000")]
    Factor {
        /// The factor.
        factor: f64,
    },
    /// A pattern that no stack has.
    #[error("no stack has a frame with `{pattern}`{advice}")]
    NoStack {
        /// The pattern.
        pattern: String,
        /// What to try.
        advice: &'static str,
    },
    /// A stream that nothing was asked for.
    #[error("nothing was asked for on stream {stream}, only on {known}")]
    NoStream {
        /// The stream.
        stream: Stream,
        /// Those that there are.
        known: String,
    },
    /// The run's settings cannot be replayed.
    #[error("the recorded settings `{text}` cannot be replayed: {reason}")]
    Settings {
        /// The settings.
        text: String,
        /// Why.
        reason: String,
    },
    /// The tape cannot be replayed.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

impl Edits {
    /// Where a stream's work is done.
    fn stream(&self, stream: Stream) -> Stream {
        let moved = self.merge_streams.iter().find(|(from, _)| *from == stream);
        moved.map_or(stream, |(_, to)| *to)
    }

    fn check(&self, tape: &Tape) -> Result<(), EditError> {
        if *self == Self::default() {
            return Err(EditError::Nothing);
        }
        for Scale { factor, .. } in &self.scale {
            if !(*factor > 0.0 && *factor <= 1000.0) {
                return Err(EditError::Factor { factor: *factor });
            }
        }
        let mut known: Vec<_> =
            tape.devices.iter().flat_map(|device| &device.records).filter_map(stream_of).collect();
        known.sort_unstable();
        known.dedup();
        for &(stream, _) in &self.merge_streams {
            if !known.contains(&stream) {
                let known: Vec<_> = known.iter().map(ToString::to_string).collect();
                return Err(EditError::NoStream { stream, known: known.join(", ") });
            }
        }
        Ok(())
    }
}

fn stream_of(record: &Record) -> Option<Stream> {
    match record.event {
        Event::Alloc { stream, .. } | Event::Oom { stream, .. } => Some(stream),
        _ => None,
    }
}

/// The tape of the edited program, and what was changed.
///
/// # Errors
/// When an edit means nothing on this tape, or the tape cannot be replayed.
pub fn edit(tape: &Tape, edits: &Edits) -> Result<(Tape, Summary), EditError> {
    edits.check(tape)?;
    let dropped = edits.drop.iter().map(|pattern| stacks_with(&tape.stacks, pattern));
    let dropped = dropped.collect::<Result<Vec<_>, _>>()?;
    let scaled = edits.scale.iter().map(|scale| match &scale.pattern {
        Some(pattern) => stacks_with(&tape.stacks, pattern),
        None => Ok(vec![true; tape.stacks.stacks.len().max(1)]),
    });
    let matches = Matches {
        dropped: (0..tape.stacks.stacks.len())
            .map(|stack| dropped.iter().any(|list| list[stack]))
            .collect(),
        scaled: scaled.collect::<Result<_, _>>()?,
    };
    let parsed = Config::parse(&tape.meta.alloc_conf, tape.compat());
    let config = parsed.map_err(|error| EditError::Settings {
        text: tape.meta.alloc_conf.clone(),
        reason: error.to_string(),
    })?;
    let mut summary = Summary::default();
    let mut edited = tape.clone();
    for device in &mut edited.devices {
        let requests = rewrite(&device.records, edits, &matches, &mut summary);
        record_anew(tape, device, &requests, &config.config)?;
        (device.lost, device.left_out) = (0, 0);
    }
    edited.meta.inferred.push(format!(
        "edited: {} requests dropped, {} scaled, {} moved to another stream; placed anew by PyTorch's policy under the \
         recorded settings on a device without limit",
        summary.dropped, summary.scaled, summary.moved
    ));
    Ok((edited, summary))
}

/// Which stacks have a frame with the pattern.
fn stacks_with(stacks: &Stacks, pattern: &str) -> Result<Vec<bool>, EditError> {
    let has = |stack: usize| {
        stacks.frames_of(StackId(stack as u32)).any(|frame| {
            let (file, name) = (stacks.text(frame.filename), stacks.text(frame.name));
            format!("{file}:{} {name}", frame.line).contains(pattern)
        })
    };
    let list: Vec<_> = (0..stacks.stacks.len()).map(has).collect();
    if list.contains(&true) {
        return Ok(list);
    }
    let advice = if stacks.stacks.len() <= 1 {
        ": the run was recorded without stacks; stacks:alloc in VRAMTAPE_CONF records them"
    } else {
        "; `vramtape top`, or the run in PyTorch's viewer, shows its stacks"
    };
    Err(EditError::NoStack { pattern: pattern.to_owned(), advice })
}

/// Puts what the allocator does with the requests in the place of the device's records, and what it starts from, at its
/// own addresses, in the place of the start.
fn record_anew(
    tape: &Tape,
    device: &mut Device,
    requests: &[Record],
    config: &Config,
) -> Result<(), EditError> {
    let options = Options {
        strategy: config.clone().into(),
        capacity_bytes: None,
        memory_fraction: None,
        recorded_addresses: false,
        follow: Follow::default(),
    };
    let text = |id| tape.text(id);
    let start = DeviceTape { base: &device.base, records: &[], text: &text };
    let sim = scripted_device(start, &options, config);
    let timeline = Timeline::default();
    let mut driver = Driver::new(sim, config.clone(), timeline, &device.base, options.follow)?;
    let segments = driver.heap().segments(PoolId::DEFAULT);
    for record in requests {
        // The device has no end here, so that nothing is refused: marks hold the places of what was.
        let event = match record.event {
            Event::Oom { .. } | Event::DriverRefused { .. } => PLACE,
            event => event,
        };
        driver.step(&Record { event, ..*record }, text)?;
    }
    let mut records = std::mem::take(&mut driver.heap_mut().recorder_mut().records);
    keep_words(requests, &mut records);
    device.records = records;
    device.base.segments = segments;
    Ok(())
}

/// A mark that no tape has: its name is beyond any table of strings.
const PLACE: Event = Event::Mark { kind: MarkKind::Instant, name: StringId(u32::MAX) };

/// Gives changes of settings their text back, emptied caches whether they were only concluded, and refusals their
/// place: the allocator records none of these.
fn keep_words(requests: &[Record], records: &mut [Record]) {
    let is_word =
        |event: &Event| matches!(event, Event::Settings { .. } | Event::EmptyCache { .. });
    let is_refusal =
        |event: &Event| matches!(event, Event::Oom { .. } | Event::DriverRefused { .. });
    let events = requests.iter().map(|record| record.event);
    let mut words = events.filter(|event| is_word(event) || is_refusal(event));
    for record in
        records.iter_mut().filter(|record| is_word(&record.event) || record.event == PLACE)
    {
        if let Some(word) = words.next() {
            record.event = word;
        }
    }
}
