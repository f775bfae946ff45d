//! The page of `vramtape view` in a real browser: what it shows is what the records say.

use std::fs;
use std::path::{Path, PathBuf};

use replay::tape::Tape;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::browser::Browser;
use trace_format::State;

use super::{flame, number, segments, table, vramtape};

/// Waits for the first picture with data, until no chunk is awaited and the groups are listed.
pub(super) const READY: &str = "new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const is_ready = document.documentElement.dataset.ready === '1' && vramtape.state().waiting === 0
            && document.querySelector('#groups tr') !== null;
        if (is_ready || performance.now() - begun > 5000) done(is_ready); else setTimeout(look, 10);
    };
    look();
})";

/// Waits until the picture of the window that was asked for is drawn in full.
pub(super) const DRAWN: &str = "new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const { from, to, drawn, waiting } = vramtape.state();
        const is_drawn = drawn !== null && waiting === 0 && drawn.from === from && drawn.to === to;
        if (is_drawn || performance.now() - begun > 5000) done(is_drawn); else setTimeout(look, 10);
    };
    requestAnimationFrame(() => requestAnimationFrame(look));
})";

/// What a person sees.
pub(super) const SEEN: &str = "(() => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent.trim());
    const small = [...document.querySelectorAll('body *')].filter((element) =>
        [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '')
        && element.checkVisibility() && parseFloat(getComputedStyle(element).fontSize) < 11);
    return {
        title: document.title, run: texts('#run')[0], figures: texts('#figures dt, #figures dd'),
        faults: texts('#faults:not([hidden])'), detail: texts('#detail')[0], peak: texts('#peak')[0],
        groups: texts('#groups tr td:first-child, #groups tr th:first-child'),
        page_px: document.documentElement.scrollWidth, window_px: innerWidth,
        small: small.map((element) => element.outerHTML.slice(0, 80)),
        stack_pixels: vramtape.state().stack_pixels, chart: vramtape.state().plot,
    };
})()";

/// A page, and the records that it was made of.
pub(super) struct Viewed {
    _folder: TempDir,
    page: PathBuf,
    html: String,
    /// Of the file, or of a server that has the same page.
    pub(super) url: String,
    /// Allocated and reserved bytes at each moment.
    allocated: Vec<u64>,
    reserved: Vec<u64>,
}

impl Viewed {
    pub(super) fn new(trace: &str) -> Self {
        let run = snapshot(trace);
        let tape = Tape::open(&run, &replay::import::RunLimits::default()).unwrap();
        let device = &tape.devices[0];
        let mut state = State::from_base(&device.base).unwrap();
        let mut allocated = vec![state.allocated_bytes()];
        let mut reserved = vec![state.reserved_bytes()];
        for record in &device.records {
            state.apply(record).unwrap();
            allocated.push(state.allocated_bytes());
            reserved.push(state.reserved_bytes());
        }
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        vramtape(&["view", run.to_str().unwrap(), "-o", page.to_str().unwrap()]);
        let html = fs::read_to_string(&page).unwrap();
        let url = format!("file://{}", page.display());
        Self { _folder: folder, page, html, url, allocated, reserved }
    }

    fn peak(&self) -> (usize, u64) {
        let most = *self.allocated.iter().max().unwrap();
        (self.allocated.iter().position(|bytes| *bytes == most).unwrap(), most)
    }

    /// What is wrong with the page in a window of this size, in a colour scheme.
    pub(super) fn problems(&self, browser: &mut Browser, width: u32, scheme: &str) -> Vec<String> {
        browser.open(&self.url, width, scheme);
        let mut problems = Vec::new();
        if browser.evaluate(&format!("typeof vramtape === 'object' && {READY}")) == true {
            let seen = browser.evaluate(SEEN);
            problems.extend(self.sees(&seen));
            problems.extend(self.stacks_are_exact(browser));
            problems.extend(Self::keys_move_the_window(browser));
            problems.extend(self.maps_are_exact(browser));
            problems.extend(segments::problems(&self.allocated, &self.reserved, browser));
            problems.extend(flame::problems(&self.allocated, browser));
            problems.extend(table::problems(&self.allocated, &self.reserved, browser));
        } else {
            problems.push("no picture".to_owned());
        }
        problems.extend(complaints(browser, &self.url));
        problems.iter().map(|problem| format!("{width} px, {scheme}: {problem}")).collect()
    }

    fn sees(&self, seen: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let mut expect = |is_good: bool, what: &str, found: &Value| {
            if !is_good {
                problems.push(format!("{what}: {found}"));
            }
        };
        let (peak_moment, peak) = self.peak();
        let most_reserved = *self.reserved.iter().max().unwrap();
        let is_shown = |text: &Value, bytes: u64| {
            let words: Vec<&str> = text.as_str().unwrap_or_default().split(' ').collect();
            let shown = words.windows(2).filter(|pair| pair[1].ends_with("iB"));
            let mut shown = shown.map(|pair| super::bytes(&pair.join(" ")));
            shown.any(|shown| (shown / bytes as f64 - 1.0).abs() < 1e-3)
        };
        let moment = grouped(peak_moment);
        let [allocated, at, reserved] = [1, 2, 4].map(|place| &seen["figures"][place]);
        expect(is_shown(allocated, peak), "the allocated peak", allocated);
        expect(is_shown(reserved, most_reserved), "the reserved peak", reserved);
        expect(at == &json!(format!("at moment {moment}")), "its moment", at);
        let line = &seen["peak"];
        expect(is_shown(line, peak), "the peak in view", line);
        expect(line.to_string().contains(&format!("moment {moment} ")), "its moment", line);
        expect(seen["faults"] == json!([]), "faults", &seen["faults"]);
        expect(seen["small"] == json!([]), "text below 11 px", &seen["small"]);
        expect(number(seen, "page_px") <= number(seen, "window_px"), "too wide", &seen["page_px"]);
        expect(seen["groups"].as_array().is_some_and(|it| !it.is_empty()), "no groups", seen);
        let detail = seen["detail"].as_str().unwrap_or_default();
        expect(detail.starts_with("Exact:"), "the level of detail is stated", &seen["detail"]);
        let (width, height) = (number(&seen["chart"], "width"), number(&seen["chart"], "height"));
        let mean = self.allocated.iter().sum::<u64>() as f64 / self.allocated.len() as f64;
        let filled = number(seen, "stack_pixels") / (width * height);
        // The axis ends a little above the most that is reserved.
        let expected = mean / most_reserved as f64;
        expect(
            filled > 0.7 * expected && filled < 1.4 * expected,
            &format!("pixels of the stack, about {expected:.2} of the chart"),
            &json!(filled),
        );
        problems
    }

    /// Stacks at moments of the whole run and of a part add up to the allocated bytes, group by group and block by
    /// block.
    fn stacks_are_exact(&self, browser: &mut Browser) -> Vec<String> {
        let mut problems = Vec::new();
        let moments = self.allocated.len();
        for (from, to) in [(0, moments), (moments / 3, moments / 3 + 40), (moments - 20, moments)] {
            let drawn = format!("(vramtape.setWindow({from}, {to}), {DRAWN})");
            if browser.evaluate(&drawn) != true {
                problems.push(format!("no picture of {from} to {to}"));
                continue;
            }
            for fraction in [0.0, 0.21, 0.5, 0.77, 0.999] {
                let stack = browser.evaluate(&format!("vramtape.columnAt({fraction})"));
                let moment = number(&stack, "moment") as usize;
                let sum = |key: &str, bytes: &str| -> f64 {
                    let all = stack[key].as_array().into_iter().flatten();
                    all.map(|one| number(one, bytes)).sum()
                };
                let expected = self.allocated[moment] as f64;
                let about = from as f64 + fraction * (to - from) as f64;
                let width = (to - from) as f64 / 200.0 + 1.0;
                if (moment as f64 - about).abs() > width {
                    problems
                        .push(format!("column {fraction} of {from} to {to} is moment {moment}"));
                }
                let reserved = self.reserved[moment] as f64;
                if number(&stack, "reserved_most_bytes") < reserved {
                    problems.push(format!("moment {moment}: reserved {stack}, not {reserved}"));
                }
                let found = [
                    number(&stack, "allocated_bytes"),
                    sum("groups", "bytes"),
                    sum("blocks", "size_bytes"),
                ];
                if found.iter().any(|found| (found - expected).abs() > 0.0) {
                    problems.push(format!("moment {moment}: {found:?}, not {expected}"));
                }
            }
        }
        problems
    }

    /// The address map of moments has the bytes of the records, and what it does not use is holes.
    fn maps_are_exact(&self, browser: &mut Browser) -> Vec<String> {
        let mut problems = Vec::new();
        let last = self.allocated.len() - 1;
        for moment in [0, 1, self.peak().0, last / 2, last] {
            let asked = format!("(vramtape.setMoment({moment}), vramtape.map())");
            let map = browser.evaluate(&asked);
            if map.is_null() {
                problems.push(format!("no map of moment {moment}"));
                continue;
            }
            let [at, reserved, allocated] =
                ["moment", "reserved_bytes", "allocated_bytes"].map(|key| number(&map, key));
            let expected =
                [moment as f64, self.reserved[moment] as f64, self.allocated[moment] as f64];
            let differs = [at, reserved, allocated].into_iter().zip(expected);
            if differs.into_iter().any(|(found, expected)| (found - expected).abs() > 0.0) {
                problems.push(format!("the map of moment {moment} is {map}, not {expected:?}"));
            }
            let (holes, largest) = (number(&map, "holes"), number(&map, "largest_hole_bytes"));
            let free = reserved - allocated;
            if largest > free || (holes > 0.0) != (free > 0.0) || holes * largest < free {
                problems.push(format!("holes of moment {moment}: {map}, {free} bytes are free"));
            }
        }
        problems
    }

    fn keys_move_the_window(browser: &mut Browser) -> Vec<String> {
        let mut problems = Vec::new();
        let length = |browser: &mut Browser| {
            let state = browser.evaluate("vramtape.state()");
            (number(&state, "from"), number(&state, "to"))
        };
        press(browser, "0");
        browser.evaluate(DRAWN);
        let whole = length(browser);
        for _ in 0..4 {
            press(browser, "+");
        }
        browser.evaluate(DRAWN);
        let (from, to) = length(browser);
        if to - from > 0.7 * (whole.1 - whole.0) {
            problems.push(format!("+ shows {from} to {to}"));
        }
        press(browser, "d");
        browser.evaluate(DRAWN);
        let (moved, end) = length(browser);
        if moved <= from || ((end - moved) - (to - from)).abs() > 1.0 {
            problems.push(format!("d moves {from} to {moved}"));
        }
        press(browser, "0");
        browser.evaluate(DRAWN);
        if length(browser) != whole {
            problems.push("0 does not show the whole run".to_owned());
        }
        problems
    }

    /// The page with one place of its text replaced.
    fn broken(&self, good: &str, bad: &str) {
        assert!(self.html.contains(good), "{good}");
        fs::write(&self.page, self.html.replacen(good, bad, 1)).unwrap();
    }

    /// The text of a chunk's element, from its id to its end.
    fn element(&self, id: &str) -> &str {
        let begin = self.html.find(&format!("id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}"));
        let end = begin + self.html[begin..].find("</script>").unwrap();
        &self.html[begin..end]
    }
}

/// A recorded run in the repository.
pub(super) fn snapshot(trace: &str) -> PathBuf {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    traces.join(format!("{trace}.pickle.zst"))
}

/// As the browser has them; a page from a server may ask for its chunks.
pub(super) fn complaints(browser: &Browser, url: &str) -> Vec<String> {
    let of_chunk = format!("it asks for {url}chunk/");
    let complaints = browser.complaints(url).into_iter();
    complaints.filter(|it| !it.starts_with(&of_chunk)).collect()
}

/// Presses a key.
pub(super) fn press(browser: &mut Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        // A button takes Enter as the text that it writes; arrows write none.
        let text = match key {
            "Enter" => "\r",
            key if key.len() == 1 => key,
            _ => "",
        };
        let text = if kind == "keyDown" { text } else { "" };
        let event = json!({ "type": kind, "key": key, "text": text });
        browser.call("Input.dispatchKeyEvent", &event);
    }
    browser.settle();
}

/// Waits until a condition that needs an answer of the page's worker holds, or for 5 s: the caller's check fails then.
pub(super) fn wait_until(browser: &mut Browser, condition: &str) {
    browser.evaluate(&format!(
        "new Promise((done) => {{
            const end = performance.now() + 5000;
            const is_over = () => ({condition}) || performance.now() > end;
            const check = () => is_over() ? done(0) : requestAnimationFrame(check);
            check();
        }})"
    ));
}

/// Shows a view by the digit of its tab.
pub(super) fn show(browser: &mut Browser, tab: &str) {
    let places =
        "[...document.querySelectorAll('[role=tab]:not([hidden])')].map((tab) => tab.dataset.tab)";
    let digit = browser.evaluate(&format!("{places}.indexOf('{tab}') + 1"));
    press(browser, &digit.to_string());
    assert_eq!(browser.evaluate("vramtape.state().view"), tab);
}

/// 12,345.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let places = digits.chars().rev().enumerate();
    let with = places
        .flat_map(|(at, digit)| (at > 0 && at % 3 == 0).then_some(',').into_iter().chain([digit]));
    with.collect::<Vec<_>>().into_iter().rev().collect()
}

const VIEWS: [(u32, &str); 6] = [
    (380, "light"),
    (380, "dark"),
    (1280, "light"),
    (1280, "dark"),
    (2560, "light"),
    (2560, "dark"),
];

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn the_page_shows_the_records_on_every_screen() {
    let mut browser = Browser::start();
    for trace in ["gpt2_train-default", "resnet50_batchsweep-oom", "cudagraph_pools-expandable"] {
        let page = Viewed::new(trace);
        let problems = VIEWS.map(|(width, scheme)| page.problems(&mut browser, width, scheme));
        assert!(problems.concat().is_empty(), "{trace}: {:#?}", problems.concat());
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_broken_view_is_noticed() {
    let mut browser = Browser::start();
    let page = Viewed::new("gpt2_train-default");
    assert_eq!(page.problems(&mut browser, 1280, "light"), Vec::<String>::new());
    let (_, peak) = page.peak();
    let lives = page.element("d0/lives/0/0").to_owned();
    let series = page.element("d0/series/0/0").to_owned();
    let kinds = page.element("d0/kinds").to_owned();
    let ranges = page.element("d0/ranges").to_owned();
    for (good, bad) in [
        (format!("\"allocated_bytes\":{peak}"), format!("\"allocated_bytes\":{}", peak / 2)),
        (lives.clone(), "id=\"lost\">".to_owned()),
        (lives.clone(), lives[..lives.len() / 2].to_owned()),
        (series.clone(), "id=\"lost\">".to_owned()),
        (series.clone(), format!("{}AAAA", &series[..series.len() / 8 * 4])),
        (kinds.clone(), "id=\"lost\">".to_owned()),
        (ranges.clone(), "id=\"lost\">".to_owned()),
        (kinds.clone(), kinds.replacen("H4sI", "H4sJ", 1)),
        ("</main>".to_owned(), "</main><script>window.late = 1</script>".to_owned()),
        ("</main>".to_owned(), "<img src=\"https://localhost:9/\"></main>".to_owned()),
        (
            "<main id=\"app\">".to_owned(),
            "<main id=\"app\"><p><font size=\"1\">small</font></p>".to_owned(),
        ),
        ("\"moments\":12907".to_owned(), "\"moments\":6000".to_owned()),
        ("\"version\":1".to_owned(), "\"version\":2".to_owned()),
    ] {
        page.broken(&good, &bad);
        let problems = page.problems(&mut browser, 1280, "light");
        assert!(!problems.is_empty(), "`{bad:.80}` is not noticed");
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_view_whose_worker_cannot_start_shows_the_same() {
    let mut browser = Browser::start();
    let page = Viewed::new("gpt2_train-default");
    let without = json!({ "source": "delete window.Worker" });
    browser.call("Page.addScriptToEvaluateOnNewDocument", &without);
    assert_eq!(page.problems(&mut browser, 1280, "light"), Vec::<String>::new());
    assert_eq!(browser.evaluate("vramtape.state().is_in_page"), true);
}
