//! Runs that ended before the program was done, and one voice for advice: no verb promises what it cannot know, and all
//! verbs name the same settings for the same run.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use trace_format::{
    Addr, DeviceId, EndKind, Event, Meta, PoolId, ProgramEnd, Record, StackId, Stream, ThreadId,
    Writer,
};

use common::{good, json, vramtape};

const MIB: u64 = 1 << 20;
const NEXT: &str = "later requests of the program are unknown";

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name);
    path.to_str().unwrap().to_owned()
}

/// The snapshot of a run that died out of memory, and what is known about it.
fn dead() -> [String; 3] {
    let file = |end: &str| data(&format!("traces/resnet50_batchsweep-oom{end}"));
    [file(".pickle.zst"), "--meta".to_owned(), file(".json")]
}

fn with<'a>(verb: &'a str, run: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    [verb].into_iter().chain(run.iter().map(String::as_str)).chain(more.iter().copied()).collect()
}

/// Where the nth block is, of at most 100 MiB each.
fn addr(at: u64) -> Addr {
    Addr((1 << 32) + at * 100 * MIB)
}

/// A segment with room for all of them.
fn segment() -> Event {
    let (stream, pool, is_large) = (Stream(0), PoolId::DEFAULT, true);
    Event::SegmentAlloc { addr: addr(0), size_bytes: 6000 * MIB, stream, pool, is_large }
}

fn alloc(at: u64, mib: u64) -> Event {
    let (stream, pool, requested_bytes) = (Stream(0), PoolId::DEFAULT, mib * MIB);
    Event::Alloc { addr: addr(at), requested_bytes, size_bytes: requested_bytes, stream, pool }
}

fn free(at: u64, mib: u64) -> Event {
    let size_bytes = mib * MIB;
    Event::Free { addr: addr(at), requested_bytes: size_bytes, size_bytes, pending: false }
}

fn refused(mib: u64) -> Event {
    let (stream, pool, requested_bytes) = (Stream(0), PoolId::DEFAULT, mib * MIB);
    let size_bytes = requested_bytes;
    Event::Oom { requested_bytes, size_bytes, device_free_bytes: 0, stream, pool }
}

/// A tape of these events, which ended so; the file is left unfinished where `is_torn`.
fn tape(
    folder: &Path,
    name: &str,
    end: Option<EndKind>,
    events: &[Event],
    is_torn: bool,
) -> String {
    let path = folder.join(name);
    let detail = if end == Some(EndKind::Signal) { "SIGTERM" } else { "" }.to_owned();
    let end = end.map(|kind| ProgramEnd { kind, detail, ..ProgramEnd::default() });
    let meta = Meta { producer: "a test".to_owned(), end, ..Meta::default() };
    let mut writer = Writer::create(&path, &meta).unwrap();
    for event in std::iter::once(segment()).chain(events.iter().copied()) {
        let record = Record { time_ns: 0, thread: ThreadId(1), stack: StackId::NONE, event };
        writer.push(DeviceId(0), &record).unwrap();
    }
    writer.finish().unwrap();
    if is_torn {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    }
    path.to_str().unwrap().to_owned()
}

#[test]
fn no_verb_takes_a_run_that_died_for_a_whole_one() {
    let run = dead();
    for verb in ["replay", "waste", "compare", "fit", "tune"] {
        let more: &[&str] = if verb == "tune" { &["--lines", "8"] } else { &[] };
        let args = with(verb, &run, more);
        let text = good(&args);
        assert!(text.contains(NEXT) && text.contains("at least"), "{verb}: {text}");
        assert_eq!(text.matches(NEXT).count(), 1, "{verb}: {text}");
        let found = json(&args);
        assert_eq!(found["lower_bound"], true, "{verb}: {found}");
        let ending = if verb == "tune" { &found["endings"][0]["ending"] } else { &found["ending"] };
        assert_eq!(ending["kind"], "out_of_memory", "{verb}: {found}");
        assert_eq!(ending["refusal"]["requested_bytes"], 98 * MIB, "{verb}: {found}");
    }
    let info = good(&["info", &run[0]]);
    assert!(info.contains("ended        out of memory; 98.00 MiB refused"), "{info}");
    assert_eq!(json(&["info", &run[0]])["ending"]["kind"], "out_of_memory");
}

#[test]
fn fit_of_a_run_that_died_is_unknown_on_a_device_with_room_and_no_on_one_without() {
    let run = dead();
    let (text, code) = vramtape(&with("fit", &run, &["--gpu", "b200"]));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("b200: unknown: the run died out of memory"), "{text}");
    assert!(last.contains("needs at least 3.95 GiB"), "{text}");
    assert_eq!(code, Some(1), "{text}");
    assert!(!text.contains("fits,"), "{text}");
    let (text, code) = vramtape(&with("fit", &run, &["--capacity", "3GiB"]));
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("3.00 GiB: no, it needs at least 3.95 GiB"), "{text}");
    assert_eq!(code, Some(1), "{text}");
    let (text, _) = vramtape(&with("fit", &run, &["--gpu", "b200", "--json"]));
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["verdict"]["answer"], "unknown", "{found}");
    assert!(found["verdict"]["needs_bytes"].as_u64() > Some(3 << 30), "{found}");
}

#[test]
fn fit_of_a_whole_run_ends_in_one_line_and_its_exit_code_is_that_lines() {
    let file = |end: &str| data(&format!("traces/gpt2_train-default{end}"));
    let run = [file(".pickle.zst"), "--meta".to_owned(), file(".json")];
    for (capacity, answer, begins, code) in [
        ("15GiB", "yes", "15.00 GiB: yes as recorded, ", 0),
        ("14GiB", "with_settings", "14.00 GiB: not as recorded; with ", 0),
        ("12GiB", "no", "12.00 GiB: no, it needs ", 1),
    ] {
        let args = with("fit", &run, &["--checks", "2", "--capacity", capacity]);
        let (text, found) = vramtape(&args);
        let last = text.lines().last().unwrap();
        assert!(last.starts_with(begins), "{text}");
        assert_eq!(found, Some(code), "{text}");
        let (text, _) = vramtape(&[&args[..], &["--json"]].concat());
        let found: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&found["verdict"]["answer"], &found["lower_bound"]),
            (&answer.into(), &false.into())
        );
        assert_eq!(found["verdict"]["text"], last);
    }
}

#[test]
fn one_dead_rank_makes_the_answer_for_the_job_unknown() {
    let (whole, dead) = (data("tapes/one-shot-side-stream.vtape"), dead());
    let (text, code) =
        vramtape(&with("fit", &[dead[0].clone(), whole.clone()], &["--gpu", "b200"]));
    let last = text.lines().last().unwrap();
    assert!(last.contains("unknown: of resnet50_batchsweep-oom"), "{text}");
    assert_eq!(code, Some(1), "{text}");
    for verb in ["compare", "waste"] {
        let text = good(&[verb, &dead[0], &whole]);
        assert!(text.contains(NEXT), "{verb}: {text}");
        assert_eq!(json(&[verb, &dead[0], &whole])["lower_bound"], true);
    }
    let (text, code) = vramtape(&["fit", &whole, &whole, "--gpu", "b200"]);
    assert!(code == Some(0) && text.lines().last().unwrap().contains("yes as recorded"), "{text}");
}

/// Name, end, events, whether the file is torn, what `info` prints, and the reason of the lower bound.
type Case<'c> = (&'c str, Option<EndKind>, &'c [Event], bool, &'c str, &'c str);

#[test]
fn every_way_a_run_ended_has_its_own_reason() {
    let folder = tempfile::tempdir().unwrap();
    let plain = [alloc(1, 100), free(1, 100), alloc(2, 50)];
    let halved = [alloc(1, 100), refused(200), alloc(2, 100), alloc(3, 100), free(3, 100)];
    let cases: [Case<'_>; 6] = [
        ("exit", Some(EndKind::Exit), &plain, false, "complete", ""),
        ("old", None, &plain, false, "not known", ""),
        (
            "signal",
            Some(EndKind::Signal),
            &plain,
            false,
            "signal: SIGTERM",
            "a signal ended the run (SIGTERM)",
        ),
        ("killed", None, &plain, true, "killed", "the run was killed"),
        (
            "failed",
            Some(EndKind::TapeFailed),
            &plain,
            false,
            "the tape could not be written",
            "the tape ended before the run",
        ),
        (
            "handled",
            Some(EndKind::Exit),
            &halved,
            false,
            "complete; 1 refused request before",
            "went on after 1 refused request",
        ),
    ];
    for (name, end, events, is_torn, ended, reason) in cases {
        let run = tape(folder.path(), &format!("{name}.vtape"), end, events, is_torn);
        let info = good(&["info", &run]);
        assert!(info.contains(&format!("ended        {ended}")), "{name}: {info}");
        let (text, code) = vramtape(&["fit", &run, "--gpu", "b200"]);
        // A warning about a torn file comes after it, on the other stream.
        let last = text.lines().find(|line| line.starts_with("b200:")).unwrap();
        if reason.is_empty() {
            assert!(code == Some(0) && last.contains("yes as recorded"), "{name}: {text}");
            assert!(!text.contains("at least"), "{name}: {text}");
        } else {
            assert!(code == Some(1) && last.contains("unknown: "), "{name}: {text}");
            assert!(last.contains(reason) && text.contains(NEXT), "{name}: {text}");
        }
    }
}

#[test]
fn an_edited_tape_of_a_killed_run_is_a_lower_bound_too() {
    let folder = tempfile::tempdir().unwrap();
    let run = tape(folder.path(), "killed.vtape", None, &[alloc(1, 100), alloc(2, 50)], true);
    let edited = folder.path().join("edited.vtape").to_str().unwrap().to_owned();
    good(&["edit", &run, "scale:0.5", "-o", &edited]);
    let (text, code) = vramtape(&["fit", &edited, "--gpu", "b200"]);
    assert!(code == Some(1) && text.contains("b200: unknown"), "{text}");
}

/// The runs in the repository, and the larger collection where there is one, each with what is known about it.
fn runs() -> Vec<Vec<String>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/traces");
    let larger = std::env::var_os("VRAMTAPE_TRACES").map_or(beside, PathBuf::from);
    let mut runs = Vec::new();
    for folder in [PathBuf::from(data("tapes")), PathBuf::from(data("traces")), larger] {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.to_str().unwrap().to_owned();
            if let Some(stem) = name.strip_suffix(".pickle.zst") {
                runs.push(vec![name.clone(), "--meta".to_owned(), format!("{stem}.json")]);
            } else if path.extension().is_some_and(|end| end == "vtape") {
                runs.push(vec![name]);
            }
        }
    }
    runs
}

#[test]
fn waste_compare_and_tune_name_the_same_settings_and_what_they_gain() {
    let mut kinds = Vec::new();
    for run in runs() {
        let of_waste = json(&with("waste", &run, &[]));
        let advice = &of_waste["advice"];
        let text = advice["text"].as_str().unwrap();
        for (verb, more) in [("compare", &[][..]), ("tune", &["--lines", "4"])] {
            let found = json(&with(verb, &run, more));
            assert_eq!(&found["advice"], advice, "{verb} {}", run[0]);
            if verb == "tune" && advice["kind"] == "settings" {
                assert_eq!(found["best"]["settings"], advice["settings"], "{}", run[0]);
                let after = &found["best"]["runs"][0]["peak_reserved_bytes"];
                assert_eq!(*after, advice["after"]["peak_reserved_bytes"], "it was replayed");
            }
        }
        let next = of_waste["next_step"].as_str().unwrap();
        match advice["kind"].as_str().unwrap() {
            "settings" => assert!(next.starts_with(text) && text.ends_with("replayed"), "{next}"),
            "nothing_helps" => {
                assert!(next.starts_with("nothing in the allocator"), "{next}");
            }
            _ => assert!(!next.contains("segments:True") && !next.contains("_mb:"), "{next}"),
        }
        kinds.push(advice["kind"].as_str().unwrap().to_owned());
    }
    for kind in ["settings", "nothing_helps", "no_candidate_helps"] {
        assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
    }
}

#[test]
fn where_next_to_everything_is_live_no_verb_speaks_of_fragmentation() {
    let folder = tempfile::tempdir().unwrap();
    let events: Vec<_> = (1..=40).map(|at| alloc(at, 50)).collect();
    let run = tape(folder.path(), "live.vtape", Some(EndKind::Exit), &events, false);
    for verb in ["waste", "compare", "tune"] {
        let text = good(&[verb, &run]);
        assert!(
            text.contains("nothing in the allocator helps: 1.95 GiB of 1.95 GiB are live"),
            "{verb}: {text}"
        );
        // The table of waste has a row of this name.
        let prose = text.replace("stranded by fragmentation", "");
        assert!(
            !prose.contains("fragmentation") && !prose.contains("least with"),
            "{verb}: {text}"
        );
    }
}
