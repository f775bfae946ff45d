//! Many threads on one heap whose device fails at random, with the recorder on: at the end the heap is whole, nothing
//! leaked, and the tape has every event or counts its loss.
//!
//! `VRAMTAPE_STORM_SECONDS=600` makes it long; `VRAMTAPE_SEED` repeats a seed, as far as threads can be repeated.

mod rng;
mod tape;
mod workload;

use std::env;
use std::time::{Duration, Instant};

use recorder::{SystemClock, TapeRecorder};
use settings::{Settings, StitchConfig};
use trace_format::Meta;

use rng::{Rng, seed};
use tape::TapeTotals;
use workload::Storm;

const THREADS: u64 = 24;

#[test]
fn a_recorded_storm_leaves_a_whole_heap_and_a_tape_that_replays() {
    let totals = run_storm(Settings::default().ring_events as usize, 0, None);
    assert!(totals.allocations > 0 && totals.ooms > 0, "{totals:?}");
}

#[test]
fn a_recorded_storm_under_stitch_leaves_a_tape_with_every_page() {
    let stitch = Some(StitchConfig::default());
    for (slots, delays) in [(Settings::default().ring_events as usize, 0), (1 << 14, 2)] {
        let totals = run_storm(slots, delays, stitch);
        assert_eq!(totals.lost > 0, delays > 0, "{totals:?}");
        // A reader that fell behind may have lost the record of each mapping: the state in the ring has the pages.
        assert!(totals.page_maps > 0 || delays > 0, "{totals:?}");
    }
}

#[test]
fn a_ring_too_small_for_the_storm_counts_its_losses() {
    let totals = run_storm(1 << 14, 5, None);
    assert!(totals.lost > 0, "{totals:?}");
}

/// A storm over a ring of `slots`, whose reader falls behind at least `delays` times.
fn run_storm(slots: usize, delays: u64, stitch: Option<StitchConfig>) -> TapeTotals {
    let seconds = env::var("VRAMTAPE_STORM_SECONDS")
        .map_or(2.0, |text| text.parse().expect("VRAMTAPE_STORM_SECONDS is a number of seconds"));
    let seed = seed();
    println!("storm of {THREADS} threads, {seconds} s, a ring of {slots}: VRAMTAPE_SEED={seed}");
    let folder = tempfile::tempdir().expect("a folder for the ring and the tape");
    let path = folder.path().join("storm.vtape");
    let storm = Storm::new(seed, folder.path(), slots, stitch);
    let tape = TapeRecorder::start(&path, Meta::default(), SystemClock::new()).expect("a tape");
    tape.add(storm.source(delays));
    storm.await_tape();

    let end = Instant::now() + Duration::from_secs_f64(seconds);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let rng = Rng::new(seed ^ (number + 1).wrapping_mul(0x9e37_79b9));
            let storm = &storm;
            scope.spawn(move || storm.run(rng, end));
        }
    });
    // A writer that is behind goes on at a later state: the mark would be among its losses.
    assert!(tape.flush(), "the storm is in the file");
    let state = storm.marked_state();
    assert!(tape.flush(), "the mark is in the file before anything overwrites it");
    storm.calm();
    let (summary, recorded) = (tape.stop().expect("a whole tape"), storm.recorded());
    println!("{storm}");
    println!("{summary:?}, {} bytes", path.metadata().expect("a tape's file").len());

    let totals = tape::follow(&path, &state);
    println!("{totals:?}");
    assert_eq!(
        (totals.records, totals.lost),
        (summary.records, summary.lost),
        "what the tape holds"
    );
    assert_eq!(totals.allocated_bytes, 0, "everything was given back");
    assert_eq!(totals.reserved_bytes, 0, "and returned to the device");
    // Besides records, the ring holds clock moments, and up to two more slots for a wide record.
    let unread =
        recorded.checked_sub(totals.records + totals.lost).expect("no more than was recorded");
    let most = 16 + 2 * totals.records + recorded / 1_000;
    assert!(unread <= most, "{unread} of {recorded} are neither on the tape nor lost");
    if totals.lost == 0 {
        storm.expect_totals(&totals);
    }
    let replayed = tape::replay(&path, stitch);
    println!("{replayed:?}");
    assert_eq!(replayed.records, totals.records, "every record is replayed");
    assert_eq!(replayed.reserved_bytes, 0, "the replay returns everything too");
    totals
}
