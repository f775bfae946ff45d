//! RMM's logs and minimalloc's problems become runs that replay, with notes on missing facts.

use std::fs;
use std::path::PathBuf;

use replay::driver::Follow;
use replay::import::RunLimits;
use replay::run::{Addresses, DeviceTape, Options, run};
use replay::tape::Tape;
use trace_format::{Event, State};

fn open(text: &str) -> Result<Tape, String> {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("log.csv");
    fs::write(&path, text).unwrap();
    Tape::open(&path, &RunLimits::default()).map_err(|error| error.to_string())
}

/// The peak of requests in units of 512 bytes, by the replay; and that the tape itself holds together.
fn peak_live(tape: &Tape, device: usize) -> u64 {
    let device = &tape.devices[device];
    let mut state = State::new();
    for record in &device.records {
        state.apply(record).unwrap();
    }
    let options = Options {
        strategy: settings::Config::default().into(),
        capacity_bytes: None,
        memory_fraction: None,
        addresses: Addresses::Lowest,
        follow: Follow::default(),
    };
    let text = |id| tape.text(id);
    let device = DeviceTape { base: &device.base, records: &device.records, text: &text };
    run(device, &options, &mut |_| {}).unwrap().peak_live_bytes
}

fn says(tape: &Tape, what: &str) {
    let inferred = &tape.meta.inferred;
    assert!(inferred.iter().any(|note| note.contains(what)), "{what:?} in {inferred:#?}");
}

/// The present format of `logging_resource_adaptor` (rmm `cpp/src/mr/detail/logging_resource_adaptor_impl.cpp`:
/// `%p` of a null pointer, and a stream without `0x`).
const RMM_TODAY: &str = "Thread,Time,Action,Pointer,Size,Stream
2342727,23:59:59.841961,allocate,0x7f10012400000,1048576,0
2342728,23:59:59.841970,allocate,0x7f10012600000,1024,0x2
2342727,00:00:00.000010,free,0x7f10012400000,1048576,0
2342727,00:00:00.000012,allocate failure,(nil),99999999999,0
2342727,00:00:00.000013,allocate,0x7f10012400000,2097152,0
2342728,00:00:00.000020,free,0x7f10012600000,1024,0
";

#[test]
fn a_log_of_rmm_is_a_run() {
    let tape = open(RMM_TODAY).unwrap();
    assert_eq!(peak_live(&tape, 0), 2_097_152 + 1024);
    let records = &tape.devices[0].records;
    let allocs = records.iter().filter(|record| matches!(record.event, Event::Alloc { .. }));
    assert_eq!(allocs.count(), 3, "a failure is no allocation");
    let ooms = records.iter().filter(|record| matches!(record.event, Event::Oom { .. }));
    assert_eq!(ooms.count(), 1);
    // Midnight comes between the first two rows and the others.
    let took_ns = records.last().unwrap().time_ns - records[0].time_ns;
    assert_eq!(took_ns, (158_039 + 20) * 1000);
    assert_eq!(records.last().unwrap().thread.0, 2_342_728);
    says(&tape, "holds requests and no placements");
    says(&tape, "1 allocations failed");
    says(&tape, "1 frees are on another stream");
}

#[test]
fn older_spellings_of_rmm_are_the_same_run() {
    // 0.14: no thread, a colon before the microseconds (`logging_resource_adaptor.hpp` of that release).
    let rmm_0_14 = "Time,Action,Pointer,Size,Stream
10:11:12:000001,allocate,0x7f0000000000,1048576,0x0
10:11:12:000002,allocate,0x7f0000100000,1024,0x0
10:11:12:000003,free,0x7f0000000000,1048576,0x0
";
    // Before: `rmm::Logger::to_csv`, where a free has no size, and a path may hold a comma.
    let rmm_0_13 = "Event Type,Device ID,Address,Stream,Size (bytes),Free Memory,Total Memory,\
        Current Allocs,Start,End,Elapsed,Location
Alloc,0,0x7fae06600000,0,1048576,0,0,1,1.10549,1.1074,0.00191666,numba/driver.py:683
Alloc,0,0x7fae06700000,0,1024,0,0,2,1.10749,1.1075,0.00191666,numba/driver.py:683
Free,0,0x7fae06600000,0,0,0,0,1,1.10798,1.10921,0.00122238,numba/a,b.py:678
Alloc,1,0x7fae06600000,0,4096,0,0,2,1.20749,1.2075,0.00191666,numba/driver.py:683
";
    assert_eq!(peak_live(&open(rmm_0_14).unwrap(), 0), 1_048_576 + 1024);
    let tape = open(rmm_0_13).unwrap();
    assert_eq!(peak_live(&tape, 0), 1_048_576 + 1024);
    assert_eq!(peak_live(&tape, 1), 4096);
    let stack = tape.devices[0].records.last().unwrap().stack;
    assert_eq!(tape.stacks.frames_of(stack).next().unwrap().line, 0, "nothing after the comma");
    let first = tape.devices[0].records[0].stack;
    let frame = tape.stacks.frames_of(first).next().unwrap();
    assert_eq!((tape.text(frame.filename), frame.line), ("numba/driver.py", 683));
}

#[test]
fn a_log_that_began_late_or_ends_early_is_noted() {
    let text = "Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000001,free,0x700000000000,4096,0
1,10:00:00.000002,allocate,0x700000000000,512,0
1,10:00:00.000003,allocate,0x700000000000,1024,0
1,10:00:00.000004,free,0x700000000200,512,0
1,10:00:00.000005,free,0x700000000200,512,0
1,10:00:00.000006,allocate,0x0,0,0
1,10:00:00.000007,allo";
    let tape = open(text).unwrap();
    assert_eq!(peak_live(&tape, 0), 4096 + 512);
    says(&tape, "2 frees name blocks that were allocated before the log began");
    says(&tape, "1 allocations return the address of a live block");
    says(&tape, "1 frees name no block that the log has");
    says(&tape, "1 rows without a size or an address");
    says(&tape, "the log ends inside a line");
}

#[test]
fn a_problem_of_minimalloc_is_a_run() {
    // The example of its README; 12 is the best there is.
    let problem = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";
    let kib = problem.replace(",4\n", ",4096\n");
    let tape = open(&kib).unwrap();
    assert_eq!(peak_live(&tape, 0), 3 * 4096, "a free comes before an allocation at its time");
    let mut names = tape.devices[0].records.iter().filter_map(|record| {
        let frame = tape.stacks.frames_of(record.stack).next()?;
        Some(tape.text(frame.name))
    });
    assert!(names.any(|name| name == "b4"), "reports by stack name the buffers");
    // The same in its old spelling, where the end is the last moment (`converter.cc`, `old_format`).
    let old = "buffer_id,start,end,size,alignment,offset\nb1,0,2,4096,64,8192\nb2,3,8,4096,64,8192\n\
        b3,0,8,4096,64,4096\nb4,9,20,4096,64,4096\nb5,0,20,4096,64,0\n";
    let tape = open(old).unwrap();
    assert_eq!(peak_live(&tape, 0), 3 * 4096);
    says(&tape, "needs 12288 bytes");
    says(&tape, "the alignment of buffers");
}

#[test]
fn a_wrong_line_is_an_error_that_names_it() {
    let rmm = "Thread,Time,Action,Pointer,Size,Stream\n";
    let problem = "id,lower,upper,size\nb1,0,3,4\n";
    let cases = [
        (format!("{rmm}1,10:00:00.1,borrow,0x1,1,0\n"), "line 2: Action: \"borrow\" is not"),
        (format!("{rmm}\n1,10:00:00.1,free,zero,1,0\n"), "line 3: Pointer: \"zero\" is not"),
        (format!("{rmm}1,10 o'clock,free,0x1,1,0\n"), "line 2: Time: \"10 o'clock\" is not"),
        (format!("{rmm}1,10:00:00.1,free,0x1\n1\n"), "line 2: no Size: the line has 4 fields"),
        (format!("{rmm}1,10:00:00.1,free,0x1,-4,0\n"), "line 2: Size: \"-4\" is not"),
        (
            format!("{rmm}1,10:00:00.1,allocate,0x1,99999999999999,0\n"),
            "line 2: with this allocation more than 2 TiB are live",
        ),
        ("Thread,Time,Action,Pointer\n".to_owned(), "line 1: no column Size or Size (bytes)"),
        (format!("{problem}b2,3,3,4\n"), "line 3: upper: \"3\" is not after"),
        (format!("{problem}b2,3,9223372036854775808,4\n"), "line 3: upper: \"922"),
        (format!("{problem}b2,0,9,99999999999999\n"), "line 3: with this buffer more than 2 TiB"),
        ("id,lower,size\n".to_owned(), "line 1: no column upper or end"),
        ("these are notes\n".to_owned(), "begins with \"these are notes\\n\""),
    ];
    for (text, expected) in cases {
        let error = open(&text).unwrap_err();
        assert!(error.contains("log.csv: ") && error.contains(expected), "{text:?}: {error}");
    }
}
