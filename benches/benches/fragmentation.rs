//! The result of each policy on the recorded runs: a table, and the check that the recorded settings reserve as much as
//! PyTorch reserved.

use benches::Trace;
use replay::compare::{USUAL_SETTINGS, compare};
use replay::driver::Follow;
use replay::report::Report;
use replay::run::{Addresses, Options, run};
use replay::strategy::{Choice, TABLE};

const GIB: f64 = (1_u64 << 30) as f64;

/// How often a replay is timed; the best counts. Once is enough where cargo only tests the benches.
const TIMED_RUNS: usize = 9;

fn main() {
    let runs = if benches::is_bench() { TIMED_RUNS } else { 1 };
    for trace in Trace::all() {
        check_recorded(&trace);
        let rows = replays(&trace, runs);
        println!("\n{} (PyTorch reserved {:.2} GiB)", trace.name, gib(trace.peak_reserved_bytes));
        println!(
            "{:<12}{:<48}{:>10}{:>12}{:>8}{:>9}{:>7}{:>9}{:>10}",
            "policy", "settings", "live GiB", "peak GiB", "eff.", "retries", "OOMs", "calls", "ms"
        );
        for row in rows {
            println!(
                "{:<12}{:<48}{:>10.2}{:>12.2}{:>8.3}{:>9}{:>7}{:>9}{:>10.2}",
                row.strategy,
                row.config,
                gib(row.peak_live_bytes),
                gib(row.peak_reserved_bytes),
                row.efficiency,
                row.num_alloc_retries,
                row.num_ooms,
                row.device_allocs + row.device_frees,
                row.elapsed_s * 1e3,
            );
        }
    }
}

/// The recorded settings on the recorded device reserve what PyTorch did.
fn check_recorded(trace: &Trace) {
    let options = Options {
        strategy: trace.config.clone().into(),
        capacity_bytes: Some(trace.capacity_bytes),
        memory_fraction: None,
        addresses: Addresses::Recorded,
        follow: Follow::default(),
    };
    let text = |id| trace.tape.text(id);
    let report = run(trace.device(&text), &options, &mut |_| {}).expect("a consistent recording");
    assert_eq!(report.peak_reserved_bytes, trace.peak_reserved_bytes, "{}", trace.name);
}

/// The usual settings, `stitch` and the models on a device that is never full, each with its best time of `runs`.
fn replays(trace: &Trace, runs: usize) -> Vec<Report> {
    let compat = trace.config.compat;
    let usual = USUAL_SETTINGS.iter().map(|text| format!("native:{text}"));
    let others = TABLE.iter().filter(|row| !["native", "expandable"].contains(&row.name));
    let others = others.map(|row| row.name.to_owned());
    let choices: Vec<Choice> = usual
        .chain(others)
        .map(|text| Choice::parse(&text, compat).expect("a strategy of the table"))
        .collect();
    let text = |id| trace.tape.text(id);
    let once = || {
        let follow = Follow { is_as_recorded: false, ..Follow::default() };
        let rows = compare(trace.device(&text), &choices, None, follow, 0, &|_| {});
        let rows = rows.expect("a consistent recording").into_iter();
        rows.map(|row| row.report().expect("a whole replay").clone()).collect::<Vec<_>>()
    };
    let mut best = once();
    for row in &best {
        assert!(row.efficiency > 0.0 && row.efficiency <= 1.0, "{}: {row:?}", trace.name);
    }
    for _ in 1..runs {
        for (best, again) in best.iter_mut().zip(once()) {
            assert_eq!(best.peak_reserved_bytes, again.peak_reserved_bytes, "a replay repeats");
            best.elapsed_s = best.elapsed_s.min(again.elapsed_s);
        }
    }
    best
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}
