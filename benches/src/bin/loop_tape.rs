//! `loop_tape RUN OUT.vtape RECORDS [SEED]`: a tape of any length out of a recorded run, for measurements.
//!
//! The run's steps (or fortieths, if it has no marks) are repeated in random order until there are enough records, and
//! placed by the allocator itself. A step frees at its end what it did not free, so that steps fit behind each other.
//! Times keep the recorded distances, with a fifth of noise: a plain loop would compress to nothing.

use std::collections::HashMap;
use std::env;

use benches::Random;
use replay::driver::Follow;
use replay::import::RunLimits;
use replay::run::{Addresses, DeviceTape, Options, run_recording};
use replay::strategy::Choice;
use replay::tape::{Device, Tape};
use settings::Config;
use trace_format::{Addr, BaseState, Event, MarkKind, PoolId, Record, Stream, StringId, Writer};

/// Steps of a run without marks.
const PIECES: usize = 40;
/// The part of a run before its steps, that is there once.
const WARM_UP: f64 = 0.2;

fn main() {
    let args: Vec<String> = env::args().collect();
    let [_, run, out, records, seed @ ..] = &args[..] else {
        panic!("usage: loop_tape RUN OUT.vtape RECORDS [SEED]");
    };
    let wanted: usize = records.parse().expect("a number of records");
    let seed = seed.first().map_or(1, |seed| seed.parse().expect("a seed"));
    let mut tape = Tape::open(run, &RunLimits::default()).expect("a run");
    let device = tape.devices.swap_remove(0);
    let mut looped = Looped::default();
    let (warm_up, steps) = steps(&device.records);
    looped.warm_up(warm_up);
    let mut random = Random::new(seed);
    while looped.records.len() < wanted {
        looped.step(steps[random.below(steps.len() as u64) as usize], &mut random);
    }
    let text = |id| tape.text(id);
    let source = DeviceTape { base: &BaseState::default(), records: &looped.records, text: &text };
    let config = Config::parse(&tape.meta.alloc_conf, tape.compat()).expect("settings").config;
    let options = Options {
        strategy: Choice::Native(config),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow::default(),
    };
    let outcome = run_recording(source, &options, &mut |_| ()).expect("a replay");
    println!("{} records of {} steps, seed {seed}", outcome.records.len(), steps.len());
    tape.devices = vec![Device { id: device.id, records: outcome.records, ..Device::default() }];
    tape.write(Writer::create(out, &tape.meta).expect("a tape")).expect("a tape");
}

/// The records before the first step, and the steps.
fn steps(records: &[Record]) -> (&[Record], Vec<&[Record]>) {
    let is_step =
        |record: &Record| matches!(record.event, Event::Mark { kind: MarkKind::Step, .. });
    let mut begins: Vec<usize> = records
        .iter()
        .enumerate()
        .filter(|(_, record)| is_step(record))
        .map(|(at, _)| at)
        .collect();
    if begins.len() < 4 {
        let first = (records.len() as f64 * WARM_UP) as usize;
        begins = (first..records.len()).step_by((records.len() / PIECES).max(1)).collect();
    }
    // The first step makes the optimizer's state, the last one may be torn.
    let first = begins[1];
    let steps = begins[1..].windows(2).map(|pair| &records[pair[0]..pair[1]]).collect();
    (&records[..first], steps)
}

/// Requests one after the other, each under an address of its own.
#[derive(Default)]
struct Looped {
    records: Vec<Record>,
    allocations: u64,
    time_ns: u64,
}

/// Live allocations of a step: the recorded address, and the one here.
type Live = HashMap<Addr, (Addr, u64, u64)>;

impl Looped {
    fn warm_up(&mut self, records: &[Record]) {
        self.time_ns = records.first().map_or(0, |record| record.time_ns);
        let mut live = Live::new();
        for record in records {
            self.time_ns = self.time_ns.max(record.time_ns);
            self.take(record, &mut live);
        }
    }

    fn step(&mut self, records: &[Record], random: &mut Random) {
        let mut live = Live::new();
        let mark = Event::Mark { kind: MarkKind::Step, name: StringId::default() };
        self.push(&Record { event: mark, ..records[0] });
        let mut before_ns = records[0].time_ns;
        for record in records {
            let distance_ns = record.time_ns.saturating_sub(before_ns);
            before_ns = record.time_ns;
            self.time_ns += distance_ns + random.below(distance_ns / 5 + 300);
            self.take(record, &mut live);
        }
        let mut left: Vec<_> = live.into_values().collect();
        left.sort_unstable();
        for (addr, requested_bytes, size_bytes) in left {
            self.time_ns += 500;
            let event = Event::Free { addr, requested_bytes, size_bytes, pending: false };
            self.push(&Record { event, ..records[0] });
        }
    }

    fn take(&mut self, record: &Record, live: &mut Live) {
        let event = match record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                self.allocations += 1;
                let new = Addr(self.allocations * 512);
                live.insert(addr, (new, requested_bytes, size_bytes));
                let (stream, pool) = (Stream(0), PoolId::DEFAULT);
                Event::Alloc { addr: new, requested_bytes, size_bytes, stream, pool }
            }
            Event::Free { addr, requested_bytes, size_bytes, .. } => {
                let Some((addr, ..)) = live.remove(&addr) else { return };
                Event::Free { addr, requested_bytes, size_bytes, pending: false }
            }
            Event::Mark { kind: MarkKind::Phase, .. } => record.event,
            _ => return,
        };
        self.push(&Record { event, ..*record });
    }

    fn push(&mut self, record: &Record) {
        self.records.push(Record { time_ns: self.time_ns, ..*record });
    }
}
