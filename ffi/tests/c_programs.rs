//! The C ABI from C: programs built with AddressSanitizer and UndefinedBehaviorSanitizer that use
//! `libvramtape.so` on the simulated device.

mod common;

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use allocator::stats::Stats;
use common::{build, build_cpp};
use recorder::{RING_DIR_VARIABLE, RingReader, list_rings, ring_dir};
use trace_format::{BlockStatus, Category, DeviceId, Event, Item, Reader, State, ThreadId};

#[test]
fn every_call_does_what_the_header_says() {
    passes("calls", &[], "device:sim");
}

#[test]
fn misuse_is_a_recorded_error_and_changes_nothing() {
    passes("misuse", &[], "device:sim");
}

#[test]
fn a_visitor_of_the_bridge_that_throws_leaves_the_device_usable() {
    let scratch = tempfile::tempdir().expect("a folder for the program");
    ends_well("visit", &build_cpp("visit", scratch.path()), &[], "device:sim");
}

#[test]
fn watchers_see_pytorchs_trace_entries() {
    passes("watch", &[], "device:sim");
    passes("watch", &[], "device:sim,record:off");
}

#[test]
fn the_history_keeps_only_requested_entries() {
    passes("history", &[], "device:sim");
    passes("history", &[], "device:sim,record:off");
}

#[test]
fn a_process_that_is_to_serve_metrics_is_refused_with_the_command_that_does() {
    let scratch = tempfile::tempdir().expect("a folder for the program");
    let program = build("refused", scratch.path(), &[]);
    ends_well("refused", &program, &["run `vramtape exporter`"], "device:sim,metrics:9400");
}

#[test]
fn the_ring_of_a_process_has_its_statistics_and_the_device_by_uuid() {
    let scratch = tempfile::tempdir().expect("a folder for the program and its ring");
    let program = build("holds", scratch.path(), &[]);
    let mut child = Command::new(program)
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .env("VRAMTAPE_CONF", "device:sim")
        .env("RANK", "3")
        .env(RING_DIR_VARIABLE, scratch.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("its output");
    assert_eq!(line, "ready\n");
    let rings = list_rings(scratch.path()).expect("rings can be listed");
    let mut reader = RingReader::open(&rings[0]).expect("it is read");
    let meta = reader.description().expect("it is described");
    assert_eq!((meta.rank, meta.pid), (Some(3), Some(child.id())));
    let uuid = "GPU-7672616d-7461-7065-2d73-696d2d2d3030";
    assert_eq!(meta.devices[0].uuid.as_deref(), Some(uuid));
    let (values, next) = reader.statistics().expect("the first allocation copied them");
    let mut stats = Stats::from_values(&values);
    reader.seek(next);
    reader.poll(|record| stats.follow(&record.event));
    assert_eq!(stats.allocated_bytes.all.current, 1024 + (30 << 20));
    assert_eq!(stats.reserved_bytes.all.current, (2 << 20) + (30 << 20));
    drop(child.stdin.take());
    assert!(child.wait().expect("it ends").success());
    assert!(reader.is_removed());
}

#[test]
fn random_calls_never_break_a_heap() {
    // A library that is built with the sanitizer is not optimised: each call takes ten times as long.
    let calls = if common::runtime().is_some() { "6000" } else { "60000" };
    thread::scope(|scope| {
        for seed in ["1", "20261120", "987654321"] {
            scope.spawn(move || passes("random", &[seed, calls], "device:sim"));
        }
    });
}

#[test]
fn threads_and_forks_neither_hang_nor_lose_memory() {
    passes("threads", &[], "device:sim");
    passes_plain("threads", FORKS, "device:sim");
}

#[test]
fn they_do_so_without_a_recorder_too() {
    passes_plain("threads", FORKS, "device:sim,record:off");
}

#[test]
fn the_settings_tape_is_finished_at_exit_and_has_everything() {
    let folder = tempfile::tempdir().expect("a folder for the tapes");
    let path = folder.path().join("{device}.vtape");
    passes_plain("threads", FORKS, &format!("device:sim,record:file,tape:\"{}\"", path.display()));
    for device in [0, 1] {
        let tape = Tape::read(&folder.path().join(format!("{device}.vtape")));
        assert!(tape.allocations > 1000, "{} allocations", tape.allocations);
        assert_eq!((tape.lost, tape.allocations), (0, tape.frees), "device {device}");
        assert!(tape.end(device).is_empty(), "all was freed and returned");
    }
    let tapes = fs::read_dir(&folder).expect("the folder can be listed").count();
    assert_eq!(tapes, 2, "a child of a fork wrote a tape");
}

#[test]
fn a_tape_between_two_calls_starts_with_the_state_of_memory() {
    let folder = tempfile::tempdir().expect("a folder for the tapes");
    let (path, saved) = (folder.path().join("run.vtape"), folder.path().join("saved.vtape"));
    let text = |path: &Path| path.to_str().expect("a path in UTF-8").to_owned();
    // It forks while the library's tape thread runs: see `FORKS`.
    passes_plain("tape", &[&text(&path), &text(&saved)], "device:sim");

    let tape = Tape::read(&path);
    assert_eq!(tape.marks, ["step 1", "in another thread"]);
    assert_eq!(tape.mark_threads.len(), 2, "each under the thread that set it");
    assert_eq!((tape.allocations, tape.frees, tape.lost), (2, 2, 0), "both devices, no child");
    assert_eq!(tape.based_on, 1, "allocated before the tape began");
    assert!(!tape.end(0).is_empty() && !tape.end(1).is_empty());

    let saved = Tape::read(&saved);
    assert_eq!((saved.allocations, saved.frees, saved.lost), (3, 2, 0), "all that device 0 did");
}

#[test]
fn a_part_of_the_tape_starts_with_the_state_at_its_moment_and_says_what_blocks_hold() {
    let folder = tempfile::tempdir().expect("a folder for the tape");
    let part = folder.path().join("part.vtape");
    passes("since", &[part.to_str().expect("a path in UTF-8")], "device:sim");

    let part = Tape::read(&part);
    assert_eq!((part.allocations, part.frees, part.lost), (2, 0, 0), "what came after the moment");
    assert_eq!(part.based_on, 1, "allocated before it");
    let said = [Category::Parameter, Category::Parameter, Category::Gradient];
    assert_eq!(part.categories, said, "of blocks, in this order");
}

#[test]
fn a_full_disk_ends_the_tape_and_nothing_else_and_the_last_line_counts_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder for the tape");
    let path = folder.path().join("run.vtape");
    let program = build("full_disk", folder.path(), &[]);
    let output = Command::new(program)
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .env("VRAMTAPE_CONF", format!("device:sim,tape:\"{}\"", path.display()))
        .output()
        .expect("the program can be started");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{text}", output.status);
    let tape = Tape::read(&path);
    assert!(tape.allocations > 10_000, "{} allocations", tape.allocations);
    let [at_once, last] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let begin = format!("vramtape: {} ", path.display());
    assert!(at_once.starts_with(&format!("{begin}ends here: File too large. ")), "{text}");
    let count = format!(" UTC: File too large; {} records after that are not on it", tape.lost);
    assert!(last.starts_with(&format!("{begin}ended early, at ")), "{text}");
    assert!(tape.lost > 0 && last.ends_with(&count), "{text}");
}

/// The content of a tape, every record applied to the state before it.
#[derive(Default)]
struct Tape {
    allocations: u64,
    frees: u64,
    lost: u64,
    marks: Vec<String>,
    categories: Vec<Category>,
    mark_threads: HashSet<ThreadId>,
    /// Allocated blocks of the first base state.
    based_on: usize,
    states: Vec<(DeviceId, State)>,
}

impl Tape {
    fn read(path: &Path) -> Self {
        let mut tape = Self::default();
        let mut reader = Reader::open(path).expect("the tape was written");
        while let Some(item) = reader.next() {
            match item.expect("a whole tape") {
                Item::Meta(_) => {}
                Item::Base(device, base) => {
                    let blocks = base.segments.iter().flat_map(|segment| &segment.blocks);
                    let held = blocks.filter(|block| block.status == BlockStatus::Allocated);
                    if tape.states.is_empty() {
                        tape.based_on = held.count();
                    }
                    let state = State::from_base(&base).expect("a whole state");
                    *tape.state(device) = state;
                }
                Item::Event(device, record) => {
                    tape.state(device).apply(&record).expect("a record that fits the state");
                    match record.event {
                        Event::Alloc { .. } => tape.allocations += 1,
                        Event::Free { .. } => tape.frees += 1,
                        Event::Lost { count } => tape.lost += count,
                        Event::Category { category, .. } => tape.categories.push(category),
                        Event::Mark { name, .. } => {
                            tape.mark_threads.insert(record.thread);
                            tape.marks.extend(reader.tables().string(name).map(str::to_owned));
                        }
                        _ => {}
                    }
                }
            }
        }
        tape
    }

    fn state(&mut self, device: DeviceId) -> &mut State {
        let at = self.states.iter().position(|(known, _)| *known == device).unwrap_or_else(|| {
            self.states.push((device, State::new()));
            self.states.len() - 1
        });
        &mut self.states[at].1
    }

    fn end(&self, device: u16) -> &State {
        let found = self.states.iter().find(|(known, _)| *known == DeviceId(device));
        &found.expect("the device is on the tape").1
    }
}

/// How often `threads` forks. Only in a plain program: the address sanitizer of gcc before 14 does not take its own
/// locks around a fork, so that a child of a process with threads may wait for one for ever.
const FORKS: &[&str] = &["12"];

/// Builds `tests/c/NAME.c` with sanitizers and runs it; the test fails with what it printed, or if it left a ring.
fn passes(name: &str, arguments: &[&str], conf: &str) {
    passes_built(&["-fsanitize=address,undefined"], name, arguments, conf);
}

/// The same without sanitizers.
fn passes_plain(name: &str, arguments: &[&str], conf: &str) {
    passes_built(&[], name, arguments, conf);
}

fn passes_built(sanitizers: &[&str], name: &str, arguments: &[&str], conf: &str) {
    let scratch = tempfile::tempdir().expect("a folder for the program");
    ends_well(name, &build(name, scratch.path(), sanitizers), arguments, conf);
}

/// Runs a program, which has to print nothing and to leave no ring.
fn ends_well(name: &str, program: &Path, arguments: &[&str], conf: &str) {
    let child = Command::new(program)
        .args(arguments)
        .env_remove("PYTORCH_CUDA_ALLOC_CONF")
        .env_remove("PYTORCH_ALLOC_CONF")
        .env("VRAMTAPE_CONF", conf)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let pid = child.id();
    let output = child.wait_with_output().expect("the program ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{text}", output.status);
    assert!(text.is_empty(), "{name} printed:\n{text}");
    let rings = list_rings(&ring_dir(env::var_os(RING_DIR_VARIABLE))).expect("rings can be listed");
    let is_its = |ring: &PathBuf| ring.to_string_lossy().contains(&format!("-{pid}-"));
    assert!(!rings.iter().any(is_its), "{name} left a ring: {rings:?}");
}
