//! A Chromium without a window, spoken to in its DevTools protocol over a pipe: no port, no network, no crate.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser answers within milliseconds; on a busy machine it begins within seconds.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// Chromium reads commands from descriptor 3 and answers on 4, which only a shell can give it without unsafe code.
const ON_PIPES: &str = r#"exec 3<&0 4>&1 0</dev/null 1>/dev/null; exec "$@""#;

/// Nothing that asks a network of its own accord, or waits for a person.
const FLAGS: [&str; 11] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
];

/// A browser with one empty tab.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    tab: Option<String>,
    last_id: u64,
    /// What happened in the tab since it was asked last.
    events: Vec<Value>,
    /// Removed when the browser is gone.
    _profile: TempDir,
}

impl Browser {
    /// Starts the one that `VRAMTAPE_BROWSER` names, else `chromium`.
    ///
    /// # Panics
    /// Where it does not start.
    pub fn start() -> Self {
        let program = std::env::var_os("VRAMTAPE_BROWSER").unwrap_or_else(|| "chromium".into());
        let profile = tempfile::tempdir().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", ON_PIPES, "sh"]).arg(&program).args(FLAGS);
        shell.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = shell.spawn().expect("a shell");
        let (commands, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let messages = BufReader::new(output).split(0).map_while(Result::ok);
            for message in messages {
                let message = serde_json::from_slice(&message).expect("JSON from the browser");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (tab, last_id, events) = (None, 0, Vec::new());
        let mut browser =
            Self { child, commands, answers, tab, last_id, events, _profile: profile };
        let target = browser.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", &target);
        browser.tab = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser
    }

    /// Process ids of the processes that draw pages.
    pub fn renderers(&mut self) -> Vec<u32> {
        let tab = self.tab.take();
        let answer = self.call("SystemInfo.getProcessInfo", &json!({}));
        self.tab = tab;
        let processes = answer["processInfo"].as_array().into_iter().flatten();
        let renderers = processes.filter(|process| process["type"] == "renderer");
        renderers.filter_map(|process| process["id"].as_u64()?.try_into().ok()).collect()
    }

    /// Calls a method of the protocol and waits for its answer.
    ///
    /// # Panics
    /// Where the browser refuses or does not answer.
    pub fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(tab) = &self.tab {
            command["sessionId"] = tab.as_str().into();
        }
        let sent = self.commands.write_all(format!("{command}\0").as_bytes());
        sent.expect("a browser that runs: name one in VRAMTAPE_BROWSER");
        loop {
            let message = self.next(method);
            if message["id"] == self.last_id {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&self, what: &str) -> Value {
        let message = self.answers.recv_timeout(ANSWERS_WITHIN);
        message.unwrap_or_else(|_| {
            panic!("{what}: the browser does not answer: name another in VRAMTAPE_BROWSER")
        })
    }

    /// Opens a page in a window of this width, in a colour scheme, and waits until it is drawn.
    pub fn open(&mut self, url: &str, width: u32, scheme: &str) {
        self.resize(width, 1000, scheme);
        self.navigate(url);
        self.settle();
    }

    /// Sets the size of the window and the colour scheme.
    pub fn resize(&mut self, width: u32, height: u32, scheme: &str) {
        let screen =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &screen);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Opens a page and waits until it is loaded.
    pub fn navigate(&mut self, url: &str) {
        self.events.clear();
        self.call("Page.navigate", &json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next("Page.navigate");
            self.events.push(event);
        }
    }

    /// Waits until what was done is drawn.
    pub fn settle(&mut self) {
        self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))",
        );
    }

    /// The value of an expression in the page; of a promise, the value that it has later.
    ///
    /// # Panics
    /// Where it throws.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", &params);
        let failed = answer.get("exceptionDetails");
        assert!(failed.is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Moves the mouse there, in pixels of the window; clicks too if asked.
    pub fn point_at(&mut self, (x, y): (f64, f64), is_click: bool) {
        let kinds = ["mouseMoved", "mousePressed", "mouseReleased"];
        for kind in &kinds[..if is_click { 3 } else { 1 }] {
            let button = if *kind == "mouseMoved" { "none" } else { "left" };
            let event = json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", &event);
        }
        self.settle();
    }

    /// What went wrong since the page was opened: errors of scripts, complaints of the browser, and requests for
    /// anything but the page.
    pub fn complaints(&self, page: &str) -> Vec<String> {
        let complaint = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params.to_string()),
                "Log.entryAdded" => Some(params["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    // A worker's source comes out of the page itself.
                    let is_own = url == page || url.starts_with("blob:");
                    (!is_own).then(|| format!("it asks for {url}"))
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser that closes itself takes its other processes with it.
        let closes = self.commands.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        if closes.is_err() || self.answers.iter().count() == 0 {
            let _ = self.child.kill(); // It is gone already if this fails.
        }
        let _ = self.child.wait();
    }
}
