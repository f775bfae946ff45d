//! Waste and strategies over time on the page: they show what `vramtape waste` and `vramtape compare` print.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use tests::browser::Browser;

use super::view::press;
use super::{number, vramtape};

/// Waits until the plot of the shown tab is decoded and drawn.
const DRAWN: &str = "new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const { view } = vramtape.state();
        const is_drawn = document.querySelector(view === 'waste' ? '#waste-parts tr' : '#strategy-rows tr') !== null;
        if (!is_drawn && performance.now() - begun < 5000) { setTimeout(look, 10); return; }
        requestAnimationFrame(() => requestAnimationFrame(() => done(is_drawn)));
    };
    look();
})";

/// What a person sees, with the pixels of each row's colour in the plot.
const SEEN: &str = "(() => {
    const { view } = vramtape.state();
    const drawn = document.querySelector(`#${view}-plot canvas`);
    const copy = Object.assign(document.createElement('canvas'), { width: drawn.width, height: drawn.height });
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(drawn, 0, 0);
    const { data } = context.getImageData(0, 0, copy.width, copy.height);
    const pixels = (colour) => {
        const [r, g, b] = colour.match(/\\d+/g).map(Number);
        let count = 0;
        for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return count;
    };
    const rows = [...document.querySelectorAll(view === 'waste' ? '#waste-parts tr' : '#strategy-rows tr')];
    return {
        rows: rows.map((row) => ({
            cells: [...row.cells].map((cell) => cell.textContent),
            pixels: pixels(getComputedStyle(row.querySelector('.swatch, .key')).backgroundColor),
        })),
        summary: document.getElementById('strategies-summary').textContent,
        note: document.getElementById(`${view}-note`).textContent,
        page_px: document.documentElement.scrollWidth, window_px: innerWidth,
    };
})()";

/// A page of `compare`, and what the commands print about the same run.
struct Written {
    _folder: TempDir,
    page: PathBuf,
    html: String,
    /// The rows of all runs, those of one setting together: cells of the printed tables, and reports.
    rows: Vec<(Vec<String>, Value)>,
    /// The output of `waste`.
    waste: Value,
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
        let waste = vramtape(&["waste", &run, "--meta", &meta, "--json", "--points", "1000"]);
        let waste = serde_json::from_str(&waste).unwrap();
        let (html, page) = (fs::read_to_string(&page).unwrap(), PathBuf::from(page));
        Self { _folder: folder, page, html, rows, waste }
    }

    /// What is wrong with the page in a window of this width, in a colour scheme.
    fn problems(&self, browser: &mut Browser, width: u32, scheme: &str) -> Vec<String> {
        let url = format!("file://{}", self.page.display());
        browser.open(&url, width, scheme);
        let mut problems = browser.complaints(&url);
        if browser.evaluate("typeof vramtape") != "object" {
            problems.push("the page has not started".to_owned());
            return problems;
        }
        for (view, check) in [
            ("waste", Self::shows_waste as fn(&Self, &mut Browser) -> Vec<String>),
            ("strategies", Self::shows_strategies),
        ] {
            browser.evaluate(&format!("(vramtape.setView('{view}'), 0)"));
            if browser.evaluate(DRAWN) != true {
                problems.push(format!("no {view}"));
                continue;
            }
            problems.extend(check(self, browser));
            let seen = browser.evaluate(SEEN);
            if number(&seen, "page_px") > number(&seen, "window_px") {
                problems.push(format!("{view} is {} px wide", seen["page_px"]));
            }
        }
        problems.extend(browser.complaints(&url));
        problems.iter().map(|problem| format!("{width} px, {scheme}: {problem}")).collect()
    }

    /// Every sample of the series is on the page, and the table has the parts of the peak.
    fn shows_waste(&self, browser: &mut Browser) -> Vec<String> {
        let mut problems = Vec::new();
        let series = self.waste["series"].as_array().unwrap();
        let moments: Vec<u64> =
            series.iter().map(|sample| sample["after_records"].as_u64().unwrap()).collect();
        let shown =
            browser.evaluate(&format!("{moments:?}.map((moment) => vramtape.waste(moment))"));
        for (sample, shown) in series.iter().zip(shown.as_array().unwrap()) {
            let differs = |(name, bytes): (&String, &Value)| {
                let key = format!("{}_bytes", name.replace(" and ", "_").replace(' ', "_"));
                (sample[&key] != *bytes).then(|| format!("{name} is {bytes} of {sample}"))
            };
            if shown["reserved_bytes"] != sample["reserved_bytes"] {
                problems.push(format!("{} reserved of {sample}", shown["reserved_bytes"]));
            }
            let parts = shown["parts"].as_object().into_iter().flatten();
            problems.extend(parts.filter_map(differs));
        }
        problems.truncate(3);
        let seen = browser.evaluate(SEEN);
        let rows = seen["rows"].as_array().unwrap();
        let peak = number(&self.waste["peak"], "reserved_bytes");
        let sum: f64 = rows.iter().map(|row| super::bytes(row["cells"][1].as_str().unwrap())).sum();
        if rows.len() != 9 || (sum / peak - 1.0).abs() > 2e-3 {
            problems.push(format!("{} parts add up to {sum}, not {peak}", rows.len()));
        }
        // The largest part covers most of the plot's stack.
        if number(&rows[0], "pixels") < 1000.0 {
            problems.push(format!("requested bytes are not drawn: {}", rows[0]));
        }
        problems
    }

    /// The table is the printed one, every line reaches its peak, and a click hides a line.
    fn shows_strategies(&self, browser: &mut Browser) -> Vec<String> {
        let mut problems = Vec::new();
        let seen = browser.evaluate(SEEN);
        let cells = |row: &Value| {
            let cells = row["cells"].as_array().unwrap().iter().enumerate();
            // The first is the line's key, and the fifth the value at the cursor.
            let cells = cells.filter(|(at, _)| ![0, 4].contains(at));
            cells.map(|(_, cell)| cell.as_str().unwrap().replace(',', "")).collect::<Vec<_>>()
        };
        let rows: Vec<Vec<String>> = seen["rows"].as_array().unwrap().iter().map(cells).collect();
        let printed = |(cells, _): &(Vec<String>, Value)| -> Vec<String> {
            cells.iter().map(|cell| cell.replace(',', "")).collect()
        };
        let printed: Vec<_> = self.rows.iter().map(printed).collect();
        if rows != printed {
            problems.push(format!("the rows are {rows:?}, the command prints {printed:?}"));
        }
        let most = browser.evaluate(
            "Array.from({ length: vramtape.state().end }, (_, moment) => moment).filter((moment) => moment % 7 === 0)
                .map((moment) => vramtape.strategies(moment).map((row) => row.reserved_bytes))
                .reduce((most, row) => most.map((bytes, at) => Math.max(bytes, row[at])))",
        );
        let peaks: Vec<_> =
            self.rows.iter().map(|(_, row)| row["peak_reserved_bytes"].clone()).collect();
        if most != json!(peaks) {
            problems.push(format!("the lines reach {most}, not {peaks:?}"));
        }
        let pixels = |seen: &Value| number(&seen["rows"][0], "pixels");
        let before = pixels(&seen);
        if before < 50.0 {
            problems.push("the recorded settings are not drawn".to_owned());
        }
        let click = "(document.querySelector('#strategy-rows tr').click(), 0)";
        browser.evaluate(click);
        browser.evaluate(DRAWN);
        // The edited run of the same settings has the same colour.
        let is_alone = rows.iter().all(|cells| !cells[1].ends_with(" edited"));
        // Where other lines touch, their mixed colours can be this one.
        if is_alone && pixels(&browser.evaluate(SEEN)) > before / 10.0 {
            problems.push(format!(
                "a click leaves {} of {before} pixels",
                pixels(&browser.evaluate(SEEN))
            ));
        }
        browser.evaluate(click);
        press(browser, ".");
        let seen = browser.evaluate(SEEN);
        let here = seen["rows"][0]["cells"][4].as_str().unwrap_or_default().to_owned();
        let note = seen["note"].as_str().unwrap_or_default();
        if !here.ends_with('B') || !note.starts_with("moment ") {
            problems.push(format!("the cursor shows {here:?} and {note:?}"));
        }
        let summary = seen["summary"].as_str().unwrap_or_default();
        if !summary.starts_with("peak live ") {
            problems.push(format!("the summary is {summary:?}"));
        }
        problems
    }

    /// The page with one place of its text replaced.
    fn broken(&self, good: &str, bad: &str) {
        assert!(self.html.contains(good), "{good}");
        fs::write(&self.page, self.html.replacen(good, bad, 1)).unwrap();
    }
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

const VIEWS: [(u32, &str); 4] = [(380, "dark"), (380, "light"), (1280, "dark"), (2560, "light")];

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn plots_show_what_the_commands_print_on_every_screen() {
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
fn a_broken_plot_is_noticed() {
    let mut browser = Browser::start();
    let page = Written::new("gpt2_train-default", &[]);
    assert_eq!(page.problems(&mut browser, 1280, "light"), Vec::<String>::new());
    for (good, bad) in [
        ("id=\"d0/plots/waste\">", "id=\"lost\">"),
        ("id=\"d0/plots/strategies\">", "id=\"lost\">"),
        ("id=\"d0/plots/waste\">H4sI", "id=\"d0/plots/waste\">H4sJ"),
        ("\"plots\":[\"waste\",\"strategies\"]", "\"plots\":[]"),
        ("toFixed(3)", "toFixed(2)"),
        ("<div class=\"scroll\">", "<div>"),
    ] {
        page.broken(good, bad);
        let width = if good.contains("scroll") { 380 } else { 1280 };
        let problems = page.problems(&mut browser, width, "light");
        assert!(!problems.is_empty(), "`{bad}` is not noticed");
    }
}
