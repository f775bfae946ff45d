//! Metrics of a real process, as Prometheus and node exporter get them.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::build;

/// A process that holds memory until its input is closed.
struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    scratch: tempfile::TempDir,
}

impl Program {
    fn start(conf: &str) -> Self {
        Self::start_with(conf, &[]).0
    }

    /// With an argument, it has a child: its process id.
    fn start_with(conf: &str, arguments: &[&str]) -> (Self, String) {
        let scratch = tempfile::tempdir().expect("a folder for the program");
        let program = build("metrics", scratch.path(), &[]);
        let mut child = Command::new(program)
            .args(arguments)
            .env_remove("PYTORCH_CUDA_ALLOC_CONF")
            .env_remove("PYTORCH_ALLOC_CONF")
            .env_remove("LOCAL_RANK")
            .env("RANK", "3")
            .env("VRAMTAPE_CONF", format!("device:sim,{conf}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let (input, output) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let mut program = Self { child, input, output: BufReader::new(output), scratch };
        let mut said: Vec<_> = arguments.iter().map(|_| program.line()).collect();
        said.push(program.line());
        let ready = said.iter().position(|line| line == "ready").expect("it is ready");
        said.remove(ready);
        (program, said.pop().unwrap_or_default())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the program's output");
        line.trim_end().to_owned()
    }

    /// Lets it end; what it said on standard error.
    fn end(mut self) -> String {
        drop(self.input.take());
        let status = self.child.wait().expect("the program ends");
        let mut text = String::new();
        let errors = self.child.stderr.take().expect("a pipe");
        BufReader::new(errors).read_to_string(&mut text).expect("its errors");
        assert!(status.success(), "{status}\n{text}");
        drop(self.scratch);
        text
    }
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
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
fn an_endpoint_reports_each_device() {
    let port = free_port();
    let program = Program::start(&format!("metrics:{port}"));
    let text = scrape(port);
    has(&text, "vramtape_requested_bytes{device=\"0\",pool=\"small\"} 1000");
    has(&text, "vramtape_allocated_bytes{device=\"0\",pool=\"small\"} 1024");
    has(&text, "vramtape_allocated_bytes{device=\"0\",pool=\"large\"} 31457280");
    has(&text, "vramtape_reserved_bytes{device=\"1\",pool=\"small\"} 2097152");
    has(&text, "vramtape_allocated_peak_bytes{device=\"0\"} 31460352");
    has(&text, "vramtape_segments{device=\"0\",pool=\"large\"} 1");
    has(&text, "vramtape_allocations_total{device=\"0\",pool=\"small\"} 2");
    has(&text, "vramtape_frees_total{device=\"0\",pool=\"small\"} 1");
    has(&text, "vramtape_device_allocs_total{device=\"0\"} 2");
    has(&text, "vramtape_ooms_total{device=\"1\"} 0");
    has(&text, "vramtape_device_memory_bytes{device=\"0\"} 85899345920");
    has(&text, "vramtape_tape_lost_events_total{device=\"0\"} 0");
    assert!(text.contains("strategy=\"native\"") && text.contains("rank=\"3\""), "{text}");
    assert!(!text.contains("vramtape_tape_recording"), "no tape was asked for: {text}");

    assert!(ask(port, "GET / HTTP/1.0\r\n\r\n").contains("/metrics"));
    assert!(ask(port, "DELETE /metrics HTTP/1.1\r\n\r\n").contains(" 405 "));
    assert_eq!(program.end(), "");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the endpoint still listens");
}

#[test]
fn silent_and_malformed_callers_block_no_other_caller() {
    let port = free_port();
    let program = Program::start(&format!("metrics:127.0.0.1:{port}"));
    let silent: Vec<_> = (0..3).map(|_| connect(port)).collect();
    let mut endless = connect(port);
    // It may be cut off before it has sent all.
    let _ = endless.write_all(&vec![b'x'; 64 << 10]);
    scrape(port);
    drop(silent);
    assert_eq!(program.end(), "");
}

#[test]
fn a_scrape_does_not_wait_for_a_hundred_idle_connections() {
    let port = free_port();
    let program = Program::start(&format!("metrics:{port}"));
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
    assert_eq!(program.end(), "");
}

#[test]
fn a_request_that_names_another_host_is_refused_on_loopback() {
    let port = free_port();
    let program = Program::start(&format!("metrics:{port}"));
    for host in ["evil.example", "evil.example:80", "localhost.evil.example"] {
        let answer = ask(port, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 403 ") && !answer.contains("vramtape_"), "{answer}");
    }
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        let answer = ask(port, &format!("GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    assert_eq!(program.end(), "");
}

#[test]
fn a_port_that_is_taken_is_a_warning() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("its address").port();
    let errors = Program::start(&format!("metrics:{port}")).end();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("vramtape: no metrics") && errors.contains("{local_rank}"),
        "{errors}"
    );
}

#[test]
fn a_forked_child_does_not_keep_the_port() {
    let port = free_port();
    let (mut program, child) = Program::start_with(&format!("metrics:{port}"), &["fork"]);
    scrape(port);
    drop(program.input.take());
    assert!(program.child.wait().expect("the parent ends").success());
    let is_taken = TcpStream::connect(("127.0.0.1", port)).is_ok();
    let killed = Command::new("kill").arg(&child).status().expect("there is a kill");
    assert!(killed.success(), "the child {child} was to outlive its parent");
    assert!(!is_taken, "the child keeps it");
}

#[test]
fn a_file_is_there_while_the_process_runs_and_has_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let pattern = folder.path().join("{rank}-{pid}.prom");
    let program = Program::start(&format!("metrics:\"{}\"", pattern.display()));
    let pid = program.child.id();
    let path = folder.path().join(format!("3-{pid}.prom"));
    let labels = format!("{{rank=\"3\",pid=\"{pid}\",device=\"0\",pool=\"large\"}}");
    let held = format!("vramtape_allocated_bytes{labels} 31457280");
    // The first text may be older than the allocation; the next one comes after 5 s.
    let deadline = Instant::now() + Duration::from_secs(60);
    let early = loop {
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text.contains(&held) || Instant::now() > deadline {
            break text;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    well_formed(&early);
    has(&early, &held);
    assert_eq!(program.end(), "");
    let late = fs::read_to_string(&path).expect("the file");
    well_formed(&late);
    has(&late, &format!("vramtape_allocated_bytes{labels} 0"));
    let files = fs::read_dir(&folder).expect("the folder can be listed").count();
    assert_eq!(files, 1, "something else was left");
}

#[test]
fn a_file_that_cannot_be_written_is_one_warning() {
    let errors = Program::start("metrics:/no/such/folder/vramtape.prom").end();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("vramtape: no metrics") && errors.contains("/no/such/folder"),
        "{errors}"
    );
    assert!(!Path::new("/no/such").exists());
}
