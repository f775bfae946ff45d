//! The replay of a tape, and the same requests made of PyTorch's own allocator: its algorithm without any tape.
//!
//! Both begin with an empty cache on the simulated driver, and both have to reserve the same at their peak.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use benches::{Trace, training_records};
use replay::driver::Follow;
use replay::run::{Addresses, DeviceTape, Options as Setting, run};
use serde::Serialize;
use settings::{Compat, Config};
use trace_format::{Addr, BaseState, Event, Record, StringId};

use crate::machine::Machine;
use crate::run::{driver, output};
use crate::times::Times;
use crate::{Options, Torch};

/// Recorded runs of fewer records are left out: making a device and a heap would be half of their replay.
const SHORTEST: usize = 10_000;
/// Records of the tape that is made here, and its seed.
const LONG: usize = 1_000_000;
const SEED: u64 = 1;

const OURS: &str = "vramtape replay";

/// A tape that PyTorch's allocator can be asked for too.
struct Case {
    name: String,
    records: Vec<Record>,
    script: Script,
}

/// The requests on the tape, without the actions of its own allocator.
#[derive(Default)]
struct Script {
    /// Kind, block, size in bytes and stream, 8 bytes each, as `cpp/replay.cpp` reads them.
    steps: Vec<u8>,
    blocks: u64,
}

/// The times of all replays.
#[derive(Debug, Serialize)]
pub(crate) struct Replays {
    torch: String,
    machine: Machine,
    rounds: u32,
    tapes: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    tape: String,
    /// Allocations, frees and segment calls.
    events: u64,
    subjects: Vec<Subject>,
}

#[derive(Debug, Serialize)]
struct Subject {
    subject: String,
    /// Of an event.
    #[serde(flatten)]
    times: Times,
}

/// Replays each tape in `options.rounds` rounds, in turns with PyTorch.
pub(crate) fn measure(torch: &Torch, options: &Options) -> Result<Replays> {
    let program = torch.build("replay")?;
    let mut machine = Machine::look();
    let compat = if torch.version.starts_with("2.15") { Compat::V2_15 } else { Compat::V2_11 };
    let tapes: Result<Vec<Row>> =
        cases()?.iter().map(|case| row(case, compat, &program, options)).collect();
    machine.look_again();
    Ok(Replays { torch: torch.version.clone(), machine, rounds: options.rounds, tapes: tapes? })
}

/// The recorded runs that ask for nothing but memory, and a long one that is made here.
fn cases() -> Result<Vec<Case>> {
    let recorded = Trace::all().into_iter().filter_map(|trace| {
        let device = trace.tape.devices.into_iter().next()?;
        let BaseState { segments, pools, scopes, memory_fraction, .. } = &device.base;
        let is_unlimited = memory_fraction.is_none_or(|fraction| fraction >= 1.0);
        let is_bare = segments.is_empty() && pools.is_empty() && scopes.is_empty() && is_unlimited;
        let is_long = device.records.len() >= SHORTEST;
        let script = Script::of(&device.records).filter(|_| is_bare && is_long)?;
        Some(Case { name: trace.name, records: device.records, script })
    });
    let mut cases: Vec<Case> = recorded.collect();
    ensure!(!cases.is_empty(), "no recording in tests/data/traces asks for nothing but memory");
    let records = training_records(SEED, LONG);
    let script = Script::of(&records).context("the tape that is made asks for more than memory")?;
    cases.push(Case { name: format!("made up, {LONG} records"), records, script });
    Ok(cases)
}

impl Script {
    /// `None` for a tape that asks for pools, other settings or memory that was not there, or whose frees wait.
    fn of(records: &[Record]) -> Option<Self> {
        const ALLOC: u64 = 0;
        const FREE: u64 = 1;
        const EMPTY_CACHE: u64 = 2;
        let mut script = Self::default();
        let mut live: HashMap<Addr, u64> = HashMap::new();
        for record in records {
            match record.event {
                Event::Alloc { addr, requested_bytes, stream, pool, .. } if pool.is_default() => {
                    live.insert(addr, script.blocks);
                    script.push([ALLOC, script.blocks, requested_bytes, stream.0]);
                    script.blocks += 1;
                }
                Event::Free { addr, pending: false, .. } => {
                    script.push([FREE, live.remove(&addr)?, 0, 0]);
                }
                Event::EmptyCache { pool, .. } if pool.is_default() => {
                    script.push([EMPTY_CACHE, 0, 0, 0]);
                }
                // Actions of an allocator, and annotations of a program.
                Event::SegmentAlloc { .. }
                | Event::SegmentFree { .. }
                | Event::Snapshot { .. }
                | Event::Mark { .. } => {}
                _ => return None,
            }
        }
        Some(script)
    }

    fn push(&mut self, words: [u64; 4]) {
        self.steps.extend(words.into_iter().flat_map(u64::to_le_bytes));
    }
}

fn row(case: &Case, compat: Compat, program: &Path, options: &Options) -> Result<Row> {
    let scratch = tempfile::NamedTempFile::new().context("no temporary file: set TMPDIR")?;
    std::fs::write(scratch.path(), &case.script.steps).context("cannot write a script")?;
    let mut wall_ns: Vec<(String, Vec<f64>)> = Vec::new();
    let mut add = |subject: &str, ns: f64| match wall_ns.iter_mut().find(|known| known.0 == subject)
    {
        Some(known) => known.1.push(ns),
        None => wall_ns.push((subject.to_owned(), vec![ns])),
    };
    let mut events = 0;
    for _ in 0..options.rounds {
        let ours = ours(case, compat)?;
        add(OURS, ours.ns);
        events = ours.events;
        let mut theirs = Command::new(program);
        theirs.arg(scratch.path()).arg(case.script.blocks.to_string());
        theirs.env("LD_PRELOAD", driver(options)?).env("LD_LIBRARY_PATH", &options.simcuda);
        for line in output(theirs)?.lines() {
            let mut fields = line.split('\t');
            let mut field = || fields.next().with_context(|| format!("{line:?} is no measurement"));
            let (subject, ns, peak_bytes) = (field()?, field()?.parse()?, field()?.parse::<u64>()?);
            if peak_bytes != ours.peak_reserved_bytes {
                let name = &case.name;
                bail!(
                    "{name}: {subject} reserved {peak_bytes} bytes, the replay {}",
                    ours.peak_reserved_bytes
                );
            }
            add(subject, ns);
        }
    }
    let of_an_event = |(subject, ns): (String, Vec<f64>)| {
        let ns = ns.into_iter().map(|ns| ns / events as f64).collect();
        Subject { subject, times: Times::of(ns) }
    };
    let subjects = wall_ns.into_iter().map(of_an_event).collect();
    Ok(Row { tape: case.name.clone(), events, subjects })
}

/// One of our replays.
struct Ours {
    ns: f64,
    events: u64,
    peak_reserved_bytes: u64,
}

/// Everything there is to a replay: its device and heap are made and dropped in its time. Done once before it is timed.
fn ours(case: &Case, compat: Compat) -> Result<Ours> {
    let text = |_: StringId| "";
    let base = BaseState::default();
    let tape = DeviceTape { base: &base, records: &case.records, text: &text };
    let config = Config { compat, ..Config::default() };
    let setting = Setting {
        strategy: config.into(),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow::default(),
    };
    run(tape, &setting, &mut |_| {})?;
    let begin = Instant::now();
    let report = run(tape, &setting, &mut |_| {})?;
    let ns = begin.elapsed().as_nanos() as f64;
    Ok(Ours { ns, events: report.events, peak_reserved_bytes: report.peak_reserved_bytes })
}

impl fmt::Display for Replays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { torch, machine, rounds, tapes } = self;
        writeln!(
            f,
            "The requests of a tape made of PyTorch {torch}'s own allocator, and the tape's replay.\n{machine}\n\
             ns for an event, {rounds} rounds."
        )?;
        for Row { tape, events, subjects } in tapes {
            let heads = ["median", "quartiles", "best", "M events/s"];
            let [median, quartiles, best, rate] = heads;
            let name = format!("{tape}, {events} events");
            writeln!(f, "\n{name:<42}{median:>9}{quartiles:>18}{best:>9}{rate:>12}")?;
            for Subject { subject, times } in subjects {
                let rate = 1e3 / times.median_ns;
                writeln!(f, "  {subject:<40}{times}{rate:>12.1}")?;
            }
        }
        Ok(())
    }
}
