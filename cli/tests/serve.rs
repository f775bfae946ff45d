//! `vramtape view --serve`: what its server answers, and to whom.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use common::vramtape;
use serde_json::Value;

const POLICY: &str = "Content-Security-Policy";

fn run() -> PathBuf {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    traces.join("gpt2_train-default.pickle.zst")
}

/// The command, serving.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    /// What it printed.
    line: String,
}

impl Server {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
        command.arg("view").arg(run()).arg("--serve").args(flags).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a line");
        Self { child, output, line: line.trim_end().to_owned() }
    }

    /// Port and path of the URL.
    fn place(&self) -> (u16, &str) {
        let rest = self.line.strip_prefix("http://127.0.0.1:").expect(&self.line);
        let (port, _) = rest.split_once('/').expect(&self.line);
        (port.parse().expect(&self.line), &rest[port.len()..])
    }

    /// The answer to a request line without its version, from a client that names the right host.
    fn ask(&self, request: &str) -> String {
        let (port, _) = self.place();
        ask(port, &format!("{request} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
    }

    /// Ends it by a signal; everything else that it printed.
    fn end(mut self, signal: &str) -> String {
        let pid = self.child.id().to_string();
        let began = Instant::now();
        let killed = Command::new("kill").args([signal, &pid]).status().expect("there is a kill");
        assert!(killed.success());
        let status = self.child.wait().expect("it ends");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(status.code(), Some(0), "{signal}");
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("its output");
        let mut errors = self.child.stderr.take().expect("a pipe");
        errors.read_to_string(&mut text).expect("its errors");
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    stream
}

fn ask(port: u16, request: &str) -> String {
    let mut stream = connect(port);
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).expect(answer)
}

fn parts(answer: &str) -> (&str, &str) {
    answer.split_once("\r\n\r\n").expect("headers and a body")
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let lines = parts(answer).0.lines();
    lines.filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|(_, it)| it)
}

/// The policy in the document.
fn policy(page: &str) -> &str {
    let (_, rest) = page.split_once(&format!("\"{POLICY}\" content=\"")).expect("a policy");
    rest.split_once('"').expect("its end").0
}

/// IDs and texts of the chunks in a document.
fn chunks(page: &str) -> Vec<(&str, &str)> {
    let elements = page.split("<script type=\"text/plain\" id=\"d").skip(1);
    let elements = elements.map(|element| {
        let (id, text) = element.split_once("\">").expect("a tag");
        (id, text.split_once("</script>").expect("its end").0)
    });
    elements.collect()
}

#[test]
fn the_document_and_the_chunks_beside_it_are_those_of_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    let args = [run().into_os_string().into_string().expect("UTF-8"), "-o".to_owned()];
    let (text, code) = vramtape(&["view", &args[0], &args[1], file.to_str().expect("UTF-8")]);
    assert_eq!(code, Some(0), "{text}");
    let file = fs::read_to_string(file).expect("the page");
    let server = Server::start(folder.path(), &[]);
    let (_, path) = server.place();
    let answer = server.ask(&format!("GET {path}"));
    let (_, document) = parts(&answer);
    assert_eq!(status(&answer), "200");
    assert!(document.len() < file.len(), "{} of {}", document.len(), file.len());
    let (inside, all) = (chunks(document), chunks(&file));
    let mut fetched = 0;
    for (id, text) in all {
        if let Some((_, known)) = inside.iter().find(|(known, _)| *known == id) {
            assert_eq!(*known, text, "d{id}");
            continue;
        }
        let answer = server.ask(&format!("GET {path}chunk/d{id}"));
        assert_eq!(header(&answer, "Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!((status(&answer), parts(&answer).1), ("200", text), "d{id}");
        fetched += 1;
    }
    assert!(fetched > 0 && !inside.is_empty());

    let allowed = "connect-src 'self'; ";
    assert_eq!(policy(document), format!("{allowed}{}", policy(&file)));
    assert!(!policy(&file).contains("connect-src"), "the file makes no request");
    let sent = format!("{}; frame-ancestors 'none'", policy(document));
    for (name, expected) in [
        (POLICY, sent.as_str()),
        ("Content-Type", "text/html; charset=utf-8"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
    ] {
        assert_eq!(header(&answer, name), Some(expected));
    }
    assert_eq!(server.end("-TERM"), "Ctrl-C to stop\n");
}

#[test]
fn only_the_url_that_was_printed_is_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &[]);
    let (port, path) = server.place();
    let other = path.replace(|c: char| c.is_ascii_digit(), "a");
    let token = path.trim_matches('/');
    for wrong in [
        "/".to_owned(),
        "/favicon.ico".to_owned(),
        format!("/{token}"),
        format!("/{token}x/"),
        format!("/{}/", &token[1..]),
        if other == path { "/0/".to_owned() } else { other },
        format!("{path}chunk"),
        format!("{path}chunk/"),
        format!("{path}chunk/../"),
        format!("{path}../{token}/"),
        format!("{path}chunk/d0/../d0/names"),
        format!("{path}chunk/%64%30/names"),
        format!("{path}Cargo.toml"),
        format!("/..{path}"),
        format!("http://127.0.0.1:{port}{path}"),
    ] {
        let answer = server.ask(&format!("GET {wrong}"));
        assert_eq!(status(&answer), "404", "{wrong}: {answer}");
        assert!(!answer.contains(token), "{wrong}: {answer}");
    }
    let empty = server.ask(&format!("GET {path}chunk/d0/lives/40/7"));
    assert_eq!((status(&empty), parts(&empty).1), ("200", ""), "a chunk without data");

    let page = format!("GET {path} HTTP/1.1\r\n");
    for hosts in [
        String::new(),
        "Host: evil.example\r\n".to_owned(),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1:{port}\r\nHost: evil.example:{port}\r\n"),
        "Host: 127.0.0.1\r\n".to_owned(),
        format!("Host: 127.0.0.1:{}\r\n", port ^ 1),
        format!("Host: localhost.evil.example:{port}\r\n"),
        format!("Host: [::1]:{port}\r\n"),
    ] {
        let answer = ask(port, &format!("{page}{hosts}\r\n"));
        assert_eq!(status(&answer), "403", "{hosts:?}: {answer}");
        assert!(!answer.contains(token), "{hosts:?}: {answer}");
    }
    for host in ["127.0.0.1", "localhost", "LocalHost"] {
        let answer = ask(port, &format!("{page}Host: {host}:{port}\r\n\r\n"));
        assert_eq!(status(&answer), "200", "{host}");
    }
}

#[test]
fn other_methods_and_long_requests_are_refused_and_head_has_no_body() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &[]);
    let (port, path) = server.place();
    let [head, get] = ["HEAD", "GET"].map(|method| server.ask(&format!("{method} {path}")));
    assert_eq!((status(&head), parts(&head).1), ("200", ""));
    assert_eq!(parts(&head).0, parts(&get).0);
    assert_eq!(header(&head, "Content-Length"), Some(&*parts(&get).1.len().to_string()));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(status(&server.ask(&format!("{method} {path}"))), "405", "{method}");
    }
    let mut long = connect(port);
    // It may be cut off before it has sent all.
    let _ = long.write_all(format!("GET {path}{} HTTP/1.1\r\n", "x".repeat(1 << 20)).as_bytes());
    let mut answer = Vec::new();
    let _ = long.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400 "), "{answer:?}");
    assert_eq!(status(&server.ask(&format!("GET {path}"))), "200", "it goes on");
}

#[test]
fn clients_do_not_wait_for_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &["--json"]);
    let printed: Value = serde_json::from_str(&server.line).expect("one line of JSON");
    let url = printed["url"].as_str().expect("a URL").to_owned();
    let rest = url.strip_prefix("http://127.0.0.1:").expect(&url);
    let (port, _) = rest.split_once('/').expect(&url);
    let (path, port) = (rest[port.len()..].to_owned(), port.parse().expect(&url));
    // More than are kept at once; none of them sends or takes anything.
    let idle: Vec<_> = (0..100).map(|_| connect(port)).collect();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    let mut slow = connect(port);
    slow.write_all(request.as_bytes()).expect("a request");
    let clients = (0..2).map(|_| {
        let request = request.clone();
        thread::spawn(move || (0..20).map(|_| ask(port, &request)).collect::<Vec<_>>())
    });
    let clients: Vec<_> = clients.collect();
    let pages: Vec<String> =
        clients.into_iter().flat_map(|client| client.join().expect("its pages")).collect();
    assert_eq!(pages.len(), 40);
    assert!(pages.iter().all(|page| page == &pages[0] && status(page) == "200"));
    let mut late = String::new();
    slow.read_to_string(&mut late).expect("an answer");
    assert_eq!(late, pages[0]);
    drop(idle);
    assert_eq!(server.end("-INT"), "Ctrl-C to stop\n");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port is still open");
    assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 0, "no file is left");
}

#[test]
fn flags_that_do_not_fit_and_a_port_that_is_taken_are_errors() {
    let run = run().into_os_string().into_string().expect("UTF-8");
    for (flags, word) in [
        (&["--serve", "-o", "x.html"][..], "--output"),
        (&["--serve", "--force"], "--force"),
        (&["--port", "0"], "--serve"),
    ] {
        let (text, code) = vramtape(&[&["view", &run], flags].concat());
        assert!(code == Some(2) && text.contains(word), "{text}");
    }
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let (text, code) = vramtape(&["view", &run, "--serve", "--port", &port]);
    assert!(code == Some(2) && text.contains("pass --port with another one"), "{text}");
}
