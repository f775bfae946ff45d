//! Plans on every recording: learned whole, learned on one half, and on a run whose sizes differ from it.
//!
//! `cargo nextest run -p replay --test plan --no-capture` prints the table of docs/results.

mod common;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use packing::check::check;
use replay::driver::Follow;
use replay::edit::edit;
use replay::report::Report;
use replay::run::{Addresses, DeviceTape, Options, run};
use replay::strategy::Choice;
use replay::tape::Tape;
use settings::{Compat, Config, Plan};
use trace_format::{Event, Record};

use common::cpu_time;
use common::recordings::{Recording, recordings};

/// Smaller recordings are of few pages, most of them of small requests, which are not planned.
const LIVE_LEAST_BYTES: u64 = 1 << 30;
/// Recordings whose steps repeat.
const REPEATING: [&str; 9] =
    ["gpt2", "llama", "bert", "vit", "t5", "unet", "whisper", "lora", "mlp"];
/// The share of requests whose sizes are changed, and by how much at most.
const CHANGED: f64 = 0.05;
const BY: f64 = 0.2;
/// Runs with changed sizes that are made of a recording. The table has the one that loses most by the plan.
const VARIATIONS: u64 = 2;

fn options(plan: Option<&Plan>) -> Options {
    let choice = Choice::parse("stitch", Compat::default()).expect("a strategy");
    let Choice::Native(config) = choice else { panic!("stitch is the allocator") };
    let plan = plan.cloned().map(Arc::new);
    Options {
        strategy: Choice::Native(Config { plan, ..config }),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow { is_as_recorded: false, ..Follow::default() },
    }
}

fn with_device<T>(tape: &Tape, records: &[Record], act: impl FnOnce(DeviceTape<'_>) -> T) -> T {
    let text = |id| tape.text(id);
    act(DeviceTape { base: &tape.devices[0].base, records, text: &text })
}

fn replay(tape: &Tape, records: &[Record], plan: Option<&Plan>) -> Report {
    let run = with_device(tape, records, |device| run(device, &options(plan), &mut |_| {}));
    run.expect("a consistent recording")
}

/// Whether this thread has computed for so long since.
fn is_over_after(budget: Duration) -> impl FnMut() -> bool {
    let begin = cpu_time();
    move || cpu_time().saturating_sub(begin) >= budget
}

fn plan(tape: &Tape, records: &[Record]) -> Plan {
    let is_over = &mut is_over_after(Duration::from_secs(1));
    let planned =
        with_device(tape, records, |device| replay::plan::plan(device, &options(None), is_over));
    planned.expect("a consistent recording").0
}

/// The same run with other sizes of some requests.
fn changed(records: &[Record], seed: u64) -> Vec<Record> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut sizes = HashMap::new();
    let mut records = records.to_vec();
    for record in &mut records {
        match &mut record.event {
            Event::Alloc { addr, requested_bytes, size_bytes, .. } => {
                sizes.remove(addr);
                if rng.f64() < CHANGED {
                    let factor = 1.0 - BY + 2.0 * BY * rng.f64();
                    *requested_bytes = ((*requested_bytes as f64 * factor) as u64).max(1);
                    *size_bytes = requested_bytes.next_multiple_of(512);
                    sizes.insert(*addr, *requested_bytes);
                }
            }
            Event::Free { addr, requested_bytes, size_bytes, .. }
            | Event::FreeCompleted { addr, requested_bytes, size_bytes } => {
                if let Some(bytes) = sizes.get(addr) {
                    (*requested_bytes, *size_bytes) = (*bytes, bytes.next_multiple_of(512));
                }
            }
            _ => {}
        }
    }
    records
}

#[test]
fn a_plan_reserves_what_is_live_and_a_run_that_departs_from_it_loses_little() {
    println!(
        "| recording | live GiB | stitch | planned whole | planned from half | changed, stitch | changed, planned | \
         ms stitch | ms planned |\n|---|---|---|---|---|---|---|---|---|"
    );
    let seed = common::seed();
    let mut seen = HashSet::new();
    for Recording { name, tape, streams } in recordings() {
        let records = &tape.devices[0].records;
        let stitch = replay(&tape, records, None);
        if stitch.peak_live_bytes < LIVE_LEAST_BYTES {
            continue;
        }
        let whole = plan(&tape, records);
        let planned = replay(&tape, records, Some(&whole));
        let half = replay(&tape, records, Some(&plan(&tape, &records[..records.len() / 2])));
        // Some were recorded under several settings.
        let seeds = if seen.insert(stitch.peak_live_bytes) { VARIATIONS } else { 1 };
        let changed = (0..seeds).map(|number| {
            let records = changed(records, seed * VARIATIONS + number);
            [None, Some(&whole)].map(|plan| replay(&tape, &records, plan))
        });
        let lost = |[stitch, planned]: &[Report; 2]| stitch.efficiency - planned.efficiency;
        let worst = changed.max_by(|one, other| lost(one).total_cmp(&lost(other)));
        let [changed_stitch, changed_planned] = worst.expect("a variation");
        let of = |report: &Report| format!("{:.4}", report.efficiency);
        println!(
            "| {name} | {:.2} | {} | {} | {} | {} | {} | {} | {} |",
            stitch.peak_live_bytes as f64 / (1_u64 << 30) as f64,
            of(&stitch),
            of(&planned),
            of(&half),
            of(&changed_stitch),
            of(&changed_planned),
            stitch.driver_time_ns / 1_000_000,
            planned.driver_time_ns / 1_000_000,
        );
        assert!(planned.efficiency >= stitch.efficiency, "{name}: {planned:?}");
        assert!(
            changed_planned.efficiency >= changed_stitch.efficiency - 0.005,
            "{name}: {changed_planned:?}"
        );
        if REPEATING.iter().any(|repeating| name.starts_with(repeating)) && streams == 1 {
            assert!(planned.efficiency >= 0.99, "{name}: {planned:?}");
            assert!(half.efficiency >= 0.985, "{name}: {half:?}");
        }
    }
}

/// Two runs of different shapes: each finds its own part of the plan.
#[test]
fn plans_of_several_runs_stand_side_by_side() {
    let all = recordings();
    let first = &all.iter().find(|one| one.name == "gpt2_train-default").expect("a recording").tape;
    let (second, _) = edit(first, &["scale:0.7".parse().expect("an edit")]).expect("an edit");
    let records = |tape: &Tape| tape.devices[0].records.clone();
    let mut both = plan(first, &records(first));
    both.sequences.extend(plan(&second, &records(&second)).sequences);
    for tape in [first, &second] {
        let stitch = replay(tape, &records(tape), None);
        let planned = replay(tape, &records(tape), Some(&both));
        println!("{} with the plan of both, {} without", planned.efficiency, stitch.efficiency);
        assert!(planned.efficiency >= stitch.efficiency.max(0.99), "{planned:?}");
    }
}

#[test]
fn the_blocks_of_recordings_are_packed_to_within_a_hundredth_of_the_bound() {
    for Recording { name, tape, .. } in recordings() {
        let problem = replay::pack::blocks(&tape.devices[0]).expect("sizes of a device");
        // The processor runs slower where other tests run beside it: a second is enough for it alone.
        let is_over = &mut is_over_after(Duration::from_secs(3));
        let begin = cpu_time();
        let made = packing::pack(&problem.buffers, None, is_over);
        let seconds = cpu_time().saturating_sub(begin).as_secs_f64();
        assert_eq!(check(&problem.buffers, &made.offsets), Ok(()));
        let above = made.height_bytes as f64 / packing::bound_bytes(&problem.buffers) as f64;
        println!(
            "{name}: {} blocks, {above:.4} of the bound in {seconds:.2} s",
            problem.buffers.len()
        );
        assert!(above <= 1.01, "{name}: {above}");
    }
}
