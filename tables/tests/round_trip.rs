//! The tables hold the tape's content, in both formats; a table that cannot be written leaves no file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_ipc::reader::FileReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use replay::import::RunLimits;
use replay::series::Point;
use replay::tape::Tape;
use tables::{Format, Line, Source, Table, TableError};
use trace_format::{Event, StackId, State};

/// The tapes and snapshots kept in the repository.
fn runs() -> Vec<(PathBuf, Tape)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut paths = Vec::new();
    for (folder, end) in [("tapes", ".vtape"), ("traces", ".zst"), ("snapshots", ".pickle")] {
        let entries = fs::read_dir(data.join(folder)).expect("a folder");
        let of_kind = entries.map(|entry| entry.expect("an entry").path());
        paths.extend(of_kind.filter(|path| path.to_string_lossy().ends_with(end)));
    }
    assert!(paths.len() > 10, "{paths:?}");
    let open =
        |path: PathBuf| (path.clone(), Tape::open(&path, &RunLimits::default()).expect("a run"));
    paths.into_iter().map(open).collect()
}

fn source(tape: &Tape) -> Source<'_> {
    let point =
        |at: u64| Point { after_records: at, time_ns: at, reserved_bytes: 2 * at, live_bytes: at };
    let lines = tape.devices.iter().map(|device| Line {
        device: device.id,
        strategy: "native".to_owned(),
        config: String::new(),
        is_recorded: true,
        points: (0..10).map(point).collect(),
    });
    Source { devices: tape.devices.iter().collect(), stacks: &tape.stacks, lines: lines.collect() }
}

fn read(path: &Path, format: Format) -> Vec<RecordBatch> {
    let file = File::open(path).expect("a file");
    match format {
        Format::Parquet => {
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("parquet");
            reader.build().expect("parquet").map(|batch| batch.expect("a batch")).collect()
        }
        Format::Arrow => {
            let reader = FileReader::try_new(file, None).expect("arrow");
            reader.map(|batch| batch.expect("a batch")).collect()
        }
    }
}

fn written(table: Table, tape: &Tape, format: Format, folder: &Path) -> Vec<RecordBatch> {
    let path = folder.join(format!("{}.{}", table.name(), format.extension()));
    drop(fs::remove_file(&path)); // Of the run before.
    let written = table.write(&source(tape), &path, format).expect("written");
    assert!(!path.exists(), "not before it is finished");
    let rows = written.rows;
    written.finish().expect("named");
    let batches = read(&path, format);
    assert_eq!(batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>(), rows);
    batches
}

/// A column of 64-bit amounts.
fn amounts(batches: &[RecordBatch], name: &str) -> Vec<Option<u64>> {
    let column = |batch: &RecordBatch| {
        let column =
            batch.column_by_name(name).expect("a column").as_primitive::<Int64Type>().clone();
        column.iter().map(|value| value.map(i64::cast_unsigned)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

/// A column of numbers of records.
fn numbers(batches: &[RecordBatch], name: &str) -> Vec<Option<i64>> {
    amounts(batches, name).into_iter().map(|value| value.map(u64::cast_signed)).collect()
}

fn handles(batches: &[RecordBatch], name: &str) -> Vec<Option<u64>> {
    let column = |batch: &RecordBatch| {
        batch
            .column_by_name(name)
            .expect("a column")
            .as_primitive::<UInt64Type>()
            .iter()
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

fn ids(batches: &[RecordBatch], name: &str) -> Vec<Option<u32>> {
    let column = |batch: &RecordBatch| {
        batch
            .column_by_name(name)
            .expect("a column")
            .as_primitive::<UInt32Type>()
            .iter()
            .collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

fn texts(batches: &[RecordBatch], name: &str) -> Vec<Option<String>> {
    let column = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).expect("a column").as_string::<i32>().clone();
        column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
    };
    batches.iter().flat_map(column).collect()
}

#[test]
fn records_are_the_tapes_with_the_sums_of_its_state() {
    let folder = tempfile::tempdir().unwrap();
    for (path, tape) in runs() {
        for format in Format::ALL {
            let batches = written(Table::Records, &tape, format, folder.path());
            let devices: Vec<_> = batches
                .iter()
                .flat_map(|batch| batch["device"].as_primitive::<UInt16Type>().values().to_vec())
                .collect();
            let numbers = amounts(&batches, "record");
            let (times, threads) = (amounts(&batches, "time_ns"), ids(&batches, "thread"));
            let (kinds, stacks) = (texts(&batches, "kind"), ids(&batches, "stack_id"));
            let (addrs, sizes) = (handles(&batches, "addr"), amounts(&batches, "size_bytes"));
            let (streams, pools) = (handles(&batches, "stream"), texts(&batches, "pool"));
            let requested = amounts(&batches, "requested_bytes");
            let allocated = amounts(&batches, "allocated_bytes");
            let reserved = amounts(&batches, "reserved_bytes");
            let mut row = 0;
            for device in &tape.devices {
                let mut state = State::from_base(&device.base).unwrap();
                for (at, record) in (0..).zip(&device.records) {
                    state.apply(record).unwrap();
                    assert_eq!((devices[row], numbers[row]), (device.id.0, Some(at)));
                    assert_eq!(times[row].unwrap_or(0), record.time_ns);
                    assert_eq!(threads[row].unwrap_or(0), record.thread.0);
                    assert_eq!(stacks[row].unwrap_or(0), record.stack.0);
                    assert_eq!(kinds[row].as_deref(), Some(record.event.name()));
                    assert_eq!(allocated[row], Some(state.allocated_bytes()));
                    assert_eq!(reserved[row], Some(state.reserved_bytes()));
                    if let Event::Alloc { addr, requested_bytes, size_bytes, stream, pool } =
                        record.event
                    {
                        assert_eq!(addrs[row], Some(addr.0));
                        assert_eq!(
                            (requested[row], sizes[row]),
                            (Some(requested_bytes), Some(size_bytes))
                        );
                        assert_eq!(
                            (streams[row], pools[row].clone()),
                            (Some(stream.0), Some(pool.to_string()))
                        );
                    }
                    if let Event::ResetPeak = record.event {
                        assert_eq!((addrs[row], sizes[row], streams[row]), (None, None, None));
                    }
                    row += 1;
                }
            }
            assert_eq!(row, numbers.len(), "{} {format:?}", path.display());
        }
    }
}

#[test]
fn allocations_are_alive_as_in_the_state() {
    let folder = tempfile::tempdir().unwrap();
    for (path, tape) in runs() {
        let batches = written(Table::Allocations, &tape, Format::Parquet, folder.path());
        let (begun, freed) = (numbers(&batches, "alloc_record"), numbers(&batches, "free_record"));
        let sizes = amounts(&batches, "size_bytes");
        let of_device: Vec<_> = batches
            .iter()
            .flat_map(|batch| batch["device"].as_primitive::<UInt16Type>().values().to_vec())
            .collect();
        for device in &tape.devices {
            let mut state = State::from_base(&device.base).unwrap();
            let moments = 1 + device.records.len() as u64 / 50;
            for (at, record) in (0..).zip(&device.records) {
                state.apply(record).unwrap();
                if at % moments != 0 {
                    continue;
                }
                let is_live = |row: &usize| {
                    of_device[*row] == device.id.0
                        && begun[*row].is_some_and(|begun| begun <= at.cast_signed())
                        && freed[*row].is_none_or(|freed| freed > at.cast_signed())
                };
                let live: u64 =
                    (0..sizes.len()).filter(is_live).map(|row| sizes[row].unwrap()).sum();
                assert_eq!(live, state.allocated_bytes(), "{} after {at}", path.display());
            }
        }
    }
}

#[test]
fn stacks_and_frames_name_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for (_, tape) in runs() {
        let stacks = written(Table::Stacks, &tape, Format::Parquet, folder.path());
        let frames = written(Table::Frames, &tape, Format::Arrow, folder.path());
        let functions = texts(&frames, "function");
        let (of_stack, depths) = (ids(&frames, "stack_id"), ids(&frames, "depth"));
        let (whole, sites) = (texts(&stacks, "stack"), texts(&stacks, "site"));
        for (row, id) in ids(&stacks, "stack_id").into_iter().enumerate() {
            let expected: Vec<_> = tape.stacks.frames_of(StackId(id.unwrap())).collect();
            let of_this = (0..functions.len()).filter(|row| of_stack[*row] == id);
            for (depth, (frame, row)) in expected.iter().zip(of_this).enumerate() {
                assert_eq!(depths[row], Some(depth as u32));
                assert_eq!(functions[row].as_deref(), Some(tape.stacks.text(frame.name)));
                seen += 1;
            }
            let text = whole[row].as_deref().unwrap();
            assert_eq!(
                sites[row].as_deref(),
                text.rsplit(';').next().filter(|_| !expected.is_empty())
            );
        }
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn series_are_the_points_and_a_table_without_rows_has_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let (_, tape) = runs().remove(0);
    let series = written(Table::Series, &tape, Format::Arrow, folder.path());
    assert_eq!(amounts(&series, "reserved_bytes")[3], Some(6));
    assert_eq!(texts(&series, "strategy")[0].as_deref(), Some("native"));
    assert_eq!(amounts(&series, "time_ns")[0], None, "no clock");
    let nothing = Tape::default();
    for table in Table::ALL {
        for format in Format::ALL {
            let batches = written(table, &nothing, format, folder.path());
            assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
        }
    }
}

#[test]
fn a_contradictory_run_or_a_full_disk_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut tape) = runs().remove(0);
    let free = tape.devices[0]
        .records
        .iter()
        .position(|record| matches!(record.event, Event::Free { .. }));
    let again = tape.devices[0].records[free.expect("a free")];
    tape.devices[0].records.push(again);
    for table in [Table::Records, Table::Allocations] {
        let path = folder.path().join("table.parquet");
        let error = table.write(&source(&tape), &path, Format::Parquet).err().expect("an error");
        assert!(matches!(error, TableError::Contradiction { .. }), "{error}");
    }
    let missing = folder.path().join("missing/table.arrow");
    let error =
        Table::Stacks.write(&source(&tape), &missing, Format::Arrow).err().expect("an error");
    assert!(matches!(error, TableError::Io { .. }), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
