//! The pinning set of a refused request has the fewest bytes, and a replay with it freed serves the request.

mod common;

use std::collections::HashSet;

use common::builder::{MIB, Program, options, random_program, random_steps};
use common::explained::{explained, ooms};
use oom::OomVerdict;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};
use rayon::prelude::*;
use replay::explain::{
    At, EXHAUSTIVE_BLOCKS, ExplainError, MomentKind, PinningSet, Question, capacity_at_oom, explain,
};
use replay::run::{DeviceTape, Options, run, run_recording};
use replay::tape::Tape;
use settings::Config;
use trace_format::{Addr, BaseState, Event, Record};

/// A program whose last record is its first refused request, and a device on which it is.
struct Refused {
    records: Vec<Record>,
    options: Options,
    /// The live blocks before the request: the record that allocated each, its recorded address and its bytes.
    live: Vec<(u64, Addr, u64)>,
}

impl Refused {
    /// The program up to its first refusal; `None` where all is served.
    fn of(program: &Program, options: Options) -> Option<Self> {
        let base = BaseState::default();
        let tape = DeviceTape { base: &base, records: &program.records, text: &|_| "" };
        let outcome = run_recording(tape, &options, &mut |_| {}).expect("a consistent program");
        let answers = outcome.records.iter().filter_map(|record| match record.event {
            Event::Alloc { size_bytes, .. } => Some(Some(size_bytes)),
            Event::Oom { .. } => Some(None),
            _ => None,
        });
        let mut answers: std::vec::IntoIter<Option<u64>> = answers.collect::<Vec<_>>().into_iter();
        let mut live: Vec<(u64, Addr, u64)> = Vec::new();
        for (record, at) in program.records.iter().zip(0..) {
            match record.event {
                Event::Alloc { addr, .. } => {
                    let Some(size_bytes) = answers.next().expect("an answer each") else {
                        let records = program.records[..=at as usize].to_vec();
                        return Some(Self { records, options, live });
                    };
                    live.push((at, addr, size_bytes));
                }
                Event::Free { addr, .. } => live.retain(|(_, known, _)| *known != addr),
                _ => {}
            }
        }
        None
    }

    /// Whether the request is served where these blocks are freed immediately before it.
    fn serves_without(&self, freed: impl IntoIterator<Item = Addr>) -> bool {
        let mut records = self.records.clone();
        let request = records.pop().expect("the request");
        for addr in freed {
            let (requested_bytes, size_bytes, pending) = (0, 0, false);
            let event = Event::Free { addr, requested_bytes, size_bytes, pending };
            records.push(Record { event, ..request });
        }
        records.push(request);
        ooms(&records, &self.options) == 0
    }

    /// The sets of live blocks with fewer bytes than this.
    fn sets_below(&self, bytes: u64) -> Vec<u32> {
        let of = |set: &u32| {
            let members = self.live.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
            members.map(|(_, (_, _, size_bytes))| size_bytes).sum::<u64>()
        };
        (1..1_u32 << self.live.len()).filter(|set| of(set) < bytes).collect()
    }

    fn serves_without_set(&self, set: u32) -> bool {
        let members = self.live.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        self.serves_without(members.map(|(_, (_, addr, _))| *addr))
    }

    /// Fails unless the set serves the request and none with fewer bytes does.
    fn check(&self, pinning: Option<&PinningSet>) -> Result<(), String> {
        let Some(pinning) = pinning else {
            let all = self.live.iter().map(|(_, addr, _)| *addr);
            return if self.serves_without(all) {
                Err("no set, though all serve".into())
            } else {
                Ok(())
            };
        };
        let members: HashSet<u64> =
            pinning.blocks.iter().filter_map(|block| block.origin.record).collect();
        let of_set = self.live.iter().filter(|(record, ..)| members.contains(record));
        let (addrs, sizes): (Vec<Addr>, Vec<u64>) =
            of_set.map(|(_, addr, size_bytes)| (*addr, *size_bytes)).unzip();
        if addrs.len() != pinning.blocks.len() || sizes.iter().sum::<u64>() != pinning.bytes {
            return Err(format!("{pinning:?} is not of {:?}", self.live));
        }
        if !self.serves_without(addrs) {
            return Err(format!("{pinning:?} does not serve"));
        }
        if self.live.len() <= EXHAUSTIVE_BLOCKS {
            if !pinning.is_exact {
                return Err(format!("{pinning:?} is not exact with {} blocks", self.live.len()));
            }
            let less = self.sets_below(pinning.bytes);
            let better = less.par_iter().find_any(|set| self.serves_without_set(**set));
            return better.map_or(Ok(()), |set| Err(format!("{set:b} of {:?} is less", self.live)));
        }
        if pinning.lower_bound_bytes > pinning.bytes {
            return Err(format!("{pinning:?}: the bound is above the set"));
        }
        Ok(())
    }
}

/// The settings that programs run under.
const SETTINGS: [&str; 5] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:20",
    "roundup_power2_divisions:4",
    "expandable_segments:True,max_split_size_mb:64",
];

/// Blocks of which every second is freed, then a request that is larger than each hole and smaller than their sum.
fn holes(sizes: &[u64], asked_mib: u64, settings: &str) -> Option<Refused> {
    let mut program = Program::default();
    for (at, mib) in sizes.iter().enumerate() {
        program.alloc(&at.to_string(), mib * MIB, 0);
    }
    let capacity_bytes = program.record(&options(settings, None)).report.peak_reserved_bytes;
    for at in (0..sizes.len()).step_by(2) {
        program.free(&at.to_string());
    }
    program.alloc("asked", asked_mib * MIB, 0);
    Refused::of(&program, options(settings, Some(capacity_bytes)))
}

/// Random calls on a device that is too small for them.
fn tight(program: &Program, share: u64, settings: &str) -> Option<Refused> {
    let most_bytes = program.record(&options(settings, None)).report.peak_reserved_bytes;
    let capacity_bytes = (most_bytes * share / 100).next_multiple_of(2 * MIB);
    Refused::of(program, options(settings, Some(capacity_bytes)))
}

#[test]
fn the_pinning_set_of_random_programs_is_the_one_that_all_sets_show() {
    const WANTED: usize = 60;
    let (mut checked, mut exhaustive, mut fragmented, mut seed) = (0, 0, 0, 0_u64);
    while checked < WANTED {
        seed += 1;
        assert!(seed < 2000, "too few programs are out of memory: {checked}");
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Cases::default(), rng);
        let settings = SETTINGS[seed as usize % SETTINGS.len()];
        let refused = if seed % 2 == 0 {
            let shape = (prop::collection::vec(2..9_u64, 4..24), 8..30_u64);
            let (sizes, asked) = shape.new_tree(&mut runner).unwrap().current();
            holes(&sizes, asked, settings)
        } else {
            let shape = (random_steps(8..60), 20..95_u64);
            let (steps, share) = shape.new_tree(&mut runner).unwrap().current();
            tight(&random_program(&steps), share, settings)
        };
        let Some(refused) = refused else { continue };
        let found = explained(&refused.records, &refused.options, None).unwrap();
        let oom = found.oom.expect("out of memory");
        let free_bytes: u64 = found.free_space.iter().map(|row| row.free_bytes).sum();
        let unallocated_bytes = found.moment.reserved_bytes - found.live.allocated_bytes;
        assert_eq!(free_bytes, unallocated_bytes, "seed {seed}: free space adds up");
        let blocks = refused.live.len();
        if let Err(error) = refused.check(oom.pinning.as_ref()) {
            panic!("seed {seed}, `{settings}`, {blocks} blocks, {}: {error}", oom.verdict);
        }
        let (set, bound) =
            oom.pinning.map_or((0, 0), |pinning| (pinning.bytes, pinning.lower_bound_bytes));
        println!(
            "seed {seed} `{settings}`: {blocks} blocks, {}, {set} of at least {bound}",
            oom.verdict
        );
        checked += 1;
        exhaustive += usize::from(blocks <= EXHAUSTIVE_BLOCKS);
        fragmented += usize::from(matches!(
            oom.verdict,
            OomVerdict::Fragmentation | OomVerdict::PartlyFragmentation
        ));
    }
    println!("{checked} programs, {exhaustive} compared with all sets, {fragmented} fragmented");
    assert!(exhaustive >= 40 && fragmented >= 10);
}

#[test]
fn above_sixteen_blocks_the_bound_is_below_every_set_that_serves() {
    let mut checked = 0;
    for seed in 0..200_u64 {
        let mut bytes = [9; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(Cases::default(), rng);
        let settings = SETTINGS[seed as usize % SETTINGS.len()];
        let shape = (prop::collection::vec(1..9_u64, 40..70), 8..40_u64, any::<u64>());
        let (sizes, asked, mut dice) = shape.new_tree(&mut runner).unwrap().current();
        let Some(refused) = holes(&sizes, asked, settings) else { continue };
        if refused.live.len() <= EXHAUSTIVE_BLOCKS {
            continue;
        }
        let found = explained(&refused.records, &refused.options, None).unwrap();
        let pinning = found.oom.and_then(|oom| oom.pinning);
        refused.check(pinning.as_ref()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let pinning = pinning.expect("memory that was free before");
        // Every pair, and random neighbours, which are what serves.
        let all = &refused.live;
        for _ in 0..150 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let begin = (dice >> 33) as usize % all.len();
            let end = (begin + 1 + (dice >> 20) as usize % 4).min(all.len());
            let set = &all[begin..end];
            let bytes: u64 = set.iter().map(|(_, _, size_bytes)| size_bytes).sum();
            if bytes < pinning.lower_bound_bytes {
                let serves = refused.serves_without(set.iter().map(|(_, addr, _)| *addr));
                assert!(!serves, "seed {seed}: {set:?} is below {}", pinning.lower_bound_bytes);
            }
        }
        let (set, bound) = (pinning.bytes, pinning.lower_bound_bytes);
        println!("seed {seed} `{settings}`: {} blocks, {set} of at least {bound}", all.len());
        checked += 1;
    }
    assert!(checked >= 20, "{checked} programs have more blocks");
}

#[test]
fn the_peak_falls_to_the_second_peak() {
    let mut program = Program::default();
    program.alloc("model", 10 * MIB, 0);
    program.alloc("first", 30 * MIB, 0);
    program.free("first");
    program.alloc("second", 24 * MIB, 0);
    program.free("second");
    let found = explained(&program.records, &options("", None), None).unwrap();
    assert_eq!((found.moment.kind, found.moment.after_records), (MomentKind::Peak, 2));
    assert_eq!(found.live.allocated_bytes, 40 * MIB);
    assert_eq!(found.peak.expect("a peak").peaks.live_bytes, 40 * MIB);
    assert!(found.oom.is_none());
}

#[test]
fn a_moment_that_is_not_there_is_an_error_with_the_next_thing_to_try() {
    let mut program = Program::default();
    program.alloc("a", MIB, 0);
    let of =
        |at| explained(&program.records, &options("", None), Some(at)).unwrap_err().to_string();
    assert!(of(At::OutOfMemory).contains("--at peak"), "{}", of(At::OutOfMemory));
    assert!(of(At::Record(1)).contains("records 0 to 0"), "{}", of(At::Record(1)));
    assert!(of(At::Time { ns: 1 }).contains("0.000 s long"), "{}", of(At::Time { ns: 1 }));
    let empty = explained(&[], &options("", None), None).unwrap_err();
    assert!(matches!(empty, ExplainError::Empty));
    let last = explained(&program.records, &options("", None), Some(At::Last)).unwrap();
    assert_eq!(last.moment.after_records, 1);
}

/// The largest capacity, in whole granules, on which memory is out.
fn largest_that_fails(device: DeviceTape<'_>, options: &Options) -> u64 {
    const GRANULE: u64 = 2 * MIB;
    let fails = |granules: u64| {
        let capacity_bytes = Some(granules * GRANULE);
        let options = Options { capacity_bytes, ..options.clone() };
        // A start that does not fit fails as well.
        run(device, &options, &mut |_| {}).map_or(true, |report| report.num_ooms > 0)
    };
    let most = run(device, options, &mut |_| {}).unwrap().peak_reserved_bytes;
    let (mut least, mut most) = (0, most.div_ceil(GRANULE));
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        if fails(middle) { least = middle } else { most = middle }
    }
    least * GRANULE
}

/// Of the traces here, or of all where `VRAMTAPE_TRACES` names more.
#[test]
fn the_pinning_set_of_recorded_runs_serves_their_first_refused_request() {
    let is_all = std::env::var_os("VRAMTAPE_TRACES").is_some();
    let traces = if is_all { common::all_traces() } else { common::own_traces() };
    let mut explained = 0;
    for path in traces {
        let tape = Tape::open(&path, &common::known(&path)).expect("a snapshot");
        for device in &tape.devices {
            let config = Config::parse(&tape.meta.alloc_conf, tape.compat()).unwrap().config;
            let options = Options { strategy: config.into(), ..options("", None) };
            let text = |id| tape.text(id);
            let run_of = DeviceTape { base: &device.base, records: &device.records, text: &text };
            let capacity_bytes = largest_that_fails(run_of, &options);
            let options = Options { capacity_bytes: Some(capacity_bytes), ..options };
            let begun = std::time::Instant::now();
            let question = Question {
                tape: &tape,
                device,
                at: Some(At::OutOfMemory),
                device_bytes: None,
                is_as_recorded: false,
            };
            let found = match explain(&question, &options, &|_| ()) {
                Ok(found) => found,
                Err(ExplainError::Drive(error)) => {
                    println!("{}: {error}", path.display());
                    continue;
                }
                Err(error) => panic!("{}: {error}", path.display()),
            };
            let took = begun.elapsed();
            let oom = found.oom.expect("out of memory");
            let free_bytes: u64 = found.free_space.iter().map(|row| row.free_bytes).sum();
            let unallocated_bytes = found.moment.reserved_bytes - found.live.allocated_bytes;
            assert_eq!(free_bytes, unallocated_bytes, "{}", path.display());
            let name = path.file_name().unwrap().to_string_lossy();
            let pinning = oom.pinning.unwrap_or_else(|| panic!("{name}: no pinning set"));
            println!(
                "{name} at {} MiB: {}, record {} of {}, {} live, set of {} blocks, {} of at least {} bytes, {} \
                 remedies, {took:.2?}",
                capacity_bytes / MIB,
                oom.verdict,
                found.moment.after_records,
                device.records.len(),
                found.live.blocks,
                pinning.blocks.len(),
                pinning.bytes,
                pinning.lower_bound_bytes,
                oom.remedies.len(),
            );
            // As a program would: the frees stand before the request, and the rest is gone.
            let place = found.moment.after_records as usize;
            let mut records = device.records[..place].to_vec();
            let refused = ooms_of(&device.base, &records, &options, &tape);
            let request = device.records[place];
            for block in &pinning.blocks {
                let addr = block.origin.record.map_or(block.addr, |at| {
                    match device.records[at as usize].event {
                        Event::Alloc { addr, .. } => addr,
                        ref other => panic!("{other:?} is no allocation"),
                    }
                });
                let (requested_bytes, size_bytes, pending) = (0, 0, false);
                let event = Event::Free { addr, requested_bytes, size_bytes, pending };
                records.push(Record { event, ..request });
            }
            records.push(request);
            assert_eq!(ooms_of(&device.base, &records, &options, &tape), refused, "{name}");
            explained += 1;
        }
    }
    assert!(explained >= 4, "{explained} runs are explained");
}

fn ooms_of(base: &BaseState, records: &[Record], options: &Options, tape: &Tape) -> i64 {
    let text = |id| tape.text(id);
    run(DeviceTape { base, records, text: &text }, options, &mut |_| {}).unwrap().num_ooms
}

#[test]
fn a_full_device_is_called_full() {
    let name = "resnet50_batchsweep-oom.pickle.zst";
    let path = common::own_traces().into_iter().find(|path| path.ends_with(name));
    let path = path.expect("the trace of a full device");
    let known = common::known(&path);
    let tape = Tape::open(&path, &known).unwrap();
    let device = &tape.devices[0];
    let config = Config::parse(&tape.meta.alloc_conf, tape.compat()).unwrap().config;
    let capacity_bytes = known.capacity_bytes;
    let options = Options { strategy: config.into(), ..options("", capacity_bytes) };
    let is_as_recorded = true;
    let question = Question { tape: &tape, device, at: None, device_bytes: None, is_as_recorded };
    let found = explain(&question, &options, &|_| ()).unwrap();
    let oom = found.oom.expect("out of memory");
    assert!(oom.request.is_recorded);
    assert_eq!(oom.verdict, OomVerdict::Capacity);
    assert!(
        oom.why.starts_with("nothing in the allocator helps: 3.84 GiB of 3.91 GiB are live"),
        "{}",
        oom.why
    );
    assert!(oom.remedies.iter().all(|remedy| !remedy.kind.is_of_allocator()), "{:?}", oom.remedies);
    assert!(oom.pinning.is_some_and(|set| set.is_exact));
    assert_eq!(capacity_at_oom(device), capacity_bytes, "as its last refusal shows it");
}
