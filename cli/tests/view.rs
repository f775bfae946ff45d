//! `vramtape view`: the files that it writes, and what it refuses.

mod common;

use std::fs;
use std::path::Path;

use common::{command, json};
use serde_json::Value;
use trace_format::{
    Addr, DeviceId, DeviceMeta, Event, Meta, PoolId, Record, StackId, Stream, ThreadId, Writer,
};

/// Runs the command in a folder: all it prints, and its exit code.
fn view(folder: &Path, args: &[&str]) -> (String, Option<i32>) {
    let output = command(&[&["view"], args].concat()).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

fn header(page: &Path) -> Value {
    let page = fs::read_to_string(page).unwrap();
    let (_, header) = page.split_once("id=\"header\">").unwrap();
    serde_json::from_str(header.split_once("</script>").unwrap().0).unwrap()
}

fn tape(path: &Path, name: &str) {
    let devices = vec![DeviceMeta { name: name.to_owned(), ..DeviceMeta::default() }];
    let meta = Meta { devices, hostname: Some(name.to_owned()), ..Meta::default() };
    let mut writer = Writer::create(path, &meta).unwrap();
    let name = writer.string(name).unwrap();
    let (addr, stream, pool) = (Addr(2 << 20), Stream(0), PoolId::DEFAULT);
    let size_bytes = 2 << 20;
    let events = [
        Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: false },
        Event::Alloc { addr, requested_bytes: 100, size_bytes: 512, stream, pool },
        Event::Mark { kind: trace_format::MarkKind::Step, name },
    ];
    for event in events {
        let record = Record { time_ns: 1, thread: ThreadId(1), stack: StackId::NONE, event };
        writer.push(DeviceId(0), &record).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn the_page_has_the_name_of_the_run_and_replaces_a_file_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("run.vtape"), "GPU");
    let (text, code) = view(folder.path(), &["run.vtape"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("run.html: 3 records in "), "{text}");
    let (text, code) = view(folder.path(), &["run.vtape"]);
    assert!(code == Some(2) && text.contains("run.html exists: use -f"), "{text}");
    let (text, code) = view(folder.path(), &["run.vtape", "-o", "run.vtape"]);
    assert!(code == Some(2) && text.contains("run.vtape exists"), "{text}");
    let (text, code) = view(folder.path(), &["run.vtape", "-f", "--json"]);
    assert_eq!(code, Some(0), "{text}");
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&written["output"], &written["records"]), (&"run.html".into(), &3.into()));
    let size = fs::metadata(folder.path().join("run.html")).unwrap().len();
    assert_eq!(written["page_bytes"], size);
}

#[test]
fn the_page_can_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("run.vtape"), "GPU");
    let (page, code) = view(folder.path(), &["run.vtape", "-o", "-"]);
    assert!(code == Some(0) && page.trim_end().ends_with("</html>"), "{page}");
    let (text, code) = view(folder.path(), &["run.vtape", "-o", "-", "--json"]);
    assert!(code == Some(2) && text.contains("cannot both go"), "{text}");
    assert!(!folder.path().join("run.html").exists());
}

#[test]
fn a_page_that_cannot_be_written_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("run.vtape"), "GPU");
    let (text, code) = view(folder.path(), &["run.vtape", "-o", "missing/run.html"]);
    assert!(code == Some(2) && text.contains("cannot write missing/run.html"), "{text}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn names_of_a_tape_are_text_and_never_markup() {
    let folder = tempfile::tempdir().unwrap();
    let name = "</script><script>alert(1)</script><!--";
    let run = folder.path().join("<!--</title><script>alert(2)<!--.vtape".replace('/', "\u{2215}"));
    tape(&run, name);
    let page = folder.path().join("page.html");
    let args = [run.to_str().unwrap(), "-o", page.to_str().unwrap()];
    let (text, code) = view(folder.path(), &args);
    assert_eq!(code, Some(0), "{text}");
    let text = fs::read_to_string(&page).unwrap();
    assert!(!text.contains("<script>alert"), "{text}");
    assert_eq!(header(&page)["devices"][0]["name"], name);
}

#[test]
fn the_numbers_are_those_of_info_of_waste_and_of_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    let mut count = 0;
    for entry in fs::read_dir(traces).unwrap() {
        let trace = entry.unwrap().path();
        let meta = trace.with_extension("").with_extension("json");
        if trace.extension().is_none_or(|end| end != "zst") {
            continue;
        }
        let [run, meta] = [&trace, &meta].map(|path| path.to_str().unwrap());
        let args = [run, "--meta", meta, "-f", "-o", page.to_str().unwrap()];
        let (text, code) = view(folder.path(), &args);
        assert_eq!(code, Some(0), "{text}");
        let (shown, info) = (header(&page), json(&["info", run]));
        let (shown, info) = (&shown["devices"][0], &info["devices"][0]);
        assert_eq!(shown["records"], info["records"], "{run}");
        assert_eq!(shown["peaks"]["allocated_bytes"], info["peak_allocated_bytes"], "{run}");
        assert_eq!(shown["peaks"]["reserved_bytes"], info["peak_reserved_bytes"], "{run}");
        let known: Value = serde_json::from_slice(&fs::read(meta).unwrap()).unwrap();
        assert_eq!(shown["capacity_bytes"], known["device_total_bytes"], "{run}");
        for quantity in ["allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"] {
            let recorded = &known["memory_stats"][format!("{quantity}.all.peak")];
            assert_eq!(&shown["peaks"][quantity], recorded, "{quantity} of {run}");
        }
        let html = fs::read_to_string(&page).unwrap();
        let plot = tests::page::json(&html, "d0/plots/waste");
        let waste = json(&["waste", run, "--meta", meta]);
        let parts = plot["parts"].as_array().unwrap();
        let at = |stretch: usize| -> u64 {
            parts.iter().map(|part| part["bytes"][stretch].as_u64().unwrap()).sum()
        };
        let stretches = plot["edges"].as_array().unwrap().len() - 1;
        let most = (0..stretches).map(at).max().unwrap();
        assert_eq!(most, waste["peak"]["reserved_bytes"], "{run}");
        assert_eq!(plot["differs"], Value::Null, "{run}");
        count += 1;
    }
    assert!(count >= 5, "{count} recorded runs");
}

#[test]
fn pictures_are_written_without_the_page_and_replace_files_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("run.vtape"), "GPU");
    let both = ["run.vtape", "--png", "run.png", "--svg", "run.svg"];
    let (text, code) = view(folder.path(), &both);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("run.png: 1280 x 720 pixels in ") && !text.contains("html"), "{text}");
    assert!(!folder.path().join("run.html").exists());
    let png = fs::read(folder.path().join("run.png")).unwrap();
    let svg = fs::read_to_string(folder.path().join("run.svg")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
    let (text, code) = view(folder.path(), &both);
    assert!(code == Some(2) && text.contains("run.png exists: use -f"), "{text}");
    let more = ["-f", "--json", "-o", "page.html", "--theme", "dark", "--size", "800x600"];
    let (text, code) = view(folder.path(), &[&both[..], &more].concat());
    assert_eq!(code, Some(0), "{text}");
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["output"], "page.html");
    let dark = fs::read(folder.path().join("run.png")).unwrap();
    assert_ne!(png, dark);
    // Width and height of the first chunk, big-endian.
    assert_eq!((&dark[16..20], &dark[20..24]), (&[0, 0, 3, 32][..], &[0, 0, 2, 88][..]));
    for (place, format) in ["png", "svg"].into_iter().enumerate() {
        let (shown, file) = (&written["pictures"][place], format!("run.{format}"));
        let size = fs::metadata(folder.path().join(&file)).unwrap().len();
        assert_eq!((&shown["output"], &shown["format"]), (&file.into(), &format.into()));
        assert_eq!((&shown["bytes"], &shown["width"]), (&size.into(), &800.into()));
        assert_eq!((&shown["run"], &shown["device"]), (&"run.vtape".into(), &0.into()));
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["page.html", "run.png", "run.svg", "run.vtape"], "no other file is left");
}

#[test]
fn a_picture_can_go_to_standard_output() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("run.vtape"), "GPU");
    let args = ["view", "run.vtape", "--png", "-"];
    let output = command(&args).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"\x89PNG"));
    assert!(output.stdout.ends_with(b"IEND\xaeB`\x82"), "nothing else is printed");
}

#[test]
fn flags_of_pictures_that_do_not_fit_are_errors_with_a_next_step() {
    let folder = tempfile::tempdir().unwrap();
    tape(&folder.path().join("run.vtape"), "GPU");
    let cases: [(&[&str], &str); 9] = [
        (&["-o", "x.png"], "-o writes the page: use --png x.png"),
        (&["-o", "x.SVG"], "-o writes the page: use --svg x.SVG"),
        (&["--theme", "dark"], "required arguments were not provided"),
        (
            &["--png", "x.png", "--size", "10x10"],
            "use WIDTHxHEIGHT in pixels from 480x320 to 8192x8192",
        ),
        (&["--png", "x.png", "--size", "big"], "such as 1280x720"),
        (&["--png", "x.png", "--theme", "red"], "[possible values: light, dark]"),
        (&["--png", "x.png", "--svg", "x.png"], "--svg x.png: this file has other content"),
        (&["--png", "-", "--json"], "--png -: standard output has other content"),
        (&["--svg", "x.svg", "--group-by", "colour"], "no grouping colour: use one of code, size,"),
    ];
    for (args, words) in cases {
        let (text, code) = view(folder.path(), &[&["run.vtape"], args].concat());
        assert!(code == Some(2) && text.contains(words), "{args:?}: {text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
    let (text, code) = view(folder.path(), &["run.vtape", "--svg", "x.svg", "--group-by", "pool"]);
    assert_eq!(code, Some(0), "{text}");
    let svg = fs::read_to_string(folder.path().join("x.svg")).unwrap();
    assert!(svg.contains("Allocated memory by pool"), "{svg}");
}
