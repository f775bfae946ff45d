//! The pages of `vramtape compare --html` and, in `view`, of `vramtape view` in a real browser: what they draw is what
//! the command printed.
//!
//! `cargo xtask test` runs this where it finds a Chromium, and says so where it does not. By hand:
//! `VRAMTAPE_BROWSER=chromium cargo test -p cli --test page -- --ignored`.

mod edges;
mod flame;
mod ranks;
mod segments;
mod speedscope;
mod view;

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;
use tests::browser::Browser;

const PROBE: &str = include_str!("probe.js");

/// Coordinates on the page have a digit behind the point.
const ROUNDING_PX: f64 = 0.06;

/// What text has to stand out by, and what lines have to (WCAG 2.1, level AA).
const TEXT_CONTRAST: f64 = 4.5;
const LINE_CONTRAST: f64 = 3.0;

/// A page, and what the command said when it wrote it.
struct Written {
    _folder: TempDir,
    html: String,
    url: String,
    /// How many runs it draws: the recorded one, and the edited one.
    runs: usize,
    /// The rows of all runs, those of one setting together: cells of the printed tables, and reports.
    rows: Vec<(Vec<String>, Value)>,
    /// What holds the recorded run's memory.
    holders: Value,
}

impl Written {
    /// The page of a run in the repository, beside its edited run if there are edits.
    fn new(trace: &str, edits: &[&str]) -> Self {
        let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
        let file = |end: &str| traces.join(format!("{trace}{end}")).to_str().unwrap().to_owned();
        let (run, meta) = (file(".pickle.zst"), file(".json"));
        let folder = tempfile::tempdir().unwrap();
        let within = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (page, edited) = (within("page.html"), within("edited.vtape"));
        let flags: Vec<_> = edits.iter().flat_map(|edit| ["--edit", edit]).collect();
        vramtape(&[&["compare", &run, "--meta", &meta, "--html", &page], &flags[..]].concat());
        let mut tables = vec![table(&["compare", &run, "--meta", &meta])];
        if !edits.is_empty() {
            vramtape(&[&["edit", &run, "--meta", &meta, "-o", &edited], edits].concat());
            let mut rows = table(&["compare", &edited]);
            for (cells, _) in &mut rows {
                cells[1] += ", edited";
            }
            tables.push(rows);
        }
        let (runs, settings) = (tables.len(), tables[0].len());
        let row = |at: usize| tables[at % runs][at / runs].clone();
        let rows = (0..runs * settings).map(row).collect();
        let info: Value = serde_json::from_str(&vramtape(&["info", &run, "--json"])).unwrap();
        let holders = info["devices"][0]["holders"].clone();
        let (html, url) = (fs::read_to_string(&page).unwrap(), format!("file://{page}"));
        Self { _folder: folder, html, url, runs, rows, holders }
    }

    /// What is wrong with the page in a window of this width, in a colour scheme.
    fn problems(&self, browser: &mut Browser, width: u32, scheme: &str) -> Vec<String> {
        browser.open(&self.url, width, scheme);
        let mut problems = browser.complaints(&self.url);
        if problems.is_empty() {
            let seen = browser.evaluate(PROBE);
            problems.extend(self.drawn(&seen));
            problems.extend(self.holders_listed(&seen));
            problems.extend(fits(&seen));
            problems.extend(stands_out(&seen));
            problems.extend(self.answers_to_the_mouse(browser, &seen));
            problems.extend(browser.complaints(&self.url));
        }
        problems.iter().map(|problem| format!("{width} px, {scheme}: {problem}")).collect()
    }

    /// Legend and lines against the report.
    fn drawn(&self, seen: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let rows: Vec<Vec<String>> = list(seen, "rows").map(|row| texts(&row["cells"])).collect();
        let said: Vec<Vec<String>> = self.rows.iter().map(|(cells, _)| cells.clone()).collect();
        if rows != said {
            problems.push(format!("the legend says {rows:?}, the command {said:?}"));
        }
        let axis: Vec<_> = list(seen, "axis").map(|line| (number(line, "y"), line)).collect();
        let [(zero, _), .., (highest, label)] = axis[..] else {
            return vec![format!("an axis of {} lines", axis.len())];
        };
        let per_byte = (highest - zero) / bytes(label["text"].as_str().unwrap());
        let mut compare = |what: String, top: f64, bytes: f64| {
            if (top - (zero + bytes * per_byte)).abs() > ROUNDING_PX {
                problems.push(format!("{what} peaks at {}, not {bytes}", (top - zero) / per_byte));
            }
        };
        let tops = list(seen, "lines").map(|line| number(line, "top"));
        let peaks =
            |key: &str| self.rows.iter().map(|(_, row)| number(row, key)).collect::<Vec<_>>();
        let reserved = peaks("peak_reserved_bytes");
        assert_eq!(tops.clone().count(), reserved.len());
        for (at, (top, bytes)) in tops.zip(reserved).enumerate() {
            compare(format!("line {at}"), top, bytes);
        }
        // What is alive is drawn of each run's first row.
        let live = peaks("peak_live_bytes")[..self.runs].iter().copied().fold(0.0, f64::max);
        compare("what is alive".to_owned(), number(seen, "live_top"), live);
        for (row, line) in list(seen, "rows").zip(list(seen, "lines")) {
            if row["key"] != line["stroke"] || line["is_shown"] != true || row["is_pressed"] != true
            {
                problems.push(format!("{row} is not the key of {line}"));
            }
        }
        problems
    }

    /// A table for the peak and for each out of memory, with the code and the shares of `vramtape info`.
    fn holders_listed(&self, seen: &Value) -> Vec<String> {
        let moments = [&self.holders["peak"]].into_iter().chain(list(&self.holders, "ooms"));
        let moments: Vec<_> = moments.filter(|moment| !moment.is_null()).collect();
        let expected = |moment: &Value| -> Vec<Vec<String>> {
            let row = |row: &Value| {
                let share = number(row, "allocated_bytes") / number(moment, "allocated_bytes");
                let [label, callers] = ["label", "callers"].map(|key| row[key].as_str().unwrap());
                let join = if callers.is_empty() { "" } else { " < " };
                vec![format!("{:.1} %", 100.0 * share), format!("{label}{join}{callers}")]
            };
            list(moment, "rows").map(row).collect()
        };
        let expected: Vec<_> = moments.into_iter().map(expected).collect();
        let mut listed = Vec::new();
        for table in list(seen, "holders") {
            let rows = list(table, "rows").map(|row| texts(row)[1..3].to_vec());
            listed.push(rows.collect::<Vec<_>>());
        }
        if listed == expected {
            return Vec::new();
        }
        vec![format!("the holders are {listed:?}, not {expected:?}")]
    }

    /// Pointing at the chart shows the numbers of a moment; rows highlight and hide their lines.
    fn answers_to_the_mouse(&self, browser: &mut Browser, seen: &Value) -> Vec<String> {
        let mut problems = Vec::new();
        let mut expect = |is_good: bool, what: &str, seen: &Value| {
            if !is_good {
                problems.push(format!("{what}: {seen}"));
            }
        };
        let chart = &seen["chart"];
        let at = |share: f64| {
            let x =
                number(chart, "left") + share * (number(chart, "right") - number(chart, "left"));
            (x, number(chart, "top") + 150.0)
        };
        let rows = self.rows.len();
        for share in [0.3, 0.95] {
            browser.point_at(at(share), false);
            let seen = browser.evaluate(PROBE);
            let tip = &seen["tip"];
            if tip.is_null() {
                return vec!["pointing at the chart says nothing".to_owned()];
            }
            let lines = texts(&tip["lines"]);
            let is_whole = lines.len() == rows + self.runs
                && lines[0].contains("record")
                && self
                    .rows
                    .iter()
                    .zip(&lines[self.runs..])
                    .all(|((cells, _), line)| line.ends_with(&cells[1]));
            expect(is_whole, "what is said of a moment", tip);
            let is_inside = number(tip, "left") >= number(chart, "left") - 1.0
                && number(tip, "right") <= number(chart, "right") + 1.0;
            expect(is_inside, "and where", tip);
        }
        // At the end every line is as high as it ever was, unless memory was given back.
        let end = (number(chart, "right") - 12.5, number(chart, "top") + 150.0);
        browser.point_at(end, false);
        let seen = browser.evaluate(PROBE);
        let values = browser.evaluate("data.rows.map((row) => bytes(row.reserved_bytes.at(-1)))");
        let said = texts(&seen["tip"]["lines"]);
        let is_said = texts(&values)
            .iter()
            .zip(said.iter().skip(self.runs))
            .all(|(value, line)| line.trim().starts_with(value.as_str()));
        expect(is_said && !said.is_empty(), "what is said of the end", &seen["tip"]);

        let second = &seen["rows"][1]["box"];
        let middle = (
            number(second, "left") + 20.0,
            f64::midpoint(number(second, "top"), number(second, "bottom")),
        );
        browser.point_at(middle, false);
        let seen = browser.evaluate(PROBE);
        expect(seen["tip"].is_null(), "what was said stays when the mouse leaves", &seen["tip"]);
        let is_faded = |(at, line): (usize, &Value)| (number(line, "opacity") < 0.5) == (at != 1);
        expect(
            list(&seen, "lines").enumerate().all(is_faded),
            "a row's line stands out",
            &seen["lines"],
        );
        browser.point_at(middle, true);
        let seen = browser.evaluate(PROBE);
        let is_hidden = |(at, line): (usize, &Value)| line["is_shown"] == (at != 1);
        expect(
            list(&seen, "lines").enumerate().all(is_hidden),
            "a click hides a line",
            &seen["lines"],
        );
        expect(seen["rows"][1]["is_pressed"] == false, "and its row says so", &seen["rows"][1]);
        browser.point_at(at(0.5), false);
        let seen = browser.evaluate(PROBE);
        expect(
            texts(&seen["tip"]["lines"]).len() == rows + self.runs - 1,
            "it is not said either",
            &seen["tip"],
        );
        problems
    }
}

/// What the command prints; it has to succeed.
fn vramtape(args: &[&str]) -> String {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("vramtape"));
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of a comparison: their cells as printed, and their reports.
fn table(args: &[&str]) -> Vec<(Vec<String>, Value)> {
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    let text = vramtape(args);
    let rows = text.lines().skip_while(|line| !line.starts_with("---")).skip(1);
    let rows: Vec<Vec<String>> = rows.take_while(|line| !line.is_empty()).map(cells).collect();
    let report: Value = serde_json::from_str(&vramtape(&[args, &["--json"]].concat())).unwrap();
    let reports = report["rows"].as_array().unwrap().clone();
    assert_eq!(rows.len(), reports.len());
    rows.into_iter().zip(reports).collect()
}

/// Nothing is cut off or lies on something else.
fn fits(seen: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    if number(seen, "page_px") > number(seen, "window_px") {
        problems.push(format!("{} wide on {}", seen["page_px"], seen["window_px"]));
    }
    let labels: Vec<_> = list(seen, "labels").collect();
    for (at, label) in labels.iter().enumerate() {
        let within = number(label, "left") >= number(&seen["chart"], "left")
            && number(label, "right") <= number(&seen["chart"], "right") + 1.0
            && number(label, "bottom") <= number(&seen["chart"], "bottom") + 1.0;
        let overlaps = |other: &&&Value| {
            number(label, "left") < number(other, "right")
                && number(other, "left") < number(label, "right")
                && number(label, "top") < number(other, "bottom")
                && number(other, "top") < number(label, "bottom")
        };
        if !within || labels[at + 1..].iter().any(|other| overlaps(&other)) {
            problems.push(format!("a label is cut off, or covered: {label}"));
        }
    }
    problems
}

/// Everything has enough contrast with its background.
fn stands_out(seen: &Value) -> Vec<String> {
    let back = luminance(&seen["back"]);
    let contrast = |color: &Value| {
        let color = luminance(color);
        (color.max(back) + 0.05) / (color.min(back) + 0.05)
    };
    let texts =
        [&seen["ink"], &seen["dim"]].into_iter().chain(list(seen, "labels").map(|l| &l["fill"]));
    let lines = list(seen, "lines").map(|line| &line["stroke"]);
    let wanted =
        texts.map(|text| (text, TEXT_CONTRAST)).chain(lines.map(|line| (line, LINE_CONTRAST)));
    let faint = wanted.filter(|(color, least)| contrast(color) < *least);
    faint.map(|(color, least)| format!("{color} on {} is below {least}", seen["back"])).collect()
}

/// Of `rgb(1, 2, 3)`, as WCAG has it.
fn luminance(color: &Value) -> f64 {
    let text = color.as_str().unwrap();
    let parts = text.trim_start_matches("rgb(").trim_end_matches(')').split(", ");
    let parts: Vec<f64> =
        parts.map(|part| part.parse().unwrap_or_else(|_| panic!("{text}"))).collect();
    let linear = |part: f64| match part / 255.0 {
        low if low <= 0.04045 => low / 12.92,
        high => ((high + 0.055) / 1.055).powf(2.4),
    };
    0.2126 * linear(parts[0]) + 0.7152 * linear(parts[1]) + 0.0722 * linear(parts[2])
}

/// Of `5 GiB`.
fn bytes(text: &str) -> f64 {
    let (number, unit) = text.split_once(' ').unwrap();
    let power = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit).unwrap();
    number.parse::<f64>().unwrap() * 1024_f64.powi(power as i32)
}

fn list<'v>(seen: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> + Clone {
    seen[key].as_array().unwrap_or_else(|| panic!("{key}: {seen}")).iter()
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key}: {value}"))
}

const VIEWS: [(u32, &str); 4] = [(380, "light"), (380, "dark"), (1600, "light"), (1600, "dark")];

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn the_page_shows_what_the_command_printed_on_every_screen() {
    let mut browser = Browser::start();
    for (trace, edits) in [
        ("gpt2_train-default", &[][..]),
        ("resnet50_batchsweep-oom", &[]),
        ("gpt2_train-default", &["scale:0.5", "free-after:0:attention"]),
    ] {
        let page = Written::new(trace, edits);
        let problems = VIEWS.map(|(width, scheme)| page.problems(&mut browser, width, scheme));
        assert!(problems.concat().is_empty(), "{trace}: {:#?}", problems.concat());
    }
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_broken_page_is_noticed() {
    let mut browser = Browser::start();
    let page = Written::new("gpt2_train-default", &[]);
    assert_eq!(page.problems(&mut browser, 1600, "light"), Vec::<String>::new());
    for (good, bad) in [
        ("data.rows.forEach(list);", "data.rows.forEach(lost);"),
        ("data.rows.forEach(list);", "data.rows.slice(1).forEach(list);"),
        ("data.rows.forEach(list);", "data.rows.forEach(list); fetch('https://localhost:9/');"),
        ("<div id=\"tip\">", "<img src=\"https://localhost:9/\"><div id=\"tip\">"),
        ("y(b).toFixed(1)", "y(0.99 * b).toFixed(1)"),
        ("row.efficiency.toFixed(3)", "row.efficiency.toFixed(2)"),
        ("d: path(run, reserved_bytes)", "d: path(run, reserved_bytes.slice(0, 500))"),
        ("svg.addEventListener(\"pointermove\", point_at);", ""),
        ("row.reserved_bytes[at]", "row.reserved_bytes[0]"),
        ("shown[at] = !shown[at]; show();", ""),
        (
            "for (const row of moment.rows) list_holder",
            "for (const row of moment.rows.slice(1)) list_holder",
        ),
        ("--dim: #666c74", "--dim: #a0a4aa"),
        ("h1 { ", "h1 { width: 1700px; "),
    ] {
        assert_eq!(page.html.matches(good).count(), 1, "{good}");
        fs::write(page.url.trim_start_matches("file://"), page.html.replace(good, bad)).unwrap();
        let problems = page.problems(&mut browser, 1600, "light");
        assert!(!problems.is_empty(), "`{bad}` is not noticed");
    }
}
