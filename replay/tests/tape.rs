//! A run keeps everything on its way from a snapshot through a tape file.

mod common;

use std::fs;
use std::io::Write as _;

use events::Recorder;
use recorder::{RingOptions, RingRecorder, SystemClock};
use replay::import::RunLimits;
use replay::tape::{OpenError, Tape};
use trace_format::{DeviceId, Event, StackId, Writer};

#[test]
fn an_imported_snapshot_is_the_same_run_after_being_a_tape_file() {
    let folder = tempfile::tempdir().unwrap();
    for path in common::own_traces() {
        let imported = Tape::open(&path, &common::known(&path)).unwrap();
        let file = folder.path().join("run.vtape");
        let writer = Writer::create(&file, &imported.meta).unwrap();
        imported.write(writer).unwrap();
        let read = Tape::open(&file, &RunLimits::default()).unwrap();
        assert_eq!(read.meta, imported.meta, "{}", path.display());
        assert_eq!(read.devices.len(), imported.devices.len());
        for (one, other) in read.devices.iter().zip(&imported.devices) {
            assert_eq!(one.records.len(), other.records.len());
            for (one_record, other_record) in one.records.iter().zip(&other.records) {
                assert_eq!(one_record.time_ns, other_record.time_ns);
                let frames = |tape: &Tape, stack: StackId| -> Vec<_> {
                    let text = |frame: trace_format::Frame| {
                        (
                            tape.text(frame.name).to_owned(),
                            tape.text(frame.filename).to_owned(),
                            frame.line,
                        )
                    };
                    tape.stacks.frames_of(stack).map(text).collect()
                };
                assert_eq!(frames(&read, one_record.stack), frames(&imported, other_record.stack));
            }
        }
    }
}

#[test]
fn the_ring_of_a_process_is_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, device) = (folder.path().to_owned(), DeviceId(2));
    let options = RingOptions { dir, device, slots: 64, has_pages: false };
    let mut recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
    recorder.record(StackId::NONE, Event::ResetPeak);
    let path = recorder.ring().path().unwrap();
    let tape = Tape::open(&path, &RunLimits::default()).unwrap();
    assert_eq!((tape.devices[0].id, tape.devices[0].records.len()), (device, 1));
    assert_eq!(tape.meta.pid, Some(std::process::id()));
    let mut damaged = fs::read(&path).unwrap();
    damaged.truncate(10_000);
    let torn = folder.path().join("torn.ring");
    fs::write(&torn, damaged).unwrap();
    assert!(matches!(Tape::open(&torn, &RunLimits::default()).unwrap_err(), OpenError::Ring(_)));
}

#[test]
fn a_file_that_is_no_run_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes.txt");
    fs::write(&notes, "notes").unwrap();
    let error = Tape::open(&notes, &RunLimits::default()).unwrap_err();
    assert!(matches!(error, OpenError::Import(_)));
    assert!(error.to_string().contains("_dump_snapshot"), "{error}");
    let torn = folder.path().join("torn.vtape");
    fs::write(&torn, trace_format::MAGIC).unwrap();
    assert!(matches!(Tape::open(&torn, &RunLimits::default()).unwrap_err(), OpenError::Tape(_)));
    let missing = Tape::open(folder.path().join("missing"), &RunLimits::default()).unwrap_err();
    assert!(matches!(missing, OpenError::Io { .. }));
}

#[test]
fn a_compressed_tape_is_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = &common::own_traces()[0];
    let imported = Tape::open(path, &common::known(path)).unwrap();
    let plain = folder.path().join("run.vtape");
    imported.write(Writer::create(&plain, &imported.meta).unwrap()).unwrap();
    let bytes = fs::read(&plain).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let compressed =
        [("gz", gzip.finish().unwrap()), ("zst", zstd::encode_all(&bytes[..], 1).unwrap())];
    for (ending, bytes) in compressed {
        let file = folder.path().join(format!("run.vtape.{ending}"));
        fs::write(&file, bytes).unwrap();
        let read = Tape::open(&file, &RunLimits::default()).unwrap();
        assert_eq!(
            read.devices,
            Tape::open(&plain, &RunLimits::default()).unwrap().devices,
            "{ending}"
        );
        assert!(read.recovery.finished);
    }
}
