//! `stitch` on every recording: efficiency beside PyTorch's policies, driver calls of repeated steps, short memory.
//!
//! `cargo nextest run -p replay --test stitch --no-capture` prints the table of docs/results.

mod common;

use std::collections::BTreeSet;

use replay::driver::Follow;
use replay::edit::{Edit, edit};
use replay::report::Report;
use replay::run::{Addresses, DeviceTape, Options, run};
use replay::steps::Steps;
use replay::strategy::Choice;
use replay::tape::Tape;
use settings::Compat;
use trace_format::{Event, PageNumber, Record};

use common::drawn::drawn;
use common::recordings::{Recording, recordings};

const GIB: f64 = (1_u64 << 30) as f64;

/// Recordings with less are too small for whole pages to be a small part.
const LIVE_LEAST_BYTES: u64 = 1 << 30;

/// In smaller ones more may be lost.
const LARGE_BYTES: u64 = 5 << 28;

/// Where the steps of recordings begin: a mark, or code.
const STEPS: [&str; 3] = ["Optimizer.step#AdamW.step", "Optimizer.step#SGD.step", "optimizer.py"];

/// Steps that are drawn of a recording.
const DRAWN: usize = 40;

/// Runs with other sizes that are made of a recording.
const RESIZED: u64 = 6;

/// Requests of more are large.
const SMALL_BYTES: u64 = 1 << 20;

fn replay(tape: &Tape, strategy: &str, capacity_bytes: Option<u64>) -> Report {
    let text = |id| tape.text(id);
    let device = &tape.devices[0];
    let options = Options {
        strategy: Choice::parse(strategy, Compat::default()).expect("a strategy"),
        capacity_bytes,
        memory_fraction: Some(1.0), // One recording limits itself.
        addresses: Addresses::Lowest,
        follow: Follow { is_as_recorded: false, ..Follow::default() },
    };
    let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
    run(device, &options, &mut |_| {}).expect("a consistent recording")
}

fn requests(tape: &Tape) -> usize {
    let records = tape.devices[0].records.iter();
    records.filter(|one| matches!(one.event, Event::Alloc { .. })).count()
}

/// Requests that were refused in the recording, too.
fn refused(tape: &Tape) -> i64 {
    let records = tape.devices[0].records.iter();
    records.filter(|one| matches!(one.event, Event::Oom { .. })).count() as i64
}

/// Recorded steps, and those of them that make the large requests of an earlier one.
fn steps(tape: &Tape) -> (usize, usize) {
    let device = &tape.devices[0];
    let found = STEPS.iter().map(|name| Steps::of(tape, device, Some(name)).begins);
    let begins = found.max_by_key(Vec::len).unwrap_or_default();
    let large = |record: &Record| match record.event {
        Event::Alloc { requested_bytes, .. } if requested_bytes > SMALL_BYTES => {
            Some(requested_bytes)
        }
        _ => None,
    };
    let requests = |step: &[usize]| -> Vec<u64> {
        device.records[step[0]..step[1]].iter().filter_map(large).collect()
    };
    let steps: Vec<_> = begins.windows(2).map(requests).collect();
    let is_as_before = |at: &usize| steps[..*at].contains(&steps[*at]);
    (steps.len(), (0..steps.len()).filter(is_as_before).count())
}

#[test]
fn it_reserves_little_more_than_is_live_and_less_than_pytorch() {
    println!(
        "| recording | streams | requests | steps | as before | live GiB | native | expandable | stitch | ms native | \
         ms expandable | ms stitch | OOMs at 1.02 | OOMs at 1.05 |\n{}|",
        "|---".repeat(14)
    );
    let (mut efficiencies, mut most_mapped) = (Vec::new(), 0.0_f64);
    let mut graphs = Vec::new();
    for Recording { name, tape, streams } in recordings() {
        let reports = ["native", "expandable", "stitch"].map(|one| replay(&tape, one, None));
        let [native, expandable, stitch] = &reports;
        let live = stitch.peak_live_bytes;
        let tight = |factor: f64| {
            let capacity = ((live as f64 * factor) as u64).next_multiple_of(2 << 20);
            ["native", "expandable", "stitch"]
                .map(|one| replay(&tape, one, Some(capacity)).num_ooms)
        };
        let (at_102, at_105) = (tight(1.02), tight(1.05));
        let (steps, as_before) = steps(&tape);
        let run = [streams, requests(&tape), steps, as_before].map(|count| count.to_string());
        let efficiency = reports.each_ref().map(|one| format!("{:.4}", one.efficiency));
        let ms = reports.each_ref().map(|one| (one.driver_time_ns / 1_000_000).to_string());
        println!(
            "| {name} | {} | {:.2} | {} | {} | {at_102:?} | {at_105:?} |",
            run.join(" | "),
            live as f64 / GIB,
            efficiency.join(" | "),
            ms.join(" | "),
        );
        if let [Some(native), Some(expandable), Some(stitch)] =
            reports.each_ref().map(|one| one.pools)
        {
            let private = [native, expandable, stitch].map(|one| one.private.peak_reserved_bytes);
            let default = [native, expandable, stitch].map(|one| one.default.efficiency);
            graphs.push(format!(
                "{name}: bytes of private pools {private:?}, default pool {default:.4?}"
            ));
            assert!(private[2] <= private[0], "{name}: {private:?}");
            assert!(default[2] > default[0].max(default[1]), "{name}: {default:?}");
        }
        if live < LIVE_LEAST_BYTES {
            continue;
        }
        let least = if streams == 1 && live >= LARGE_BYTES { 0.97 } else { 0.96 };
        assert!(stitch.efficiency >= least, "{name}: {}", stitch.efficiency);
        let mapped = stitch.peak_mapped_bytes as f64 / stitch.peak_reserved_bytes as f64;
        most_mapped = most_mapped.max(mapped);
        assert!(mapped <= 4.0, "{name}: addresses of {mapped} times the memory");
        for other in [native, expandable] {
            assert!(stitch.efficiency > other.efficiency, "{name}: {}", other.strategy);
        }
        assert!(at_105[2] <= at_105[0], "{name}: completes where native does, at 1.05 of live");
        if streams == 1 && live >= LARGE_BYTES {
            assert!(at_102[2] <= refused(&tape), "{name}: {} requests without memory", at_102[2]);
        }
        efficiencies.push(stitch.efficiency);
    }
    println!("{}", graphs.join("\n"));
    let high = efficiencies.iter().filter(|efficiency| **efficiency >= 0.985).count();
    println!("0.985 or more on {high} of {}", efficiencies.len());
    println!("addresses mapped at once: at most {most_mapped:.2} of the memory");
    // The repository has three of these recordings, of which one is out of memory half way.
    assert!(high * 10 >= efficiencies.len() * 7 || efficiencies.len() < 10);
}

/// The run with its last step executed so many more times.
fn repeated(tape: &Tape, steps: &str, times: u32) -> Option<Tape> {
    let repeat = Edit::Repeat { times, steps: Some(steps.to_owned()) };
    Some(edit(tape, &[repeat]).ok()?.0)
}

/// The recorded step is the first execution.
#[test]
fn a_repeated_step_makes_no_driver_call_once_its_placements_settle() {
    let mut settled = [0; 2];
    for Recording { name, tape, .. } in recordings() {
        let calls = |times: u32| {
            let tape = STEPS.iter().find_map(|steps| repeated(&tape, steps, times))?;
            Some(replay(&tape, "stitch", None).driver_calls)
        };
        let live_bytes = replay(&tape, "stitch", None).peak_live_bytes;
        let [Some(third), Some(fourth), Some(tenth), Some(last)] = [2, 3, 9, 20].map(calls) else {
            continue;
        };
        // What follows the steps may need a call less. In a small run, steps may settle later.
        let settled_calls = if live_bytes < LIVE_LEAST_BYTES { tenth } else { fourth };
        assert!(last <= settled_calls, "{name}: {last} calls, {settled_calls} once settled");
        settled[0] += usize::from(last <= third);
        settled[1] += 1;
        let (in_the_fourth, later) = (fourth.saturating_sub(third), last.saturating_sub(fourth));
        println!("{name}: {in_the_fourth} calls in the fourth execution, {later} later");
    }
    let [from_the_fourth, all] = settled;
    println!("no call from the fourth execution in {from_the_fourth} of {all}");
    assert!(from_the_fourth == all && all > 0);
}

/// Runs like the recorded ones: each size of large requests becomes another one. Whether a step settles in one run says
/// little about others, so this is about their share.
#[test]
fn repeated_steps_settle_in_most_runs_with_other_sizes() {
    let seed = common::seed();
    let (mut from_the_fourth, mut from_the_eleventh, mut runs) = (0, 0, 0);
    let mut seen = BTreeSet::new();
    for Recording { name, tape, .. } in recordings() {
        let has_steps = STEPS.iter().any(|steps| repeated(&tape, steps, 1).is_some());
        // Some were recorded under several settings.
        if !has_steps || !seen.insert(requests(&tape)) {
            continue;
        }
        let (mut settled, mut settled_late) = (0, 0);
        for run in 0..RESIZED {
            let resized = resized(&tape, seed * RESIZED + run);
            let [third, tenth, last] = [2, 9, 20].map(|times| {
                let run = STEPS.iter().find_map(|steps| repeated(&resized, steps, times));
                replay(&run.expect("steps"), "stitch", None).driver_calls
            });
            settled += u64::from(last <= third);
            settled_late += u64::from(last <= tenth);
        }
        println!(
            "{name}: no call from the fourth execution in {settled} of {RESIZED}, from the eleventh in {settled_late}"
        );
        from_the_fourth += settled;
        from_the_eleventh += settled_late;
        runs += RESIZED;
    }
    println!(
        "no call from the fourth in {from_the_fourth} of {runs}, from the eleventh in {from_the_eleventh}"
    );
    assert!(from_the_fourth * 20 >= runs * 17 && from_the_eleventh * 10 >= runs * 9 && runs > 0);
}

/// The same run with a factor of 0.8 to 1.2 for each size of large requests.
fn resized(tape: &Tape, seed: u64) -> Tape {
    let mut tape = tape.clone();
    let resize = |bytes: u64| {
        let mut rng = fastrand::Rng::with_seed(bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed);
        let factor = if bytes > SMALL_BYTES { 0.8 + 0.4 * rng.f64() } else { 1.0 };
        (bytes as f64 * factor) as u64
    };
    for record in &mut tape.devices[0].records {
        if let Event::Alloc { requested_bytes, size_bytes, .. }
        | Event::Free { requested_bytes, size_bytes, .. }
        | Event::FreeCompleted { requested_bytes, size_bytes, .. } = &mut record.event
        {
            *requested_bytes = resize(*requested_bytes);
            *size_bytes = requested_bytes.next_multiple_of(512);
        }
    }
    tape
}

/// Steps that a program makes in an order of its own, such as those of batches of several shapes. The first recorded
/// step also requests what lives to the end, such as the optimizer's state: drawn again, it requests that once more.
#[test]
fn a_step_drawn_at_random_maps_at_most_200_pages_on_average() {
    let seed = common::seed();
    let mut averages = Vec::new();
    for Recording { name, tape, .. } in recordings() {
        let steps = |name: &&str| Steps::of(&tape, &tape.devices[0], Some(name)).begins;
        let Some(begins) = STEPS.iter().map(steps).find(|begins| begins.len() > 2) else {
            continue;
        };
        let continued = |begins: &[usize], count: usize| {
            let mut tape = tape.clone();
            let device = &mut tape.devices[0];
            device.records = drawn(&device.records, begins, count, seed);
            replay(&tape, "stitch", None)
        };
        let recorded = continued(&begins, 0);
        let [any, later] = [0, 1].map(|first| continued(&begins[first..], DRAWN));
        let maps = |all: &Report| (all.driver_maps - recorded.driver_maps) as f64 / DRAWN as f64;
        // In another order more memory can be live at once. The other maps move pages that exist.
        let new_bytes = later.peak_reserved_bytes - recorded.peak_reserved_bytes;
        let new = (new_bytes / PageNumber::PAGE_BYTES) as f64 / DRAWN as f64;
        let (count, efficiency) = (begins.len() - 2, later.efficiency);
        let (any, later) = (maps(&any), maps(&later));
        println!(
            "{name}: {later:.0} maps a step, {new:.0} of new pages, of {count} steps; efficiency {efficiency:.4}; \
             {any:.0} with the first step"
        );
        assert!(
            later <= 200.0 && any <= 350.0,
            "{name}: {later} maps a step, {any} with the first"
        );
        averages.push((later, any));
    }
    let count = averages.len() as f64;
    let later = averages.iter().map(|(later, _)| later).sum::<f64>() / count;
    let any = averages.iter().map(|(_, any)| any).sum::<f64>() / count;
    println!("{later:.0} maps a step, {any:.0} with the first, average of {count} recordings");
    assert!(any <= 200.0);
}
