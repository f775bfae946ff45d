//! Records explained and replayed.

use replay::explain::{At, ExplainError, Explanation, Question, explain};
use replay::run::{DeviceTape, Options, run};
use replay::tape::{Device, Tape};
use trace_format::{BaseState, Record};

/// A run of one device with these records.
pub(crate) fn tape(records: &[Record]) -> Tape {
    let device = Device { records: records.to_vec(), ..Device::default() };
    Tape { devices: vec![device], trust_factor: 1, ..Tape::default() }
}

/// What `explain` finds.
pub(crate) fn explained(
    records: &[Record],
    options: &Options,
    at: Option<At>,
) -> Result<Explanation, ExplainError> {
    explained_beside(records, options, at, 0)
}

/// The same on a device of which others hold so many bytes more.
pub(crate) fn explained_beside(
    records: &[Record],
    options: &Options,
    at: Option<At>,
    others_bytes: u64,
) -> Result<Explanation, ExplainError> {
    let tape = tape(records);
    let device = &tape.devices[0];
    let device_bytes = options.capacity_bytes.map(|bytes| bytes + others_bytes);
    let question = Question { tape: &tape, device, at, device_bytes, is_as_recorded: true };
    explain(&question, options, &|_| ())
}

/// Times out of memory in these records.
pub(crate) fn ooms(records: &[Record], options: &Options) -> i64 {
    let base = BaseState::default();
    let tape = DeviceTape { base: &base, records, text: &|_| "" };
    run(tape, options, &mut |_| {}).expect("a consistent program").num_ooms
}
