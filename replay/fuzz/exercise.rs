//! Calls every function of an import on hostile bytes, for the fuzz target and the deterministic test.

use std::path::Path;

use replay::driver::Follow;
use replay::import::{RunLimits, import_bytes};
use replay::run::{Addresses, DeviceTape, Options, run};
use replay::source::read_from;
use replay::strategy::Choice;
use replay::tape::Tape;
use trace_format::{State, Writer};

/// Decompresses and imports `bytes`, writes the tape, reads it again and replays it: each step may fail, in words.
pub(crate) fn exercise(bytes: &[u8]) {
    let name = Path::new("hostile");
    let bytes = match read_from(bytes, name, 1) {
        Ok(bytes) => bytes,
        Err(error) => return assert!(error.to_string().contains("hostile")),
    };
    let known = RunLimits::default();
    let import = match import_bytes(bytes, name, &known) {
        Ok(import) => import,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let config = import.config.clone();
    for device in &import.devices {
        State::from_base(&device.base).expect("a start is a state");
    }
    let tape = Tape::of_import(import, &known);
    let writer = Writer::new(Vec::new(), "in memory", &tape.meta).expect("memory can be written");
    let written = tape.write(writer).expect("an import can be written");
    let again = Tape::read(written.as_slice(), "in memory").expect("what was written can be read");
    assert_eq!(again.records_len(), tape.records_len());
    for device in &tape.devices {
        let options = Options {
            strategy: Choice::Native(config.clone()),
            capacity_bytes: Some(80 << 30),
            memory_fraction: None,
            addresses: Addresses::Recorded,
            follow: Follow::default(),
        };
        let text = |id| tape.text(id);
        let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
        if let Err(error) = run(device, &options, &mut |_| {}) {
            assert!(!error.to_string().is_empty());
        }
    }
}
