//! Edits of a run's requests: a tape and edits in, another tape out.
//!
//! The edits change requests only: which are made, how large, on which stream, until when. The edited requests are then
//! recorded anew, by the real allocator under the run's settings on a device without limit, so that the new tape is one
//! like any other. Memory that was live at the tape's start stays as it was.

mod early;
mod plan;
mod repeat;
mod rewrite;
mod rule;

use std::fmt;

use serde::Serialize;
use settings::Config;
use trace_format::{EndKind, Event, MarkKind, ProgramEnd, Record, Stream, StringId};

use crate::driver::{DriveError, Driver, Follow};
use crate::ending::{Ending, Kind};
use crate::run::{Addresses, DeviceTape, Options, scripted_device};
use crate::steps::Steps;
use crate::tape::{Device, Tape};
use crate::timeline::Timeline;
use crate::verify::recorded_config;
use early::free_early;
use plan::Plan;
use repeat::repeat;
use rewrite::rewrite;
pub use rule::{Delay, Edit, FORMS, Form, RuleError};

/// Counts of the edits' effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Requests left out.
    pub dropped: u64,
    /// Their total requested size.
    pub dropped_bytes: u64,
    /// Requests of another size.
    pub scaled: u64,
    /// Requests on another stream.
    pub moved: u64,
    /// Frees that wait for no other stream any more.
    pub freed_at_once: u64,
    /// Blocks that are freed earlier.
    pub freed_early: u64,
    /// Their total requested size.
    pub freed_early_bytes: u64,
    /// Steps added.
    pub repeated_steps: u64,
}

/// The changes in words.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.dropped, "requests dropped"),
            (self.scaled, "requests scaled"),
            (self.moved, "requests moved to another stream"),
            (self.freed_at_once, "frees wait for no other stream any more"),
            (self.freed_early, "blocks freed earlier"),
            (self.repeated_steps, "steps added"),
        ];
        let done = parts.iter().filter(|(count, _)| *count > 0);
        let done: Vec<_> = done.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if done.is_empty() { "nothing changed" } else { "" })?;
        f.write_str(&done.join(", "))
    }
}

/// Edits that make no sense for a tape.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// Nothing to do.
    #[error("no edit is given")]
    Nothing,
    /// A factor that makes no size.
    #[error("scale:{factor}: the factor has to be more than 0 and at most 1000")]
    Factor {
        /// The factor.
        factor: f64,
    },
    /// A delay in time on a run whose records have none.
    #[error("the run has no clock: give the delay of free-after as a number of requests")]
    NoClock,
    /// A pattern that no stack has.
    #[error("no stack has a frame with `{pattern}`{advice}")]
    NoStack {
        /// The pattern.
        pattern: String,
        /// The next thing to try.
        advice: &'static str,
    },
    /// Fewer than two steps.
    #[error(
        "repeat: no whole step was found: steps begin at marks of steps, or name a mark or code behind the number, \
         such as repeat:20:train.py:12"
    )]
    NoStep,
    /// A stream that neither requested nor used memory.
    #[error("the run has no work on stream {stream}, only on {known}")]
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

/// The tape of the edited program, and what was changed.
///
/// # Errors
/// When an edit means nothing on this tape, or the tape cannot be replayed.
pub fn edit(tape: &Tape, edits: &[Edit]) -> Result<(Tape, Summary), EditError> {
    let plan = Plan::new(tape, edits)?;
    let mut summary = Summary::default();
    let mut edited = tape.clone();
    for device in &mut edited.devices {
        let repeated = repeated(tape, device, edits, &mut summary)?;
        let records = repeated.as_deref().unwrap_or(&device.records);
        let records = free_early(records, &plan, &mut summary);
        let requests: Vec<Record> = rewrite(records, &plan, &mut summary).collect();
        let config = recorded_config(tape, device, tape.compat());
        let config = config.map_err(|error| EditError::Settings {
            text: tape.meta.alloc_conf.clone(),
            reason: error.to_string(),
        })?;
        record_anew(tape, device, &requests, &config)?;
        (device.lost, device.left_out) = (0, 0);
    }
    let ending = Ending::of(tape);
    if ending.kind == Kind::Killed {
        // The new file is finished, and the run in it is not.
        let (kind, detail) = (EndKind::TapeFailed, ending.reason());
        edited.meta.end = Some(ProgramEnd { kind, detail, ..ProgramEnd::default() });
    }
    edited.meta.inferred.push(format!(
        "the run is edited: {summary}; placed anew by PyTorch's policy under the recorded settings on a device \
         without limit"
    ));
    Ok((edited, summary))
}

/// A device's records with its last whole step repeated, where an edit repeats it and the device has any.
fn repeated(
    tape: &Tape,
    device: &Device,
    edits: &[Edit],
    summary: &mut Summary,
) -> Result<Option<Vec<Record>>, EditError> {
    let repeats = edits.iter().find_map(|edit| match edit {
        Edit::Repeat { times, steps } => Some((*times, steps.as_deref())),
        _ => None,
    });
    let Some((times, name)) = repeats.filter(|_| !device.records.is_empty()) else {
        return Ok(None);
    };
    let steps = Steps::of(tape, device, name);
    let [.., begin, end] = steps.begins[..] else { return Err(EditError::NoStep) };
    summary.repeated_steps += u64::from(times);
    Ok(Some(repeat(&device.records, begin..end, times)))
}

/// Gives `step` a device's requests without those of the stacks for which the list, by number, has `true`.
pub(crate) fn follow_without<E>(
    records: &[Record],
    stacks: Vec<bool>,
    step: impl FnMut(Record) -> Result<(), E>,
) -> Result<(), E> {
    let (plan, mut summary) = (Plan::without(stacks), Summary::default());
    rewrite(records.iter().copied(), &plan, &mut summary).try_for_each(step)
}

/// The same with the blocks of these stacks freed after their last recorded use.
pub(crate) fn follow_freed_early<E>(
    records: &[Record],
    stacks: Vec<bool>,
    step: impl FnMut(Record) -> Result<(), E>,
) -> Result<(), E> {
    let (plan, mut summary) = (Plan::freeing_early(stacks), Summary::default());
    let records = free_early(records, &plan, &mut summary);
    rewrite(records, &plan, &mut summary).try_for_each(step)
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
        addresses: Addresses::Lowest,
        follow: Follow { trust_factor: tape.trust_factor, ..Follow::default() },
    };
    let text = |id| tape.text(id);
    let recorded = DeviceTape { base: &device.base, records: requests, text: &text };
    let sim = scripted_device(recorded, &options, config);
    let timeline = Timeline::default();
    let mut driver = Driver::new(sim, config.clone(), timeline, &device.base, options.follow)?;
    let placed = driver.heap().base_state();
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
    (device.base.segments, device.base.order) = (placed.segments, placed.order);
    Ok(())
}

/// A mark that no tape has: its name is beyond any table of strings.
const PLACE: Event = Event::Mark { kind: MarkKind::Instant, name: StringId(u32::MAX) };

/// Restores the text of settings changes, the `inferred` flag of emptied caches, and the place of refusals: the
/// allocator records none of these.
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
