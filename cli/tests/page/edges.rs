//! Runs that are short, damaged or extreme: the page of each opens without a complaint and states what it shows.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tests::browser::Browser;
use trace_format::{
    Addr, BaseState, DeviceId, DeviceMeta, Event, Frame, MarkKind, Meta, PoolId, Record, StackId,
    Stream, ThreadId, Writer,
};

use super::{number, vramtape};

pub(super) type Tape = Writer<fs::File>;

/// Waits until the page has drawn a picture or says why it has none.
const SETTLED: &str = "new Promise((done) => {
    const begun = performance.now();
    const text = (selector) => document.querySelector(selector)?.textContent.trim() ?? '';
    const look = () => {
        const is_ready = document.documentElement.dataset.ready === '1' && vramtape.state().waiting === 0;
        if (!is_ready && text('#empty') === '' && performance.now() - begun < 10000) return setTimeout(look, 20);
        done({
            is_ready, empty: text('#empty'), warnings: text('#warnings'), faults: text('#faults:not([hidden])'),
            figures: text('#figures'), detail: text('#detail'), page_px: document.documentElement.scrollWidth,
            window_px: innerWidth, devices: document.querySelectorAll('#device option').length,
            pixels: is_ready ? vramtape.state().stack_pixels : 0,
        });
    };
    setTimeout(look, 50);
})";

const LONG: &str = "<img src=x onerror=alert(1)>&amp;\"'</script><!--";

struct Edge {
    name: &'static str,
    write: fn(&Path),
    /// Whether the page shows what has to be seen.
    is_good: fn(&Value) -> bool,
}

pub(super) fn writer(path: &Path, meta: &Meta) -> Tape {
    Writer::create(path, meta).unwrap()
}

pub(super) fn record(time_ns: u64, stack: StackId, event: Event) -> Record {
    Record { time_ns, thread: ThreadId(1), stack, event }
}

pub(super) fn segment(addr: u64, size_bytes: u64, stream: u64) -> Event {
    let (addr, stream, pool) = (Addr(addr), Stream(stream), PoolId::DEFAULT);
    Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: true }
}

pub(super) fn alloc(addr: u64, size_bytes: u64, stream: u64) -> Event {
    let (addr, stream, pool) = (Addr(addr), Stream(stream), PoolId::DEFAULT);
    Event::Alloc { addr, requested_bytes: size_bytes, size_bytes, stream, pool }
}

fn oom() -> Event {
    let (requested_bytes, size_bytes, device_free_bytes) = (1 << 40, 1 << 40, 1 << 30);
    let (stream, pool) = (Stream(0), PoolId::DEFAULT);
    Event::Oom { requested_bytes, size_bytes, device_free_bytes, stream, pool }
}

/// A segment, and allocations of 1 MiB in it under these stacks.
fn filled(tape: &mut Tape, stacks: impl ExactSizeIterator<Item = StackId>) {
    let size_bytes = (stacks.len() as u64) << 20;
    tape.push(DeviceId(0), &record(1, StackId::NONE, segment(1 << 40, size_bytes, 0))).unwrap();
    for (at, stack) in (0..).zip(stacks) {
        let event = alloc((1 << 40) + (at << 20), 1 << 20, 0);
        tape.push(DeviceId(0), &record(2 + at, stack, event)).unwrap();
    }
}

const EDGES: [Edge; 11] = [
    Edge {
        name: "no device",
        write: |path| drop(writer(path, &Meta::default()).finish().unwrap()),
        is_good: |seen| seen["is_ready"] == false && seen["empty"] != "",
    },
    Edge {
        name: "no record",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            tape.base(DeviceId(0), &BaseState::default()).unwrap();
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["pixels"] == 0,
    },
    Edge {
        name: "one record",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            tape.push(DeviceId(0), &record(1, StackId::NONE, segment(1 << 40, 2 << 20, 0)))
                .unwrap();
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["figures"].as_str().unwrap().contains('2'),
    },
    Edge {
        name: "out of memory at once",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            tape.push(DeviceId(0), &record(1, StackId::NONE, oom())).unwrap();
            drop(tape.finish().unwrap());
        },
        is_good: |_| true,
    },
    Edge {
        name: "lost records",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            filled(&mut tape, (0..40).map(|_| StackId::NONE));
            let lost = record(50, StackId::NONE, Event::Lost { count: 1234 });
            tape.push(DeviceId(0), &lost).unwrap();
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["warnings"].as_str().unwrap().contains("1,234"),
    },
    Edge {
        name: "eight devices",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            for device in 0..8 {
                let id = DeviceId(device);
                tape.push(id, &record(1, StackId::NONE, segment(1 << 40, 4 << 20, 0))).unwrap();
                tape.push(id, &record(2, StackId::NONE, alloc(1 << 40, 1 << 20, 0))).unwrap();
            }
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["devices"] == 8 && seen["pixels"] != 0,
    },
    Edge {
        name: "a thousand streams",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            for stream in 0..1000 {
                let addr = (stream + 1) << 32;
                let id = DeviceId(0);
                tape.push(id, &record(1, StackId::NONE, segment(addr, 2 << 20, stream))).unwrap();
                tape.push(id, &record(2, StackId::NONE, alloc(addr, 1 << 20, stream))).unwrap();
            }
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["pixels"] != 0,
    },
    Edge {
        name: "a hundred thousand stacks",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            let name = tape.string("forward").unwrap();
            let filename = tape.string("model.py").unwrap();
            let mut stacks = Vec::new();
            for line in 1..=100_000 {
                stacks.push(tape.stack(&[Frame { name, filename, line }]).unwrap());
            }
            filled(&mut tape, stacks.into_iter());
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["pixels"] != 0,
    },
    Edge {
        name: "names that are markup and long",
        write: |path| {
            let name = LONG.repeat(250);
            let device = DeviceMeta { name: name.clone(), ..DeviceMeta::default() };
            let hostname = Some(name.clone());
            let meta = Meta { devices: vec![device], hostname, ..Meta::default() };
            let mut tape = writer(path, &meta);
            let text = tape.string(&name).unwrap();
            let stack = tape.stack(&[Frame { name: text, filename: text, line: 7 }]).unwrap();
            filled(&mut tape, (0..30).map(|_| stack));
            let mark = Event::Mark { kind: MarkKind::Phase, name: text };
            tape.push(DeviceId(0), &record(40, StackId::NONE, mark)).unwrap();
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["pixels"] != 0,
    },
    Edge {
        name: "a clock that goes back",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            for (time_ns, event) in [
                (9_000, segment(1 << 40, 4 << 20, 0)),
                (5_000, alloc(1 << 40, 1 << 20, 0)),
                (1_000, alloc((1 << 40) + (1 << 20), 1 << 20, 0)),
            ] {
                tape.push(DeviceId(0), &record(time_ns, StackId::NONE, event)).unwrap();
            }
            drop(tape.finish().unwrap());
        },
        is_good: |seen| seen["pixels"] != 0,
    },
    Edge {
        name: "a file that is cut off",
        write: |path| {
            let mut tape = writer(path, &Meta::default());
            filled(&mut tape, (0..200_000).map(|_| StackId::NONE));
            drop(tape.finish().unwrap());
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() * 2 / 3]).unwrap();
        },
        is_good: |seen| seen["pixels"] != 0,
    },
];

/// A page whose rest is missing, as after a broken download.
fn without_its_end(page: &Path) -> PathBuf {
    let html = fs::read_to_string(page).unwrap();
    let cut = page.with_extension("cut.html");
    let behind = html.rfind("id=\"d0/lives").expect("lives");
    fs::write(&cut, &html[..behind + 40]).unwrap();
    cut
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn every_edge_case_has_a_clear_page() {
    let mut browser = Browser::start();
    let folder = tempfile::tempdir().unwrap();
    let mut problems = Vec::new();
    for Edge { name, write, is_good } in EDGES {
        let run = folder.path().join("run.vtape");
        let page = folder.path().join("run.html");
        write(&run);
        let [run, out] = [&run, &page].map(|path| path.to_str().unwrap());
        vramtape(&["view", "-f", "-o", out, run]);
        fs::remove_file(run).unwrap();
        for (width, scheme) in [(380, "dark"), (1280, "light")] {
            let url = format!("file://{out}");
            browser.open(&url, width, scheme);
            let seen = browser.evaluate(SETTLED);
            if !is_good(&seen) || seen["faults"] != "" {
                problems.push(format!("{name}, {width} px: {seen}"));
            }
            if number(&seen, "page_px") > number(&seen, "window_px") {
                problems.push(format!("{name}: wider than {width} px: {seen}"));
            }
            problems.extend(browser.complaints(&url).iter().map(|it| format!("{name}: {it}")));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_page_that_is_cut_off_states_it() {
    let mut browser = Browser::start();
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.vtape");
    let page = folder.path().join("run.html");
    let mut tape = writer(&run, &Meta::default());
    filled(&mut tape, (0..200_000).map(|_| StackId::NONE));
    drop(tape.finish().unwrap());
    vramtape(&["view", "-o", page.to_str().unwrap(), run.to_str().unwrap()]);
    let cut = without_its_end(&page);
    let url = format!("file://{}", cut.display());
    browser.open(&url, 1280, "light");
    let seen = browser.evaluate(SETTLED);
    let said = format!("{} {} {}", seen["faults"], seen["empty"], seen["warnings"]);
    assert!(said.len() > 20, "{seen}");
    assert_eq!(browser.complaints(&url), Vec::<String>::new());
}
