//! The explanation on the page of `vramtape explain --html`: it shows what the command prints, and the pinning set lies
//! in its segments.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::browser::Browser;

use super::view::press;
use super::{number, vramtape};

/// Waits until the explanation is decoded and drawn.
const DRAWN: &str = "new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const is_drawn = document.querySelector('#explain-segments canvas') !== null;
        if (!is_drawn && performance.now() - begun < 5000) { setTimeout(look, 10); return; }
        requestAnimationFrame(() => requestAnimationFrame(() => done(is_drawn)));
    };
    look();
})";

/// What a person sees, with the share of each segment's bar that is in the colour of the pinning set.
const SEEN: &str = "(() => {
    const text = (id) => document.getElementById(id).textContent;
    const cells = (id) => [...document.querySelectorAll(`#${id} tr`)]
        .map((row) => [...row.cells].map((cell) => cell.title || cell.textContent));
    const [r, g, b] = getComputedStyle(document.querySelector('.keys .pinning'), '::before').backgroundColor
        .match(/\\d+/g).map(Number);
    const share = (canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, 1);
        let count = 0;
        for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return count / canvas.width;
    };
    return {
        view: vramtape.state().view,
        heading: text('explain-heading'),
        pinning: text('explain-pinning'),
        arithmetic: cells('explain-arithmetic'),
        blocks: cells('explain-blocks'),
        remedies: [...document.querySelectorAll('#explain-remedies li')].map((item) => item.textContent),
        shares: [...document.querySelectorAll('#explain-segments canvas')].map(share),
        labels: [...document.querySelectorAll('#explain-segments p')].map((label) => label.textContent),
        is_pinning_shown: document.getElementById('explain-pinning').offsetParent !== null,
        page_px: document.documentElement.scrollWidth, window_px: innerWidth,
    };
})()";

/// A page, and what the command prints about the same moment.
struct Written {
    _folder: TempDir,
    page: PathBuf,
    html: String,
    explanation: Value,
}

impl Written {
    fn new(trace: &str, flags: &[&str]) -> Self {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
        let run = traces.join(format!("{trace}.pickle.zst")).to_str().unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        let args = [&["explain", &run, "--json", "--html", page.to_str().unwrap()], flags].concat();
        let explanation = serde_json::from_str(&vramtape(&args)).unwrap();
        let html = fs::read_to_string(&page).unwrap();
        Self { _folder: folder, page, html, explanation }
    }

    /// What is wrong with the page in a window of this width, in a colour scheme.
    fn problems(&self, browser: &mut Browser, width: u32, scheme: &str) -> Vec<String> {
        let url = format!("file://{}", self.page.display());
        browser.open(&url, width, scheme);
        let mut problems = browser.complaints(&url);
        if browser.evaluate("typeof vramtape") != "object" || browser.evaluate(DRAWN) != true {
            problems.push("the explanation is not drawn".to_owned());
            return problems;
        }
        let seen = browser.evaluate(SEEN);
        problems.extend(self.differences(&seen));
        if number(&seen, "page_px") > number(&seen, "window_px") {
            problems.push(format!("the page is {} px wide", seen["page_px"]));
        }
        // To the address map at the same moment, and back by the keyboard.
        browser.evaluate("(document.getElementById('explain-show').focus(), 0)");
        press(browser, "Enter");
        let state = browser.evaluate("vramtape.state()");
        if state["view"] != "map" || state["moment"] != self.explanation["moment"]["after_records"]
        {
            problems.push(format!("the button shows {} at {}", state["view"], state["moment"]));
        }
        let key = browser.evaluate("document.getElementById('tab-explain').title.match(/\\d/)[0]");
        press(browser, key.as_str().unwrap());
        if browser.evaluate("vramtape.state().view") != "explain" {
            problems.push(format!("the key {key} does not show the explanation"));
        }
        problems.extend(browser.complaints(&url));
        problems.iter().map(|problem| format!("{width} px, {scheme}: {problem}")).collect()
    }

    /// What the page shows otherwise than the command.
    fn differences(&self, seen: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let oom = &self.explanation["oom"];
        let mut check = |what: &str, found: &Value, expected: &Value| {
            if found != expected {
                problems.push(format!("{what}: {found}, not {expected}"));
            }
        };
        check("view", &seen["view"], &json!("explain"));
        if oom.is_null() {
            check("heading", &seen["heading"], &json!("No request is refused at the peak."));
            check("pinning", &seen["is_pinning_shown"], &json!(false));
            return problems;
        }
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let heading = format!("{}: {}", text(&oom["verdict"]), text(&oom["why"]));
        check("heading", &seen["heading"], &json!(heading));
        let remedies: Vec<_> =
            oom["remedies"].as_array().unwrap().iter().map(|remedy| &remedy["text"]).collect();
        check("remedies", &seen["remedies"], &json!(remedies));
        // Of `1.00 GiB (1,073,741,824 bytes)`.
        let plain = |cell: &Value| {
            let cell = text(cell);
            let exact = cell.rsplit('(').next().unwrap_or_default();
            exact.chars().filter(char::is_ascii_digit).collect::<String>()
        };
        let shown: Vec<_> = seen["arithmetic"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| json!([row[0], plain(&row[1])]))
            .collect();
        let steps = oom["arithmetic"].as_array().unwrap().iter();
        let steps: Vec<_> =
            steps.map(|step| json!([step["name"], step["bytes"].to_string()])).collect();
        check("arithmetic", &json!(shown), &json!(steps));
        let set = &oom["pinning"];
        let blocks = set["blocks"].as_array().unwrap();
        check("pinning", &seen["is_pinning_shown"], &json!(true));
        check(
            "blocks",
            &json!(seen["blocks"].as_array().unwrap().len()),
            &json!(blocks.len().min(100)),
        );
        // Each segment with a part of the set has its colour, and no other has.
        let shares: Vec<f64> =
            seen["shares"].as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect();
        let labels = seen["labels"].as_array().unwrap().iter();
        let pinned: Vec<bool> = labels.map(|label| text(label).contains("pinning set")).collect();
        let is_drawn: Vec<bool> = shares.iter().map(|share| *share > 0.0).collect();
        check("segments with the set", &json!(is_drawn), &json!(pinned));
        check("a segment has the set", &json!(pinned[0]), &json!(true));
        problems
    }
}

const VIEWS: [(u32, &str); 4] = [(380, "dark"), (380, "light"), (1280, "dark"), (2560, "light")];

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn an_explanation_is_what_the_command_prints_on_every_screen() {
    let mut browser = Browser::start();
    for (trace, flags) in [
        ("fragmentation_exercise-default", &["--capacity", FRAGMENTED][..]),
        ("resnet50_batchsweep-oom", &[]),
        ("gpt2_train-default", &[]),
    ] {
        let page = Written::new(trace, flags);
        let problems = VIEWS.map(|(width, scheme)| page.problems(&mut browser, width, scheme));
        assert!(problems.concat().is_empty(), "{trace}: {:#?}", problems.concat());
    }
}

/// A device on which the exercise is out of memory by fragmentation.
const FRAGMENTED: &str = "480MiB";

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_broken_explanation_is_noticed() {
    let mut browser = Browser::start();
    let page = Written::new("fragmentation_exercise-default", &["--capacity", FRAGMENTED]);
    assert_eq!(page.problems(&mut browser, 1280, "light"), Vec::<String>::new());
    for (good, bad) in [
        ("id=\"d0/plots/explain\">", "id=\"lost\">"),
        ("id=\"d0/plots/explain\">H4sI", "id=\"d0/plots/explain\">H4sJ"),
        ("\"plots\":[\"waste\",\"explain\"]", "\"plots\":[\"waste\"]"),
        ("id=\"explain-remedies\"", "id=\"explain-lost\""),
        ("--alarm: #d22f3d", "--alarm: #97a9bd"),
    ] {
        assert!(page.html.contains(good), "{good}");
        fs::write(&page.page, page.html.replacen(good, bad, 1)).unwrap();
        let problems = page.problems(&mut browser, 1280, "light");
        assert!(!problems.is_empty(), "`{bad}` is not noticed");
    }
}
