//! The pinning set of a refused request is the one with the fewest bytes, and a replay with it freed serves the request.

mod common;

use std::collections::HashSet;

use common::builder::{MIB, Program, options, random_program, random_steps};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config as Cases, RngAlgorithm, TestRng, TestRunner};
use rayon::prelude::*;
use replay::explain::{
    At, EXHAUSTIVE_BLOCKS, ExplainError, Explanation, PinningSet, Question, explain,
};
use replay::oom_verdict::OomVerdict;
use replay::run::{DeviceTape, Options, run, run_recording};
use replay::tape::{Device, Tape};
use trace_format::{Addr, BaseState, Event, Record};

const GIB: u64 = 1 << 30;

fn tape(records: &[Record]) -> Tape {
    let device = Device { records: records.to_vec(), ..Device::default() };
    Tape { devices: vec![device], trust_factor: 1, ..Tape::default() }
}

fn explained(
    records: &[Record],
    options: &Options,
    at: Option<At>,
) -> Result<Explanation, ExplainError> {
    let tape = tape(records);
    let device = &tape.devices[0];
    explain(&Question { tape: &tape, device, at, device_bytes: None }, options, &|_| ())
}

/// Times out of memory in these records.
fn ooms(records: &[Record], options: &Options) -> i64 {
    let base = BaseState::default();
    let tape = DeviceTape { base: &base, records, text: &|_| "" };
    run(tape, options, |_| {}).expect("a consistent program").num_ooms
}

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
        let outcome = run_recording(tape, &options, |_| {}).expect("a consistent program");
        let answers = outcome.records.iter().filter_map(|record| match record.event {
            Event::Alloc { size_bytes, .. } => Some(Some(size_bytes)),
            Event::Oom { .. } => Some(None),
            _ => None,
        });
        let mut answers: std::vec::IntoIter<Option<u64>> = answers.collect::<Vec<_>>().into_iter();
        let mut live: Vec<(u64, Addr, u64)> = Vec::new();
        for (record, at) in program.records.iter().zip(0..) {
            match record.event {
                Event::Alloc { addr, .. } => match answers.next().expect("an answer each") {
                    Some(size_bytes) => live.push((at, addr, size_bytes)),
                    None => {
                        let records = program.records[..=at as usize].to_vec();
                        return Some(Self { records, options, live });
                    }
                },
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
