//! The command as a person meets it: its help, its results and its errors, word for word.
//!
//! The expected texts are in `tests/golden`; `UPDATE_GOLDEN=1 cargo test -p cli` writes them anew.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use events::{BlockSlot, Recorder};
use recorder::{RingOptions, RingRecorder, SystemClock};
use tests::snapshot_contract::{Demand, check_file};
use trace_format::{
    Addr, DeviceId, Event, MarkKind, Meta, PageNumber, PoolId, Record, StackId, Stream, StringId,
    ThreadId, Writer,
};

use common::{golden, vramtape};

/// A folder with the tapes that the tests read.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A tape of two blocks, the second at `offset` of its segment.
    fn tape(&self, name: &str, base: u64, offset: u64) -> PathBuf {
        self.tape_of(name, &events(base, offset))
    }

    fn tape_of(&self, name: &str, events: &[Event]) -> PathBuf {
        let path = self.path(name);
        let meta = Meta { producer: "a test".to_owned(), ..Meta::default() };
        let mut writer = Writer::create(&path, &meta).unwrap();
        for event in events.iter().copied() {
            let record = Record { time_ns: 0, thread: ThreadId(1), stack: StackId::NONE, event };
            writer.push(DeviceId(0), &record).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    /// Output without this folder's name.
    fn scrub(&self, text: &str) -> String {
        text.replace(self.0.path().to_str().unwrap(), "FOLDER")
    }
}

fn events(base: u64, offset: u64) -> [Event; 4] {
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    let alloc = |addr, requested_bytes| Event::Alloc {
        addr: Addr(addr),
        requested_bytes,
        size_bytes: 512,
        stream,
        pool,
    };
    let segment = Event::SegmentAlloc {
        addr: Addr(base),
        size_bytes: 2 << 20,
        stream,
        pool,
        is_large: false,
    };
    let free =
        Event::Free { addr: Addr(base), requested_bytes: 100, size_bytes: 512, pending: false };
    [segment, alloc(base, 100), alloc(base + offset, 512), free]
}

#[test]
fn help_matches_its_golden_files() {
    golden("help", &vramtape(&["--help"]).0);
    let root = cli::command();
    for verb in root.get_subcommands() {
        let name = verb.get_name();
        let (text, code) = vramtape(&[name, "--help"]);
        assert_eq!(code, Some(0));
        golden(&format!("help-{name}"), &text);
    }
}

#[test]
fn every_verb_takes_json() {
    let command = cli::command();
    // The output of `mcp` is messages of a protocol.
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "mcp") {
        let flags: Vec<_> = verb.get_arguments().filter_map(clap::Arg::get_long).collect();
        assert!(flags.contains(&"json"), "{} has only {flags:?}", verb.get_name());
    }
}

#[test]
fn a_command_that_cannot_be_used_is_2_and_says_what_to_try() {
    let folder = Folder::new();
    let missing = folder.path("missing.vtape");
    let text_file = folder.path("notes.txt");
    fs::write(&text_file, "these are notes, not a tape\n").unwrap();
    let cases: [(&str, &[&str]); 4] = [
        ("error-no-verb", &[]),
        ("error-unknown-verb", &["inof"]),
        ("error-missing-file", &["info", missing.to_str().unwrap()]),
        ("error-not-a-run", &["info", text_file.to_str().unwrap()]),
    ];
    for (name, args) in cases {
        let (text, code) = vramtape(args);
        assert_eq!(code, Some(2), "{text}");
        golden(name, &folder.scrub(&text));
    }
}

#[test]
fn info_says_how_many_pages_the_last_step_mapped() {
    const PAGE: u64 = 2 << 20;
    let map = |slot, page| Event::PageMap { addr: Addr(slot * PAGE), page: PageNumber(page) };
    let unmap = |slot, page| Event::PageUnmap { addr: Addr(slot * PAGE), page: PageNumber(page) };
    let step = Event::Mark { kind: MarkKind::Step, name: StringId(0) };
    let folder = Folder::new();
    let mut events = vec![map(4, 0), map(5, 1), map(9, 1), step, unmap(9, 1), map(6, 2), step];
    for (steps, last) in [(2, Some(1)), (3, Some(0))] {
        let tape = folder.tape_of(&format!("{steps}.vtape"), &events);
        let (text, code) = vramtape(&["info", tape.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{text}");
        golden(&format!("info-mappings-{steps}"), &text);
        let (text, _) = vramtape(&["info", "--json", tape.to_str().unwrap()]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "peak_mapped_bytes": 3 * PAGE,
            "maps": 4,
            "last_step_maps": last,
        });
        assert_eq!(json["devices"][0]["mappings"], expected);
        events.extend([step, unmap(6, 2)]);
    }
}

#[test]
fn info_summarizes_a_tape() {
    let folder = Folder::new();
    let tape = folder.tape("run.vtape", 1 << 30, 512);
    let (text, code) = vramtape(&["info", tape.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    golden("info", &text);
    let (text, _) = vramtape(&["info", "--json", tape.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["devices"][0]["peak_allocated_bytes"], 1024);
    assert_eq!(json["devices"][0]["events"]["alloc"], 2);
}

#[test]
fn verify_against_is_0_for_the_same_places_and_1_for_others() {
    let folder = Folder::new();
    let one = folder.tape("one.vtape", 1 << 30, 512);
    let moved = folder.tape("moved.vtape", 1 << 40, 512);
    let other = folder.tape("other.vtape", 1 << 30, 1024);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let (text, code) = vramtape(&["verify", &path(&moved), "--against", &path(&one)]);
    assert_eq!(code, Some(0), "{text}");
    golden("verify-against-same", &text);
    let (text, code) = vramtape(&["verify", &path(&other), "--against", &path(&one)]);
    assert_eq!(code, Some(1), "{text}");
    golden("verify-against-other", &text);
}

#[test]
fn clean_removes_only_rings_of_dead_processes() {
    let folder = Folder::new();
    let here = folder.path(".");
    let (text, code) = vramtape(&["clean", "--json", "--folder", here.to_str().unwrap()]);
    assert_eq!((text.as_str(), code), ("{\n  \"removed\": []\n}\n", Some(0)));
}

#[test]
fn clean_reports_removals_even_after_a_failure() {
    let folder = Folder::new();
    let here = folder.path(".").to_str().unwrap().to_owned();
    fs::create_dir_all(folder.path("bridge/no-file.so")).unwrap();
    fs::write(folder.path("bridge/first.lock"), "").unwrap();
    let mut command = common::command(&["clean", "--folder", &here]);
    let output = command.env("VRAMTAPE_CACHE", &here).output().unwrap();
    let (said, error) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    assert!(said.unwrap().ends_with("bridge/first.lock\n"));
    assert!(error.unwrap().contains("cannot remove the libraries compiled from"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn clean_of_rings_keeps_the_compiled_bridge() {
    let folder = Folder::new();
    let here = folder.path(".").to_str().unwrap().to_owned();
    let bridge = folder.path("bridge/torch.so");
    fs::create_dir(bridge.parent().unwrap()).unwrap();
    fs::write(&bridge, "").unwrap();
    let clean = |flags: &[&str]| {
        let mut command = common::command(&[&["clean", "--folder", &here], flags].concat());
        let output = command.env("VRAMTAPE_CACHE", &here).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(clean(&["--rings"]), "no ring of a dead process\n");
    assert!(bridge.exists());
    assert!(clean(&[]).ends_with("bridge/torch.so\n") && !bridge.exists());
    assert_eq!(clean(&[]), "no ring of a dead process, and no compiled bridge\n");
}

#[test]
fn recover_lists_rings_and_makes_tapes_of_them_that_replay() {
    let folder = Folder::new();
    let here = folder.path(".").to_str().unwrap().to_owned();
    let list = ["recover", "--json", "--folder", &here];
    assert_eq!(vramtape(&list), ("{\n  \"rings\": []\n}\n".to_owned(), Some(0)));

    let options =
        RingOptions { dir: here.clone().into(), device: DeviceId(0), slots: 64, has_pages: false };
    let mut recorder = RingRecorder::new(&options, SystemClock::new()).unwrap();
    let [segment, first, second, free] = events(1 << 30, 512);
    recorder.record(StackId::NONE, segment);
    for (place, event) in [(0, first), (1, second), (0, free)] {
        recorder.record_block(BlockSlot(place), StackId::NONE, event, &());
    }
    let pid = std::process::id().to_string();
    let tape = folder.path("recovered.vtape").to_str().unwrap().to_owned();
    let recover = ["recover", &pid, "-o", &tape, "--folder", &here];
    let (text, code) = vramtape(&recover);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("everything since the process began"), "{text}");
    let (text, code) = vramtape(&recover);
    assert!(code == Some(2) && text.contains("use -f"), "{text}");
    let (text, code) = vramtape(&["replay", &tape]);
    assert_eq!(code, Some(0), "{text}");
    let (text, _) = vramtape(&list);
    assert!(text.contains(&pid) && text.contains("\"is_live\": true"), "{text}");
    let (text, code) = vramtape(&["recover", "4711.ring", "-o", &tape, "-f", "--folder", &here]);
    assert!(code == Some(2) && text.contains("lists both"), "{text}");
    let (text, code) = vramtape(&["recover", "1", "-o", &tape, "-f", "--folder", &here]);
    assert!(code == Some(2) && text.contains("process 1 has no ring"), "{text}");
}

/// A snapshot kept in the repository, and what is known about its run.
fn trace(name: &str) -> (String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    let file = |end: &str| folder.join(format!("{name}{end}")).to_str().unwrap().to_owned();
    (file(".pickle.zst"), file(".json"))
}

#[test]
fn a_snapshot_and_its_tape_replay_the_same() {
    let folder = Folder::new();
    let (snapshot, meta) = trace("gpt2_train-default");
    let tape = folder.path("gpt2.vtape").to_str().unwrap().to_owned();
    let import = ["import", snapshot.as_str(), "--meta", &meta, "-o", &tape];
    let (text, code) = vramtape(&import);
    assert_eq!(code, Some(0), "{text}");
    golden("import", &folder.scrub(&text));
    let (text, code) = vramtape(&import);
    assert_eq!(code, Some(2), "an existing file is kept: {text}");
    golden("error-exists", &folder.scrub(&text));
    assert_eq!(vramtape(&[&import[..], &["-f"]].concat()).1, Some(0));

    let replay = |args: &[&str]| {
        let (text, code) = vramtape(&[&["replay", "--json"], args].concat());
        assert_eq!(code, Some(0), "{text}");
        let mut report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(report["elapsed_s"].take().is_f64());
        report
    };
    let from_snapshot = replay(&[&snapshot, "--meta", &meta]);
    assert_eq!(from_snapshot, replay(&[&tape]));
    let recorded: serde_json::Value = serde_json::from_slice(&fs::read(&meta).unwrap()).unwrap();
    assert_eq!(from_snapshot["peak_reserved_bytes"], recorded["peak_reserved_bytes"]);
    assert_eq!(from_snapshot["peak_allocated_bytes"], recorded["peak_allocated_bytes"]);
    assert_eq!(from_snapshot["strategy"], "native");
    let keys = ["strategy", "config", "peak_live_bytes", "efficiency", "device_allocs"];
    let more = ["device_frees", "num_alloc_retries", "num_ooms", "events", "elapsed_s"];
    for key in keys.iter().chain(&more) {
        assert!(from_snapshot.get(key).is_some(), "no {key}");
    }
    let expandable = replay(&[&tape, "--strategy", "expandable"]);
    assert_eq!(expandable["strategy"], "expandable");
    assert_ne!(expandable["peak_reserved_bytes"], from_snapshot["peak_reserved_bytes"]);
    let small = replay(&[&tape, "--capacity", "8GiB"]);
    assert!(small["num_ooms"].as_i64() > Some(0), "{small}");
}

#[test]
fn an_exported_replay_is_a_good_snapshot_of_the_same_run() {
    let folder = Folder::new();
    for name in ["gpt2_train-default", "cudagraph_pools-expandable", "resnet50_batchsweep-oom"] {
        let (snapshot, meta) = trace(name);
        let out = folder.path("out.pickle").to_str().unwrap().to_owned();
        let args = ["replay", &snapshot, "--meta", &meta, "--snapshot", &out, "-f"];
        assert_eq!(vramtape(&args).1, Some(0));
        let report = check_file(Path::new(&out), Demand::Complete).unwrap();
        assert!(report.is_good(), "{name}:\n{}", report.faults);
        let (text, code) = vramtape(&["verify", &out, "--against", &snapshot]);
        assert_eq!(code, Some(0), "{name}: {text}");
        let (text, code) = vramtape(&["verify", &out, "--meta", &meta]);
        assert_eq!(code, Some(0), "{name}: {text}");
    }
}

#[test]
fn a_replay_under_stitch_is_exported_divided_and_explained() {
    let folder = Folder::new();
    let (run, _) = trace("gpt2_train-default");
    let out = folder.path("out.pickle").to_str().unwrap().to_owned();
    let (text, code) = vramtape(&["replay", &run, "--strategy", "stitch", "--snapshot", &out]);
    assert_eq!(code, Some(0), "{text}");
    let report = check_file(Path::new(&out), Demand::Complete).unwrap();
    assert!(report.is_good(), "{}", report.faults);
    for verb in ["waste", "explain"] {
        let (json, code) = vramtape(&[verb, &run, "--strategy", "stitch", "--json"]);
        assert_eq!(code, Some(0), "{json}");
        let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(answer["strategy"], "stitch", "{verb}");
    }
}

#[test]
fn compare_prints_a_row_a_setting() {
    let (snapshot, meta) = trace("gpt2_train-default");
    let args = ["compare", &snapshot, "--meta", &meta, "--config", "max_split_size_mb:64"];
    let (text, code) = vramtape(&args);
    assert_eq!(code, Some(0), "{text}");
    golden("compare", &text);
    let (json, _) = vramtape(&[&args[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), 12);
}

#[test]
fn compare_draws_a_page_with_the_tables_values() {
    let folder = Folder::new();
    let page = folder.path("page.html").to_str().unwrap().to_owned();
    let (snapshot, meta) = trace("resnet50_batchsweep-oom");
    let args = ["compare", &snapshot, "--meta", &meta, "--json", "--html", &page];
    let (json, code) = vramtape(&args);
    assert_eq!(code, Some(0), "{json}");
    let table: serde_json::Value = serde_json::from_str(&json).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    let data = tests::page::json(&html, "d0/plots/strategies");
    let most = |list: &serde_json::Value| {
        list.as_array().unwrap().iter().map(|bytes| bytes.as_u64().unwrap()).max().unwrap()
    };
    let rows = data["rows"].as_array().unwrap();
    assert_eq!(rows.len(), table["rows"].as_array().unwrap().len());
    for (drawn, row) in rows.iter().zip(table["rows"].as_array().unwrap()) {
        assert_eq!(
            drawn["peak_reserved_bytes"], row["peak_reserved_bytes"],
            "one replay, both ways"
        );
        assert_eq!(most(&drawn["reserved_bytes"]), row["peak_reserved_bytes"], "no peak is hidden");
    }
    assert_eq!(most(&data["runs"][0]["live_bytes"]), table["rows"][0]["peak_live_bytes"]);

    let (text, code) = vramtape(&args);
    assert_eq!(code, Some(2));
    assert!(text.contains("page.html exists: use -f"), "{text}");
    assert_eq!(vramtape(&[&args[..], &["-f"]].concat()).1, Some(0));
}

#[test]
fn a_log_of_requests_is_a_run_for_every_verb_that_takes_one() {
    let folder = Folder::new();
    let log = folder.path("rmm.csv");
    let text = "Thread,Time,Action,Pointer,Size,Stream\n\
        7,10:00:00.000001,allocate,0x7f0000000000,3145728,0\n\
        7,10:00:00.000002,free,0x7f0000000000,3145728,0\n";
    fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();
    let tape = folder.path("rmm.vtape").to_str().unwrap().to_owned();
    for (name, args) in [
        ("log-import", &["import", log, "-o", &tape][..]),
        ("log-info", &["info", log]),
        ("log-compare", &["compare", log, "--config", "max_split_size_mb:64"]),
        ("error-log-verify", &["verify", log]),
    ] {
        golden(name, &folder.scrub(&vramtape(args).0));
    }
    for verb in ["replay", "compare", "info"] {
        for run in [log, &tape] {
            let (text, code) = vramtape(&[verb, run]);
            assert!(code == Some(0) && text.contains("holds requests and no placements"), "{text}");
            let (text, _) = vramtape(&[verb, "--json", run]);
            assert!(text.contains("holds requests and no placements"), "{text}");
        }
    }
}

#[test]
fn models_replay_and_refuse_unsupported_operations() {
    let (snapshot, meta) = trace("gpt2_train-default");
    let run = |args: &[&str]| {
        vramtape(&[&[args[0], snapshot.as_str(), "--meta", &meta], &args[1..]].concat())
    };
    let (json, code) = run(&["replay", "--strategy", "bfc:streams:separate", "--json"]);
    assert_eq!(code, Some(0), "{json}");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&report["strategy"], &report["config"]),
        (&"bfc".into(), &"streams:separate".into())
    );
    assert!(report["driver_time_ns"].as_u64() > Some(0), "{report}");
    let (table, code) = run(&["compare", "--strategy", "rmm-arena:arena_size:20GiB"]);
    assert_eq!(code, Some(0), "{table}");
    let row = table.lines().find(|line| line.contains("arena_size:20GiB")).expect("a row");
    assert!(row.starts_with("rmm-arena") && row.contains("20.00 GiB"), "{row}");

    for (args, part) in [
        (&["replay", "--strategy", "bfc:grow:True"][..], "there is no `grow`; known: allow_growth"),
        (&["replay", "--strategy", "bfc", "--config", ""], "--strategy bfc:KEY:VALUE"),
        (&["replay", "--strategy", "native:backend:native", "--config", ""], "given twice"),
        (
            &["replay", "--strategy", "bfc", "--snapshot", "x.pickle"],
            "choose native, expandable or stitch",
        ),
        (&["waste", "--strategy", "bfc"], "choose native, expandable or stitch"),
        (&["compare", "--strategy", "rmm-arena:arena_size:90GiB"], "no room for arena_size"),
    ] {
        let (text, code) = run(args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn verify_is_0_where_our_allocator_does_what_pytorch_did_and_1_where_not() {
    let folder = Folder::new();
    let (snapshot, meta) = trace("gpt2_train-default");
    let (text, code) = vramtape(&["verify", &snapshot, "--meta", &meta]);
    assert_eq!(code, Some(0), "{text}");
    golden("verify", &text);
    let wrong = folder.path("wrong.json");
    let other = r#"{"torch": "2.15.0", "memory_stats": {"num_ooms": 7}}"#;
    fs::write(&wrong, other).unwrap();
    let (text, code) = vramtape(&["verify", &snapshot, "--meta", wrong.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("num_ooms: recorded 7, replayed 0"), "{text}");
}

#[test]
fn bad_flags_are_2_and_say_what_to_write() {
    let (snapshot, _) = trace("gpt2_train-default");
    let cases: [(&str, &[&str]); 4] = [
        ("error-capacity", &["--capacity", "80"]),
        ("error-settings", &["--config", "max_split_size_mb:3"]),
        ("error-strategy", &["--strategy", "natve"]),
        ("error-device", &["--device", "3"]),
    ];
    for (name, args) in cases {
        let (text, code) = vramtape(&[&["replay", snapshot.as_str()], args].concat());
        assert_eq!(code, Some(2), "{text}");
        golden(name, &text);
    }
}
