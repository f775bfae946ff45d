//! Every strategy of the table takes every recorded run.

mod common;

use replay::compare::compare;
use replay::driver::Follow;
use replay::import;
use replay::run::DeviceTape;
use replay::strategy::{Choice, TABLE};
use settings::Compat;

#[test]
fn every_recorded_run_replays_under_every_strategy_and_none_reserves_less_than_lives() {
    let choices: Vec<_> =
        TABLE.iter().map(|row| Choice::parse(row.name, Compat::default()).unwrap()).collect();
    let mut checked = 0;
    for path in common::all_traces() {
        let known = common::known(&path);
        let import = import::import_file(&path, &known).expect("a snapshot");
        for device in &import.devices {
            let tape = DeviceTape { base: &device.base, records: &device.records, text: &|_| "" };
            for capacity_bytes in [None, known.capacity_bytes] {
                let follow = Follow { is_as_recorded: false, ..Follow::default() };
                let rows = compare(tape, &choices, capacity_bytes, follow, 0, &|_| {});
                for row in rows.expect("a consistent trace") {
                    let row = row.report().expect("a whole replay");
                    let name = path.display();
                    assert!(row.peak_live_bytes <= row.peak_reserved_bytes, "{name}: {row:?}");
                    assert!(row.peak_allocated_bytes <= row.peak_reserved_bytes, "{name}: {row:?}");
                    assert!(row.events > 0 && row.driver_time_ns > 0, "{name}: {row:?}");
                    assert!(capacity_bytes.is_some() || row.num_ooms == 0, "{name}: {row:?}");
                    assert!(capacity_bytes.is_none_or(|most| row.peak_reserved_bytes <= most));
                    checked += 1;
                }
            }
        }
    }
    println!("{checked} replays checked");
    assert!(checked >= 2 * TABLE.len());
}
