//! Watching a process that runs: this test's own, whose rings lie in a folder of their own.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use events::{BlockSlot, Recorder};
use recorder::{RingOptions, RingRecorder, SystemClock};
use serde_json::Value;
use trace_format::{
    Addr, DeviceId, DeviceMeta, EndKind, Event, Item, MarkKind, Meta, PoolId, Reader, StackId,
    State, Stream,
};

const SEGMENT_BYTES: u64 = 2 << 20;

/// A device of this process.
struct Device {
    recorder: RingRecorder,
    blocks: u64,
}

impl Device {
    fn new(folder: &Path, id: u16) -> Self {
        let device = DeviceId(id);
        let options =
            RingOptions { dir: folder.to_owned(), device, slots: 1 << 16, has_pages: false };
        let mut recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
        let meta = DeviceMeta {
            id: device,
            name: "a GPU".to_owned(),
            total_bytes: Some(1 << 30),
            memory_fraction: Some(0.5),
            ..DeviceMeta::default()
        };
        recorder.ring().describe(&Meta { devices: vec![meta], ..Meta::default() });
        let (addr, stream, pool) = (Addr(0x7000_0000), Stream(0), PoolId::DEFAULT);
        let size_bytes = SEGMENT_BYTES;
        let event = Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: false };
        recorder.record(StackId::NONE, event);
        Self { recorder, blocks: 0 }
    }

    /// Allocates and frees one block, and keeps another as long as there is room for it.
    fn step(&mut self) {
        let (stream, pool) = (Stream(0), PoolId::DEFAULT);
        let (requested_bytes, size_bytes) = (500, 512);
        let slot = BlockSlot(self.blocks as u32);
        let mut record = |event| self.recorder.record_block(slot, StackId::NONE, event, &());
        let kept = self.blocks < 1000;
        let addr = Addr(0x7000_0000 + self.blocks * 512);
        record(Event::Alloc { addr, requested_bytes, size_bytes, stream, pool });
        if kept {
            self.blocks += 1;
        } else {
            record(Event::Free { addr, requested_bytes, size_bytes, pending: false });
        }
        if self.blocks == 10 {
            let name = self.recorder.intern("step 3");
            self.recorder.record(StackId::NONE, Event::Mark { kind: MarkKind::Step, name });
        }
    }
}

fn vramtape(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
    command.args(args).arg("--folder").arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    vramtape(folder, args).output().unwrap()
}

fn text(output: &Output) -> String {
    let text = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8(text).unwrap()
}

/// Runs `work` while the devices go on.
fn meanwhile<T>(devices: &mut [Device], work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                devices.iter_mut().for_each(Device::step);
                thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        let result = work();
        is_done.store(true, Ordering::Relaxed);
        result
    })
}

/// Applies all records of a tape to its states.
fn follow(path: &Path) -> (Vec<(DeviceId, State)>, u64) {
    let mut reader = Reader::open(path).unwrap();
    let mut states: Vec<(DeviceId, State)> = Vec::new();
    let mut records = 0;
    for item in reader.by_ref() {
        match item.unwrap() {
            Item::Meta(_) => {}
            Item::Base(device, base) => {
                states.push((device, State::from_base(&base).unwrap()));
            }
            Item::Event(device, record) => {
                let (_, state) = states.iter_mut().find(|(known, _)| *known == device).unwrap();
                state.apply(&record).unwrap();
                records += 1;
            }
        }
    }
    assert!(reader.recovered().finished);
    (states, records)
}

/// How the tape says that the program ended: the last description counts.
fn end(path: &Path) -> Option<EndKind> {
    let mut reader = Reader::open(path).unwrap();
    assert!(reader.by_ref().all(|item| item.is_ok()));
    reader.meta().end.as_ref().map(|end| end.kind)
}

fn attach(folder: &Path, path: &Path, more: &[&str]) -> Child {
    let mut args = vec!["attach", "--json", "-o", path.to_str().unwrap()];
    args.extend(more);
    vramtape(folder, &args).spawn().unwrap()
}

fn report(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn top_shows_the_memory_of_every_device() {
    let folder = tempfile::tempdir().unwrap();
    let mut devices = [Device::new(folder.path(), 0), Device::new(folder.path(), 1)];
    (0..12).for_each(|_| devices[0].step());
    let look = run(folder.path(), &["top", "--json", "--interval", "0.1"]);
    assert!(look.status.success(), "{}", text(&look));
    let frame: Value = serde_json::from_slice(&look.stdout).unwrap();
    assert_eq!(frame["pid"], std::process::id());
    assert_eq!(frame["is_live"], true);
    let [first, second] = [0, 1].map(|device| &frame["devices"][device]);
    assert_eq!((&first["device"], &second["device"]), (&0.into(), &1.into()));
    assert_eq!(first["allocated_bytes"], 12 * 512);
    assert_eq!(first["reserved_bytes"], SEGMENT_BYTES);
    assert_eq!(first["limit_bytes"], 512 << 20, "half of the device");
    assert_eq!(first["to_oom_bytes"], (512 << 20) - SEGMENT_BYTES);
    assert_eq!((&first["step"], &first["live_blocks"]), (&"step 3".into(), &12.into()));
    assert_eq!(first["pools"][0]["free_bytes"], SEGMENT_BYTES - 12 * 512);
    assert_eq!(first["last_events"][0]["what"], "segment of 2.00 MiB allocated");
    assert_eq!(second["allocated_bytes"], 0);

    let once = run(folder.path(), &["top", "--interval", "0.1"]);
    let shown = text(&once);
    assert!(once.status.success() && shown.contains("device 1 a GPU"), "{shown}");
    assert!(shown.contains("reserved 2.00 MiB of 512.00 MiB"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "no colours where no terminal is: {shown}");
}

#[test]
fn top_counts_events_while_it_looks() {
    let folder = tempfile::tempdir().unwrap();
    let mut devices = [Device::new(folder.path(), 0)];
    let look =
        meanwhile(&mut devices, || run(folder.path(), &["top", "--json", "--interval", "0.3"]));
    let frame: Value = serde_json::from_slice(&look.stdout).unwrap();
    assert!(frame["devices"][0]["events_per_second"].as_f64().unwrap() > 0.0, "{frame}");
}

#[test]
fn an_attached_tape_starts_with_the_state_of_its_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    let mut devices = [Device::new(folder.path(), 0), Device::new(folder.path(), 1)];
    (0..100).for_each(|_| devices[1].step());
    let report =
        meanwhile(&mut devices, || report(attach(folder.path(), &path, &["--duration", "0.5s"])));
    assert_eq!(report["end"], "the time is over");
    let (states, records) = follow(&path);
    assert_eq!(states.len(), 2);
    assert!(records > 0 && states[1].1.allocated_bytes() >= 100 * 512);
    let counted: u64 =
        [0, 1].iter().map(|at| report["devices"][at]["records"].as_u64().unwrap()).sum();
    assert_eq!((counted, &report["devices"][0]["lost"]), (records, &0.into()));
    assert_eq!(Reader::open(&path).unwrap().meta().devices[0].name, "a GPU");

    let tape = path.to_str().unwrap();
    let of_tape = |verb: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
        text(&command.args(verb).arg(tape).output().unwrap())
    };
    let replayed = of_tape(&["replay", "--device", "1"]);
    assert!(replayed.contains("starts mid-run: "), "{replayed}");
    let verified = of_tape(&["verify"]);
    assert!(verified.contains("device 1: the same as recorded"), "{verified}");

    let again = run(folder.path(), &["attach", "-o", path.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again).contains("use -f to replace it"), "{}", text(&again));
}

#[test]
fn a_process_that_ends_leaves_a_finished_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    let mut devices = vec![Device::new(folder.path(), 0)];
    let child = meanwhile(&mut devices, || {
        let child = attach(folder.path(), &path, &[]);
        until_begun(folder.path());
        child
    });
    let blocks = devices[0].blocks;
    drop(devices);
    let report = report(child);
    assert_eq!(report["end"], "the process ended");
    assert_eq!(follow(&path).0[0].1.allocated_bytes(), blocks * 512, "to the very end");
    assert_ne!(end(&path), Some(EndKind::RecordingStopped), "the process does not go on");
}

#[test]
fn control_c_finishes_the_tape() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    let mut devices = [Device::new(folder.path(), 0)];
    let report = meanwhile(&mut devices, || {
        let child = attach(folder.path(), &path, &[]);
        until_begun(folder.path());
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        report(child)
    });
    assert_eq!(report["end"], "stopped");
    follow(&path);
    assert_eq!(end(&path), Some(EndKind::RecordingStopped), "the process goes on");
}

#[test]
fn a_ring_that_is_cut_off_ends_the_attach_and_keeps_the_records_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    let mut device = Device::new(folder.path(), 0);
    (0..100).for_each(|_| device.step());
    let ring = device.recorder.ring().path().unwrap();
    let child = attach(folder.path(), &path, &[]);
    until_begun(folder.path());
    thread::sleep(std::time::Duration::from_secs(1)); // It reads the state.
    // From here on this process must not touch the pages, which it has mapped.
    std::fs::OpenOptions::new().write(true).open(&ring).unwrap().set_len(0).unwrap();
    let ended = child.wait_with_output().unwrap();
    std::fs::remove_file(&ring).unwrap();
    std::mem::forget(device);
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended));
    let said = text(&ended);
    assert!(said.contains(ring.to_str().unwrap()), "{said}");
    assert!(said.contains("became shorter"), "{said}");
    assert!(said.contains("holds the records read until then"), "{said}");
    assert_eq!(follow(&path).0[0].1.allocated_bytes(), 100 * 512);
}

/// Waits for the temporary file of a tape in the making.
fn until_begun(folder: &Path) {
    let is_part = |path: PathBuf| path.extension().is_some_and(|extension| extension == "part");
    while !std::fs::read_dir(folder).unwrap().any(|file| is_part(file.unwrap().path())) {
        thread::yield_now();
    }
}

#[test]
fn a_process_that_cannot_be_watched_is_an_error_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    for (args, why) in [
        (&["top"][..], "no process records here"),
        (&["top", "1"], "process 1 has no ring"),
        (&["attach", "-o", "x.vtape", "1"], "process 1 has no ring"),
        (&["attach", "-o", "-"], "has to be a file"),
        (&["attach", "-o", "x", "--duration", "soon"], "for example 30s"),
    ] {
        let output = run(folder.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output).contains(why), "{args:?}: {}", text(&output));
    }
    let mut nothing = String::new();
    let mut child = vramtape(folder.path(), &["top"]).spawn().unwrap();
    child.stdout.take().unwrap().read_to_string(&mut nothing).unwrap();
    child.wait().unwrap();
    assert_eq!(nothing, "", "errors go to standard error");
}
