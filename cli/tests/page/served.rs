//! `vramtape view --serve` in a real browser: the page from the server shows the same as the file, and fetches chunks.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tests::browser::Browser;
use trace_format::{DeviceId, Event, Meta, StackId};

use super::edges::{alloc, record, segment, writer};
use super::number;
use super::view::{DRAWN, READY, Viewed, complaints, snapshot};

const DEVICE: DeviceId = DeviceId(0);
const BLOCK_BYTES: u64 = 1 << 20;
/// More than a document holds block by block.
const RECORDS: u64 = 400_000;

/// IDs of the chunks that were fetched.
const FETCHED: &str =
    "performance.getEntriesByType('resource').map(({ name }) => name.split('/chunk/')[1])";

/// The command, serving.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(run: &Path) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
        command.arg("view").arg(run).arg("--serve").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim_end().to_owned() }
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Every second record allocates a block, and the next one frees the block before it, so that one or two are live.
fn long_run(path: &Path) {
    let mut tape = writer(path, &Meta::default());
    let mut push = |at, event| tape.push(DEVICE, &record(at, StackId::NONE, event)).unwrap();
    push(0, segment(1 << 40, 4 * BLOCK_BYTES, 0));
    let addr = |block: u64| (1 << 40) + block % 4 * BLOCK_BYTES;
    for block in 0..RECORDS / 2 {
        push(2 * block + 1, alloc(addr(block), BLOCK_BYTES, 0));
        if let Some(before) = block.checked_sub(1) {
            let addr = trace_format::Addr(addr(before));
            let (size_bytes, requested_bytes) = (BLOCK_BYTES, BLOCK_BYTES);
            let free = Event::Free { addr, requested_bytes, size_bytes, pending: false };
            push(2 * block + 2, free);
        }
    }
    tape.finish().unwrap();
}

fn fetched(browser: &mut Browser) -> Vec<String> {
    let ids = browser.evaluate(FETCHED);
    ids.as_array().unwrap().iter().filter_map(|id| id.as_str().map(str::to_owned)).collect()
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_page_from_a_server_shows_the_records() {
    let trace = "gpt2_train-default";
    let mut page = Viewed::new(trace);
    let server = Server::start(&snapshot(trace));
    page.url.clone_from(&server.url);
    let mut browser = Browser::start();
    for (width, scheme) in [(380, "light"), (1280, "dark")] {
        assert_eq!(page.problems(&mut browser, width, scheme), Vec::<String>::new());
    }
    let ids = fetched(&mut browser);
    assert!(ids.iter().any(|id| id == "d0/names"), "{ids:?}");
    let origin = browser.evaluate("document.getElementById('origin').textContent");
    assert!(origin.as_str().unwrap().contains("loaded in parts"), "{origin}");
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn blocks_are_fetched_when_a_part_is_in_view_and_a_server_that_ended_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run.vtape");
    long_run(&run);
    let mut server = Server::start(&run);
    let mut browser = Browser::start();
    browser.open(&server.url, 1280, "light");
    assert_eq!(browser.evaluate(&format!("typeof vramtape === 'object' && {READY}")), true);
    let of_blocks = |ids: &[String]| ids.iter().filter(|id| id.contains("lives")).count();
    let ids = fetched(&mut browser);
    assert_eq!(of_blocks(&ids), 0, "the whole run is drawn in columns: {ids:?}");

    let show = |browser: &mut Browser, from: u64| -> Value {
        let window = format!("(vramtape.setWindow({from}, {}), {DRAWN})", from + 60);
        assert_eq!(browser.evaluate(&window), true, "no picture from {from}");
        browser.evaluate("vramtape.columnAt(0.5)")
    };
    for from in [10, 250_000] {
        let stack = show(&mut browser, from);
        let blocks = stack["blocks"].as_array().unwrap();
        // After an allocation there are two, after the free behind it one.
        let live = if number(&stack, "moment") as u64 % 2 == 1 { 2 } else { 1 };
        assert_eq!(blocks.len(), live, "{stack}");
        assert_eq!(number(&stack, "allocated_bytes") as u64, live as u64 * BLOCK_BYTES, "{stack}");
    }
    let ids = fetched(&mut browser);
    assert!(of_blocks(&ids) > 0, "{ids:?}");
    assert_eq!(complaints(&browser, &server.url), Vec::<String>::new());

    server.end();
    browser.evaluate("(vramtape.setWindow(150_000, 150_060), 0)");
    let faults = browser.evaluate(
        "new Promise((done) => {
            const begun = performance.now();
            const look = () => {
                const faults = document.querySelector('#faults:not([hidden])');
                if (faults === null && performance.now() - begun < 10000) setTimeout(look, 20);
                else done([...(faults?.children ?? [])].map((element) => element.textContent));
            };
            look();
        })",
    );
    let expected = [
        "Part of this page's data cannot be read. Reload the page, or run `vramtape view --serve` again and open the \
         URL that it prints.",
        "The server does not answer: it has ended, or cannot be reached.",
    ];
    assert_eq!(faults, json!(expected));
}
