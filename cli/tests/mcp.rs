//! `vramtape mcp` as a client meets it: messages of the protocol, one on a line, over the pipes of a process.

mod common;

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use common::{command, golden, vramtape};

const RUN: &str = "../tests/data/tapes/one-shot-side-stream.vtape";
const OTHER: &str = "../tests/data/tapes/max-split-size-expandable.vtape";
const MESSAGE: &str =
    "XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 2.00 GiB";

struct Client {
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl Client {
    /// A server, and no message yet.
    fn connect() -> Self {
        let mut server = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
        server.arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = server.spawn().unwrap();
        let input = server.stdin.take();
        let output = BufReader::new(server.stdout.take().unwrap());
        Self { server, input, output, last_id: 0 }
    }

    /// An initialized session.
    fn start() -> Self {
        let mut client = Self::connect();
        let client_info = json!({ "name": "test", "version": "0" });
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info });
        let answer = client.ask("initialize", &params);
        assert_eq!(answer["result"]["serverInfo"]["name"], "vramtape", "{answer}");
        client
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request; its number.
    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string(),
        );
        id
    }

    /// The next message.
    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        let answer = self.receive();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn call(&mut self, name: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({ "name": name, "arguments": arguments }))["result"].take()
    }

    /// The text of a tool's error.
    fn error(&mut self, name: &str, arguments: &Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["structuredContent"], Value::Null, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn tools(&mut self) -> Vec<Value> {
        let mut answer = self.ask("tools/list", &json!({}));
        serde_json::from_value(answer["result"]["tools"].take()).unwrap()
    }

    /// Ends standard input: the lines that are left, and how the process ends.
    fn end(mut self) -> (String, ExitStatus) {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.server.wait().unwrap())
    }

    /// Whether a call is at work.
    fn is_working(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.server.id())).unwrap();
        let names =
            tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.into_iter().any(|name| name.trim() == "vramtape lab")
    }

    fn wait_until_working(&self, expected: bool) {
        let begun = Instant::now();
        while self.is_working() != expected {
            assert!(begun.elapsed() < Duration::from_secs(60), "working: {}", !expected);
            sleep(Duration::from_millis(10));
        }
    }
}

/// The output without the time that it took.
fn timeless(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.remove("elapsed_s");
            fields.values_mut().for_each(|field| *field = timeless(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = timeless(item.take())),
        _ => {}
    }
    value
}

/// A run that takes minutes under [`LONG`].
fn large_run(path: &Path) {
    let mut text = "id,lower,upper,size\n".to_owned();
    for at in 0..5000_u64 {
        writeln!(text, "b{at},{at},{},{}", at + 500, (at * 7919 % 1000 + 1) << 20).unwrap();
    }
    fs::write(path, text).unwrap();
}

#[test]
fn a_tool_answers_as_its_verb() {
    let mut client = Client::start();
    let run = json!({ "run": RUN });
    let cases = [
        ("explain", json!({ "run": RUN, "at": "peak", "cold": false }), vec![RUN, "--at=peak"]),
        ("report", run.clone(), vec![RUN]),
        ("info", run.clone(), vec![RUN]),
        ("waste", json!({ "runs": [RUN], "points": 3 }), vec![RUN, "--points=3"]),
        ("leaks", json!({ "runs": [RUN], "step": "epoch" }), vec![RUN, "--step=epoch"]),
        (
            "diff",
            json!({ "before": RUN, "after": OTHER, "fail_on": "peak:+2%" }),
            vec![RUN, OTHER, "--fail-on=peak:+2%"],
        ),
        (
            "compare",
            json!({ "runs": [RUN, OTHER], "config": ["", "max_split_size_mb:64"] }),
            vec![RUN, OTHER, "--config=", "--config=max_split_size_mb:64"],
        ),
        (
            "replay",
            json!({ "run": RUN, "no_empty_cache": true, "device": null }),
            vec![RUN, "--no-empty-cache"],
        ),
        ("tune", json!({ "runs": [RUN], "lines": 5 }), vec![RUN, "--lines=5"]),
        ("fit", json!({ "runs": [RUN], "checks": 2 }), vec![RUN, "--checks=2"]),
        ("verify", json!({ "run": RUN, "against": OTHER }), vec![RUN, "--against", OTHER]),
    ];
    for (tool, arguments, line) in cases {
        let result = client.call(tool, &arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let text: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"], "{tool}");
        let output = command(&[&[tool], &line[..], &["--json"]].concat()).output().unwrap();
        let expected: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(timeless(text), timeless(expected), "{tool}");
    }
    let explained = client.call("explain_message", &json!({ "text": MESSAGE }));
    assert_eq!(
        explained["structuredContent"]["messages"][0]["verdict"], "huge-request",
        "{explained}"
    );
    assert!(client.end().1.success());
}

#[test]
fn tools_have_the_arguments_of_their_verbs_and_write_nothing() {
    let mut client = Client::start();
    let mut text = String::new();
    for tool in client.tools() {
        let (input, name) = (&tool["inputSchema"], tool["name"].as_str().unwrap());
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        writeln!(text, "{name}: {}", tool["description"].as_str().unwrap()).unwrap();
        for (argument, schema) in input["properties"].as_object().unwrap() {
            let required =
                input["required"].as_array().unwrap().contains(&argument.as_str().into());
            let items = schema["items"]["type"].as_str().map(|of| format!(" of {of}"));
            let kind = format!("{}{}", schema["type"].as_str().unwrap(), items.unwrap_or_default());
            writeln!(text, "  {argument}: {kind}{}", if required { ", required" } else { "" })
                .unwrap();
            assert!(
                schema["description"].as_str().is_some_and(|help| !help.is_empty()),
                "{name} {argument}"
            );
        }
    }
    golden("mcp_tools", &text);
}

#[test]
fn errors_name_the_argument_or_are_those_of_the_command() {
    let mut client = Client::start();
    for (tool, arguments, expected) in [
        ("info", json!({ "rum": RUN }), "info has no argument \"rum\"; known: run, trust_factor"),
        ("info", json!({ "run": [RUN] }), "the argument \"run\" is one value, not a list"),
        ("info", json!({ "run": { "file": RUN } }), "the argument \"run\" cannot be {\"file\":"),
        ("info", json!({ "run": "-" }), "the argument \"run\" cannot be standard input"),
        ("replay", json!({ "run": RUN, "cold": "yes" }), "the argument \"cold\" is true or false"),
        ("info", json!({}), "the following required arguments were not provided"),
        (
            "replay",
            json!({ "run": RUN, "device": 70_000 }),
            "invalid value '70000' for '--device <N>'",
        ),
        (
            "replay",
            json!({ "run": RUN, "strategy": "best" }),
            "invalid value 'best' for '--strategy",
        ),
        ("explain_message", json!({}), "the argument \"text\" is the text of the message"),
        ("fit", json!({ "gpu": "list" }), "a list is available in the command only"),
    ] {
        let error = client.error(tool, &arguments);
        assert!(error.starts_with(expected), "{tool} {arguments}: {error}");
    }
    for run in ["nowhere.vtape", "--version", file!()] {
        let (text, code) = vramtape(&["info", "--json", "--", run]);
        assert_eq!(
            (client.error("info", &json!({ "run": run })), code),
            (text["error: ".len()..].trim_end().to_owned(), Some(2))
        );
    }
    let unknown = client.ask("tools/call", &json!({ "name": "clean", "arguments": {} }));
    assert!(
        unknown["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no tool \"clean\"; known: explain_message")
    );
    assert!(client.end().1.success());
}

#[test]
fn a_doubtful_run_is_answered_with_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let torn = folder.path().join("torn.vtape");
    let whole = fs::read(RUN).unwrap();
    fs::write(&torn, &whole[..whole.len() - 40]).unwrap();
    let mut client = Client::start();
    let result = client.call("info", &json!({ "run": torn }));
    let warning = result["content"][1]["text"].as_str().unwrap();
    assert!(warning.starts_with(&format!("warning: {}: ", torn.display())), "{result}");
    assert_eq!(result["structuredContent"]["finished"], false, "{result}");
}

#[test]
fn a_long_call_holds_nothing_up_and_ends_when_it_is_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("large.csv");
    large_run(&run);
    let arguments = json!({ "runs": [run], "config": ["garbage_collection_threshold:0.5"], "checks": 1_000_000 });
    let mut client = Client::start();
    let long = client.request("tools/call", &json!({ "name": "fit", "arguments": arguments }));
    client.wait_until_working(true);
    assert_eq!(client.call("info", &json!({ "run": RUN }))["isError"], false);
    let params = json!({ "requestId": long, "reason": "test" });
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
            .to_string(),
    );
    client.wait_until_working(false);
    assert_eq!(client.call("info", &json!({ "run": RUN }))["isError"], false);

    client.request("tools/call", &json!({ "name": "fit", "arguments": arguments }));
    client.wait_until_working(true);
    assert!(client.end().1.success(), "the end of standard input ends a call");
}

#[test]
fn lines_that_are_no_messages_change_nothing() {
    let mut client = Client::start();
    for line in ["", "no JSON", "{\"jsonrpc\": \"2.0\", \"id\": ", "\u{7f}\u{0}"] {
        client.send(line);
    }
    assert_eq!(client.call("info", &json!({ "run": RUN }))["isError"], false);
    let unknown = client.ask("tools/write", &json!({}));
    assert!(unknown["error"]["code"].is_i64(), "{unknown}");
    let (rest, status) = client.end();
    assert!(rest.is_empty() && status.success(), "{status}: {rest}");
    let (rest, status) = Client::connect().end();
    assert!(rest.is_empty() && status.success(), "{status}: {rest}");
}
