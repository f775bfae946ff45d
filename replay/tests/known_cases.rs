//! Known cases of memory going to waste, each as a small tape in `tests/data/tapes`: they reproduce offline, and what
//! cures them is shown by replay.
//!
//! The programs below make the tapes; `UPDATE_TAPES=1 cargo test -p replay --test known_cases` writes them anew.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::builder::{MIB, Program, options};
use replay::driver::Follow;
use replay::edit::edit;
use replay::import::RunLimits;
use replay::report::Report;
use replay::run::{DeviceTape, Options, run};
use replay::tape::{Device, Tape};
use replay::tune::{Member, Tuning, tune};
use replay::waste::{Waste, waste};
use settings::{Compat, Config};
use trace_format::{BaseState, DeviceId, DeviceMeta, Meta, Source, Writer};

/// A case: the program's requests, and its settings.
struct Case {
    name: &'static str,
    settings: &'static str,
    capacity_bytes: u64,
    program: Program,
}

/// pytorch#193400, pytorch#123548: `max_split_size_mb` with expandable segments. Freed neighbours grow together to
/// blocks of more than the limit, which no smaller request may touch; the segment has room to grow instead, and does,
/// cycle after cycle.
fn max_split_size_with_expandable_segments() -> Case {
    let mut program = Program::default();
    for cycle in 0..50 {
        let name = |part: usize| format!("activation {part} of cycle {cycle}");
        for part in 0..4 {
            program.alloc(&name(part), 64 * MIB, 0);
        }
        program.alloc(&format!("kept of cycle {cycle}"), 2 * MIB, 0);
        for part in 0..4 {
            program.free(&name(part));
        }
    }
    let settings = "expandable_segments:True,max_split_size_mb:128";
    Case { name: "max-split-size-expandable", settings, capacity_bytes: 80 << 30, program }
}

/// Megatron-LM#6885: work that runs once on a side stream leaves its memory there, where the main stream cannot have
/// it.
fn one_shot_side_stream() -> Case {
    let mut program = Program::default();
    for (stream, part) in [(7, "once"), (0, "step")] {
        for at in 0..20 {
            program.alloc(&format!("{part} {at}"), 100 * MIB, stream);
        }
        for at in 0..20 {
            program.free(&format!("{part} {at}"));
        }
    }
    Case { name: "one-shot-side-stream", settings: "", capacity_bytes: 80 << 30, program }
}

/// pytorch#189504: the last flush completes a free that waited for another stream; the block fits, but lies in a
/// segment that is in use and so cannot go back, and PyTorch does not look again.
fn fitting_block_after_the_flush() -> Case {
    let mut program = Program::default();
    program.alloc("whole", 90 * MIB, 0);
    program.free("whole");
    program.alloc("kept", 5 * MIB, 0); // Cut from the front of what was whole.
    program.alloc("shared", 80 * MIB, 0); // From the rest of it.
    program.free_later("shared");
    program.alloc("asks", 80 * MIB, 0);
    Case { name: "fitting-block-after-flush", settings: "", capacity_bytes: 100 * MIB, program }
}

impl Case {
    /// The run as a tape: what the real allocator did with the program.
    fn tape(&self) -> Tape {
        let outcome = self.program.record(&options(self.settings, Some(self.capacity_bytes)));
        let meta = Meta {
            source: Source::Imported,
            producer: "replay/tests/known_cases.rs".to_owned(),
            strategy: Some("native".to_owned()),
            compat: Some(Compat::V2_15.name().to_owned()),
            alloc_conf: self.settings.to_owned(),
            devices: vec![DeviceMeta {
                id: DeviceId(0),
                capacity_bytes: Some(self.capacity_bytes),
                ..DeviceMeta::default()
            }],
            ..Meta::default()
        };
        let device = Device {
            id: DeviceId(0),
            base: BaseState::default(),
            records: outcome.records,
            ..Device::default()
        };
        let mut tape = Tape { meta, devices: vec![device], ..Tape::default() };
        tape.stacks.strings = vec![String::new()];
        tape.stacks.stacks = vec![Box::default()];
        tape
    }

    fn path(&self) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/tapes");
        folder.join(format!("{}.vtape", self.name))
    }

    /// The tape in the repository.
    fn committed(&self) -> Tape {
        Tape::open(self.path(), &RunLimits::default()).expect("a tape; UPDATE_TAPES=1 writes it")
    }
}

fn with_device<T>(tape: &Tape, look: impl FnOnce(DeviceTape<'_>) -> T) -> T {
    let text = |id| tape.text(id);
    let device = &tape.devices[0];
    look(DeviceTape { base: &device.base, records: &device.records, text: &text })
}

fn options_of(tape: &Tape, settings: &str) -> Options {
    options(settings, tape.meta.devices[0].capacity_bytes)
}

fn replay(tape: &Tape, settings: &str) -> Report {
    with_device(tape, |device| run(device, &options_of(tape, settings), &mut |_| {})).unwrap()
}

fn waste_of(tape: &Tape, settings: &str) -> Waste {
    with_device(tape, |device| waste(device, &options_of(tape, settings), 10, &mut |_| {})).unwrap()
}

fn tuned(tape: &Tape) -> Tuning {
    with_device(tape, |device| {
        let member = Member {
            tape: device,
            settings: tape.meta.alloc_conf.clone(),
            stitched: None,
            capacity_bytes: tape.meta.devices[0].capacity_bytes,
            follow: Follow::default(),
        };
        tune(&[member], tape.compat(), 200, &|| {})
    })
    .unwrap()
}

#[test]
fn the_committed_tapes_are_what_the_programs_do() {
    let folder = tempfile::tempdir().unwrap();
    for case in [
        max_split_size_with_expandable_segments(),
        one_shot_side_stream(),
        fitting_block_after_the_flush(),
    ] {
        let fresh = folder.path().join("fresh.vtape");
        let tape = case.tape();
        tape.write(Writer::create(&fresh, &tape.meta).unwrap()).unwrap();
        if std::env::var_os("UPDATE_TAPES").is_some() {
            fs::create_dir_all(case.path().parent().unwrap()).unwrap();
            fs::copy(&fresh, case.path()).unwrap();
        }
        let size_bytes = fs::metadata(case.path()).expect("a tape; UPDATE_TAPES=1 writes it").len();
        assert!(size_bytes < 50 << 10, "{}: {size_bytes} bytes", case.name);
        let committed = case.committed();
        assert_eq!(committed.meta, tape.meta);
        assert_eq!(committed.devices, tape.devices, "{}: if right, UPDATE_TAPES=1", case.name);
    }
}

#[test]
fn pytorch_193400_max_split_size_with_expandable_segments_blows_up_and_without_it_does_not() {
    let tape = max_split_size_with_expandable_segments().committed();
    let recorded = replay(&tape, &tape.meta.alloc_conf);
    assert!(recorded.peak_reserved_bytes > 12 << 30, "{recorded:?}");
    assert!(recorded.peak_live_bytes < 400 * MIB, "{recorded:?}");
    assert!(replay(&tape, "expandable_segments:True").peak_reserved_bytes < 400 * MIB);
    let found = waste_of(&tape, &tape.meta.alloc_conf);
    let stranded = found.peak.sample.parts.stranded_by_fragmentation_bytes;
    assert!(stranded > 12 << 30 && found.peak.withheld_by_settings_bytes == stranded, "{found:?}");
    let best = tuned(&tape).best.expect("a gain");
    assert!(!best.settings.contains("max_split_size_mb"), "{best:?}");
    assert!(best.runs[0].peak_reserved_bytes < 400 * MIB, "{best:?}");
}

#[test]
fn megatron_6885_a_one_shot_side_stream_keeps_what_it_had() {
    let tape = one_shot_side_stream().committed();
    for settings in ["", "expandable_segments:True"] {
        let found = waste_of(&tape, settings);
        let peak = &found.peak;
        assert!(peak.sample.reserved_bytes >= 4000 * MIB, "{settings}: {peak:?}");
        assert_eq!(peak.sample.parts.stranded_by_stream_bytes, 2000 * MIB, "{settings}: {peak:?}");
        assert_eq!(peak.streams[0].stream.0, 7, "the stream is named");
        assert_eq!(peak.returnable_bytes, 2000 * MIB, "and a flush would return it");
    }
    let edits = ["merge-stream:7=0".parse().unwrap()];
    let (on_one_stream, summary) = edit(&tape, &edits).unwrap();
    assert_eq!(summary.moved, 20);
    assert_eq!(replay(&on_one_stream, "").peak_reserved_bytes, 2000 * MIB, "one stream shares it");
    assert_eq!(tuned(&tape).best, None, "no setting gives a stream another's memory");
}

#[test]
fn pytorch_189504_a_fitting_block_is_ignored_after_the_flush_and_search_after_flush_finds_it() {
    let tape = fitting_block_after_the_flush().committed();
    let found = waste_of(&tape, "");
    assert_eq!(found.ooms_total, 1);
    let oom = &found.ooms[0];
    assert_eq!(oom.refused.expect("a refused request").requested_bytes, 80 * MIB);
    assert_eq!((oom.largest_free.large_bytes, oom.available_bytes), (85 * MIB, 10 * MIB));
    assert_eq!(oom.sample.parts.cached_reusable_bytes, 85 * MIB, "it fits, and PyTorch gives up");

    let mut cured = options_of(&tape, "");
    let config = cured.native_config().unwrap().clone();
    cured.strategy = Config { search_after_flush: true, ..config }.into();
    let report = with_device(&tape, |device| run(device, &cured, &mut |_| {})).unwrap();
    assert_eq!((report.num_ooms, report.num_alloc_retries), (0, 1), "{report:?}");
    let best = tuned(&tape).best.expect("a gain");
    assert_eq!((best.runs[0].num_ooms, best.runs[0].fits_from_bytes.is_some()), (0, true));
}
