//! The command that serves the statistics of processes, as Prometheus and node exporter get them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use allocator::heap::{Heap, PoolChoice, Request};
use events::{BlockSlot, Recorder};
use recorder::{AnyRecorder, RingOptions, RingRecorder, SystemClock};
use serde_json::Value;
use settings::Config;
use sim_device::{SimConfig, SimDevice};
use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, DeviceId, DeviceMeta, Event, Meta, PoolId,
    SegmentState, StackId, Stream,
};

/// The folder of rings and the rank of a process of this test.
const RINGS: &str = "VRAMTAPE_TEST_RINGS";
const RANK: &str = "VRAMTAPE_TEST_RANK";

const MIB: u64 = 1 << 20;

type RingHeap = Heap<SimDevice, AnyRecorder>;

fn ring(folder: &Path, device: u16, rank: Option<u32>) -> RingRecorder {
    let device = DeviceId(device);
    let options = RingOptions { dir: folder.to_owned(), device, slots: 1 << 12, has_pages: false };
    let recorder = RingRecorder::new(&options, SystemClock::new()).expect("a ring");
    let meta = DeviceMeta {
        id: device,
        uuid: Some(format!("GPU-0000000{device}")),
        total_bytes: Some(64 * MIB),
        ..DeviceMeta::default()
    };
    recorder.ring().describe(&Meta {
        producer: "vramtape 9.9.9".to_owned(),
        strategy: Some("native".to_owned()),
        compat: Some("2.15".to_owned()),
        hostname: Some("node-7".to_owned()),
        devices: vec![meta],
        rank,
        ..Meta::default()
    });
    recorder
}

fn heap(folder: &Path, device: u16, rank: Option<u32>) -> RingHeap {
    let recorder = AnyRecorder::Ring(ring(folder, device, rank));
    let device = SimDevice::new(SimConfig::with_capacity(64 * MIB));
    Heap::new(device, Config::default(), recorder).expect("a device")
}

fn take(heap: &mut RingHeap, requested_bytes: u64) -> Addr {
    try_take(heap, requested_bytes).expect("memory")
}

fn try_take(heap: &mut RingHeap, requested_bytes: u64) -> Option<Addr> {
    let (stream, pool, stack) = (Stream(0), PoolChoice::ByScope, StackId::NONE);
    heap.malloc(&Request { requested_bytes, stream, pool, stack }).ok()
}

/// Not a test of its own: a process that holds memory on two devices until its input ends.
#[test]
#[ignore = "run by other tests as a process"]
fn process_that_allocates() {
    let folder = PathBuf::from(std::env::var_os(RINGS).expect("a folder"));
    let rank = std::env::var(RANK).ok().and_then(|rank| rank.parse().ok());
    let mut heaps = [heap(&folder, 0, rank), heap(&folder, 1, rank)];
    take(&mut heaps[0], 1000);
    take(&mut heaps[0], 30 * MIB);
    take(&mut heaps[1], 1);
    let freed = take(&mut heaps[0], 2000);
    heaps[0].free(freed, StackId::NONE).expect("it is known");
    println!("ready");
    std::io::stdin().read_to_end(&mut Vec::new()).expect("an input");
}

/// A process that allocates.
struct Job {
    child: Child,
    input: Option<ChildStdin>,
}

impl Job {
    fn start(folder: &Path, rank: u32) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", "process_that_allocates", "--nocapture"])
            .env(RINGS, folder)
            .env(RANK, rank.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        assert!(lines.any(|line| line.expect("its output").contains("ready")));
        // What it prints at its end is not read.
        thread::spawn(move || lines.for_each(drop));
        let input = child.stdin.take();
        Self { child, input }
    }

    fn labels(&self, device: u16, rank: u32) -> String {
        let pid = self.child.id();
        format!(
            "gpu=\"{device}\",UUID=\"GPU-0000000{device}\",pid=\"{pid}\",host=\"node-7\",rank=\"{rank}\""
        )
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("it ends").success());
    }

    fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }
}

/// The command, serving.
struct Exporter {
    child: Child,
    errors: BufReader<std::process::ChildStderr>,
    port: u16,
}

fn vramtape(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
    command.arg("exporter").args(arguments).arg("--folder").arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl Exporter {
    fn start(folder: &Path) -> Self {
        let mut child = vramtape(folder, &["--listen", "127.0.0.1:0"]).spawn().expect("it starts");
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("its address");
        let address = line.strip_prefix("metrics: http://127.0.0.1:").expect(&line);
        let port = address.trim_end().strip_suffix("/metrics").expect(&line);
        Self { child, errors, port: port.parse().expect(&line) }
    }

    /// Ends it by a signal; what it printed on standard error besides its address.
    fn end(mut self) -> String {
        terminate(&self.child);
        let status = self.child.wait().expect("it ends");
        let mut text = String::new();
        self.errors.read_to_string(&mut text).expect("its errors");
        assert!(status.success(), "{status}\n{text}");
        assert!(TcpStream::connect(("127.0.0.1", self.port)).is_err(), "the port is still open");
        text
    }
}

fn terminate(child: &Child) {
    let killed =
        Command::new("kill").arg(child.id().to_string()).status().expect("there is a kill");
    assert!(killed.success());
}

fn json(folder: &Path) -> Value {
    let output = vramtape(folder, &["--json"]).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the endpoint listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream
}

/// The answer to `request`.
fn ask(port: u16, request: &str) -> String {
    let mut stream = connect(port);
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn scrape(port: u16) -> String {
    let answer = ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("headers and a body");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    well_formed(body);
    body.to_owned()
}

/// That every line is what Prometheus' text format allows, and each metric is described before its values.
fn well_formed(text: &str) {
    let mut described = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect(line);
            assert!(help.ends_with('.') && name.starts_with("vramtape_"), "{line}");
            described = (name, "");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(name == described.0 && ["gauge", "counter"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            described = (name, kind);
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let (name, labels) = series.split_once('{').expect(line);
            assert!(name == described.0 && !described.1.is_empty(), "{line}");
            assert!(labels.ends_with("\"}"), "{line}");
            assert!(value.parse::<f64>().is_ok_and(|value| value >= 0.0), "{line}");
        }
    }
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|known| known == line), "no {line} in:\n{text}");
}

#[test]
fn one_port_serves_every_device_of_every_live_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let exporter = Exporter::start(folder.path());
    let port = exporter.port;
    assert_eq!(scrape(port), "", "no process, no metric");
    let (first, second) = (Job::start(folder.path(), 0), Job::start(folder.path(), 3));
    let text = scrape(port);
    for (job, rank) in [(&first, 0), (&second, 3)] {
        let [zero, one] = [0, 1].map(|device| job.labels(device, rank));
        for (name, labels, value) in [
            ("requested_bytes", format!("{zero},pool=\"small\""), 1000),
            ("allocated_bytes", format!("{zero},pool=\"small\""), 1024),
            ("allocated_bytes", format!("{zero},pool=\"large\""), 30 * MIB),
            ("reserved_bytes", format!("{one},pool=\"small\""), 2 * MIB),
            ("allocated_peak_bytes", zero.clone(), 30 * MIB + 1024 + 2048),
            ("segments", format!("{zero},pool=\"large\""), 1),
            ("allocations_total", format!("{zero},pool=\"small\""), 2),
            ("frees_total", format!("{zero},pool=\"small\""), 1),
            ("device_allocs_total", zero.clone(), 2),
            ("ooms_total", one.clone(), 0),
            ("device_memory_bytes", one, 64 * MIB),
            ("tape_lost_events_total", zero, 0),
        ] {
            has(&text, &format!("vramtape_{name}{{{labels}}} {value}"));
        }
        let (pid, rest) = (job.child.id(), "version=\"9.9.9\",strategy=\"native\",compat=\"2.15\"");
        let process = format!("pid=\"{pid}\",host=\"node-7\",rank=\"{rank}\"");
        has(&text, &format!("vramtape_info{{{process},{rest}}} 1"));
    }
    assert!(!text.contains("vramtape_tape_recording"), "no process writes a tape: {text}");
    let pids = [&first, &second].map(|job| format!("pid=\"{}\"", job.child.id()));
    second.kill();
    let text = scrape(port);
    assert!(text.contains(&pids[0]) && !text.contains(&pids[1]), "one was killed: {text}");
    first.end();
    assert_eq!(scrape(port), "");

    assert!(ask(port, "GET / HTTP/1.0\r\n\r\n").contains("/metrics"));
    assert!(ask(port, "DELETE /metrics HTTP/1.1\r\n\r\n").contains(" 405 "));
    assert_eq!(exporter.end(), "");
}

#[test]
fn a_scrape_has_the_values_of_now_and_an_out_of_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heap = heap(folder.path(), 0, None);
    let exporter = Exporter::start(folder.path());
    let labels =
        format!("gpu=\"0\",UUID=\"GPU-00000000\",pid=\"{}\",host=\"node-7\"", std::process::id());
    let held: Vec<_> = (1..=40).map(|n| take(&mut heap, n * 1000)).collect();
    for (freed, addr) in held.into_iter().enumerate() {
        heap.free(addr, StackId::NONE).expect("it is known");
        if freed % 10 == 0 {
            let (text, stats) = (scrape(exporter.port), heap.stats());
            let bytes = stats.allocated_bytes;
            has(
                &text,
                &format!(
                    "vramtape_allocated_bytes{{{labels},pool=\"small\"}} {}",
                    bytes.all.current
                ),
            );
            has(&text, &format!("vramtape_allocated_peak_bytes{{{labels}}} {}", bytes.all.peak));
            has(&text, &format!("vramtape_frees_total{{{labels},pool=\"small\"}} {}", freed + 1));
        }
    }
    assert_eq!(try_take(&mut heap, 100 * MIB), None);
    let text = scrape(exporter.port);
    has(&text, &format!("vramtape_ooms_total{{{labels}}} 1"));
    has(
        &text,
        &format!("vramtape_alloc_retries_total{{{labels}}} {}", heap.stats().num_alloc_retries),
    );
    assert_eq!(exporter.end(), "");
}

#[test]
fn an_allocator_that_counts_nothing_has_its_memory_and_no_totals() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut recorder = ring(folder.path(), 2, Some(1));
    let (addr, stream, pool, stack) = (Addr(1 << 30), Stream(0), PoolId::DEFAULT, StackId::NONE);
    let status = BlockStatus::Allocated;
    let (size_bytes, requested_bytes) = (512, 500);
    let block = BlockState { addr, size_bytes, requested_bytes, status, stack };
    let (is_large, is_expandable, size_bytes) = (false, false, 2 * MIB);
    let blocks = vec![block];
    let segment =
        SegmentState { addr, size_bytes, stream, pool, is_large, is_expandable, stack, blocks };
    recorder.begin_with(&BaseState { segments: vec![segment], ..BaseState::default() });
    let event = Event::Alloc {
        addr: Addr(addr.0 + 512),
        requested_bytes: 100,
        size_bytes: 512,
        stream,
        pool,
    };
    recorder.record_block(BlockSlot(1), stack, event, &());
    let found = json(folder.path());
    let value = |name: &str| {
        let family = found.as_array().expect("a list").iter().find(|family| family["name"] == name);
        family.map(|family| family["values"][0]["value"].as_f64().expect("a number") as u64)
    };
    assert_eq!(value("vramtape_reserved_bytes"), Some(2 * MIB));
    assert_eq!(value("vramtape_allocated_bytes"), Some(1024));
    assert_eq!(value("vramtape_requested_bytes"), Some(600));
    assert_eq!(value("vramtape_inactive_split_bytes"), Some(2 * MIB - 1024));
    assert_eq!(value("vramtape_allocated_peak_bytes"), None);
    assert_eq!(value("vramtape_ooms_total"), None);
    assert_eq!(found[0]["values"][0]["labels"]["rank"], "1");
}

#[test]
fn processes_of_two_containers_may_have_one_number() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut other] = [(); 2].map(|()| heap(folder.path(), 0, None));
    take(&mut one, 1000);
    take(&mut other, 2000);
    let found = json(folder.path());
    let family = &found.as_array().expect("a list")[1];
    let values = family["values"].as_array().expect("a list");
    let labels: BTreeSet<_> = values.iter().map(|value| value["labels"].to_string()).collect();
    assert_eq!((values.len(), labels.len()), (4, 4), "two heaps, two pools: {family}");
}

#[test]
fn a_ring_that_cannot_be_read_is_one_warning_and_hides_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heap = heap(folder.path(), 0, None);
    take(&mut heap, 1000);
    let ring = heap.recorder().ring().and_then(|ring| ring.path()).expect("a file");
    let other = ring
        .with_file_name(ring.file_name().unwrap().to_str().unwrap().replace(".ring", "-x.ring"));
    fs::write(&other, b"a ring of another version").expect("a file");
    let exporter = Exporter::start(folder.path());
    for _ in 0..4 {
        assert!(scrape(exporter.port).contains("vramtape_allocated_bytes"));
    }
    let errors = exporter.end();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(errors.contains("-x.ring"), "{errors}");
}

#[test]
fn silent_and_malformed_callers_block_no_other_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let exporter = Exporter::start(folder.path());
    let port = exporter.port;
    let silent: Vec<_> = (0..3).map(|_| connect(port)).collect();
    let mut endless = connect(port);
    // It may be cut off before it has sent all.
    let _ = endless.write_all(&vec![b'x'; 64 << 10]);
    scrape(port);
    drop(silent);
    assert_eq!(exporter.end(), "");
}

#[test]
fn a_scrape_does_not_wait_for_a_hundred_idle_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heap = heap(folder.path(), 0, None);
    take(&mut heap, 1000);
    let exporter = Exporter::start(folder.path());
    let port = exporter.port;
    let idle: Vec<_> = (0..100).map(|_| connect(port)).collect();
    let mut started = connect(port);
    started.write_all(b"GET /met").expect("a part of a request");
    let start = Instant::now();
    scrape(port);
    let took = start.elapsed();
    println!("a scrape beside {} idle connections took {took:?}", idle.len());
    assert!(
        took < Duration::from_millis(900),
        "it waited for one that is dropped after 1 s: {took:?}"
    );
    started.write_all(b"rics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the rest of it");
    let mut answer = String::new();
    started.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n"),
        "one that has sent something is kept: {answer}"
    );
    for mut silent in idle {
        let mut rest = Vec::new();
        // Closed, with a reset or without.
        let _ = silent.read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    assert_eq!(exporter.end(), "");
}

#[test]
fn a_request_that_names_another_host_is_refused_on_loopback() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heap = heap(folder.path(), 0, None);
    take(&mut heap, 1000);
    let exporter = Exporter::start(folder.path());
    let port = exporter.port;
    for host in ["evil.example", "evil.example:80", "localhost.evil.example"] {
        let answer = ask(port, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("vramtape_"), "{answer}");
    }
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let answer = ask(port, &format!("GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    assert_eq!(exporter.end(), "");
}

#[test]
fn a_port_that_is_taken_is_an_error_that_says_what_to_try() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let output = vramtape(folder.path(), &["--listen", &address]).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(&address) && errors.contains("pass --listen"), "{errors}");
}

#[test]
fn a_file_is_kept_up_to_date_and_ends_with_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heap = heap(folder.path(), 0, Some(3));
    let first = take(&mut heap, 1000);
    let path = folder.path().join("vramtape.prom");
    let arguments = ["--textfile", path.to_str().expect("a name"), "--interval", "0.1"];
    let mut child = vramtape(folder.path(), &arguments).spawn().expect("it starts");
    let until = |value: &str| {
        let deadline = Instant::now() + Duration::from_secs(60);
        let line = format!("pool=\"small\"}} {value}");
        loop {
            let text = fs::read_to_string(&path).unwrap_or_default();
            well_formed(&text);
            let mut lines =
                text.lines().filter(|line| line.starts_with("vramtape_allocated_bytes"));
            if lines.any(|known| known.ends_with(&line)) {
                return;
            }
            assert!(Instant::now() < deadline, "no {value} in: {text}");
            thread::sleep(Duration::from_millis(10));
        }
    };
    until("1024");
    heap.free(first, StackId::NONE).expect("it is known");
    until("0");
    terminate(&child);
    assert!(child.wait().expect("it ends").success());
    let mut errors = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("its errors");
    assert_eq!(errors, "", "it listens nowhere");
    let left = fs::read_dir(&folder).expect("the folder").map(|file| file.expect("a file").path());
    assert!(left.into_iter().all(|file| file.extension().is_some_and(|end| end == "ring")));
}

#[test]
fn a_file_that_cannot_be_written_is_one_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("gone").join("vramtape.prom");
    let arguments = ["--textfile", path.to_str().expect("a name"), "--interval", "0.1"];
    let mut child = vramtape(folder.path(), &arguments).spawn().expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut text = String::new();
    errors.read_line(&mut text).expect("a warning");
    thread::sleep(Duration::from_millis(500));
    terminate(&child);
    assert!(child.wait().expect("it ends").success());
    errors.read_to_string(&mut text).expect("its errors");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.starts_with("warning: cannot write ") && text.contains("every 0.1 s"), "{text}");
}

#[test]
fn the_dashboard_names_metrics_and_labels_that_are_exported() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut heap = heap(folder.path(), 0, Some(3));
    take(&mut heap, 1000);
    let found = json(folder.path());
    let families = found.as_array().expect("a list");
    let exported: BTreeSet<_> =
        families.iter().filter_map(|family| family["name"].as_str()).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/grafana.json");
    let dashboard: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut texts = Vec::new();
    expressions(&dashboard, &mut texts);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = texts.iter().flat_map(|text| text.split(|c| !is_part(c)));
    let named: BTreeSet<_> = words.filter(|word| word.starts_with("vramtape_")).collect();
    assert!(named.len() >= 8, "{named:?}");
    assert!(named.is_subset(&exported), "{:?}", named.difference(&exported));
}

/// The queries of a dashboard.
fn expressions(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if ["expr", "query", "definition"].contains(&name.as_str()) => {
                        into.push(text.to_owned());
                    }
                    _ => expressions(value, into),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| expressions(value, into)),
        _ => {}
    }
}
