//! The table of a page: its sums are the bytes of the records, and keys alone sort, search and reach every row.

use std::path::Path;

use serde_json::Value;
use tests::browser::Browser;

use super::view::{press, show, wait_until};
use super::vramtape;

/// What a person sees of the table, once the rows in view are there.
const SEEN: &str = "vramtape.table().then((reply) => {
    const texts = (selector) => [...document.querySelectorAll(selector)].map((element) => element.textContent);
    const box = document.getElementById('table-scroll').getBoundingClientRect();
    const rows = [...document.querySelectorAll('#rows-body tr')];
    const visible = rows.filter((row) => {
        const { top, bottom } = row.getBoundingClientRect();
        return top >= box.top && bottom <= box.bottom;
    });
    const small = [...document.querySelectorAll('#table *, #table-note')].filter((element) =>
        [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim() !== '')
        && element.checkVisibility() && parseFloat(getComputedStyle(element).fontSize) < 11);
    return {
        reply, count: texts('#table-count')[0], found: texts('#found')[0], error: texts('#found.error').length,
        rows: rows.length, visible: visible.length,
        at: document.querySelector('#rows-body .at')?.getAttribute('aria-rowindex') ?? null,
        at_is_visible: visible.some((row) => row.classList.contains('at')),
        rowcount: document.getElementById('rows-table').getAttribute('aria-rowcount'),
        sorted: [...document.querySelectorAll('#rows-head th')].map((cell) => cell.getAttribute('aria-sort')),
        cells: texts('#rows-body tr:first-child td'), lit: document.querySelectorAll('#rows-body .lit').length,
        pinned: document.getElementById('pinned').hidden ? null : texts('#pinned')[0],
        page_px: document.documentElement.scrollWidth, window_px: innerWidth,
        small: small.map((element) => element.outerHTML.slice(0, 80)),
    };
})";

/// Shows other rows.
fn select(browser: &mut Browser, rows: &str) -> Value {
    let field = "document.getElementById('table-rows')";
    let chosen = format!("({field}.value = '{rows}', {field}.dispatchEvent(new Event('change')))");
    browser.evaluate(&format!("({chosen}, {SEEN})"))
}

fn search(browser: &mut Browser, query: &str) -> Value {
    let field = "document.getElementById('search')";
    let typed = format!("({field}.value = '{query}', {field}.dispatchEvent(new Event('input')))");
    browser.evaluate(&format!("({typed}, {SEEN})"))
}

/// A number of a page that may be broken, then -1.
fn whole(value: &Value, key: &str) -> i64 {
    value[key].as_f64().map_or(-1, |number| number as i64)
}

/// The sum of a column, as the page has it; -1 if it has none.
fn sum(seen: &Value, key: &str) -> i64 {
    let reply = &seen["reply"];
    let heads = reply["heads"].as_array().into_iter().flatten();
    let place = heads.clone().position(|head| head["key"] == key);
    place.map_or(-1, |place| reply["sums"][place].as_f64().map_or(0, |sum| sum as i64))
}

/// What is wrong with the table, given the bytes at each moment. The tab is shown, and left at the end.
pub(super) fn problems(allocated: &[u64], reserved: &[u64], browser: &mut Browser) -> Vec<String> {
    show(browser, "table");
    let problems = [sums(allocated, reserved, browser), orders(browser), keys(browser)].concat();
    browser.evaluate("(vramtape.setMoment(null), 0)");
    press(browser, "Escape");
    show(browser, "timeline");
    problems
}

fn sums(allocated: &[u64], reserved: &[u64], browser: &mut Browser) -> Vec<String> {
    let mut problems = Vec::new();
    let last = allocated.len() - 1;
    for moment in [0, last / 3, last] {
        browser.evaluate(&format!("(vramtape.setMoment({moment}), 0)"));
        for (rows, column) in [
            ("stacks", "live_bytes"),
            ("code", "live_bytes"),
            ("size", "live_bytes"),
            ("blocks", "size_bytes"),
            ("segments", "allocated_bytes"),
        ] {
            let seen = select(browser, rows);
            let found = sum(&seen, column);
            let expected = allocated[moment].cast_signed();
            if found != expected {
                problems.push(format!("{rows} of {moment} have {found} bytes, not {expected}"));
            }
            if rows == "segments" && sum(&seen, "size_bytes") != reserved[moment].cast_signed() {
                problems.push(format!("segments of {moment} are not {} bytes", reserved[moment]));
            }
            if whole(&seen, "page_px") > whole(&seen, "window_px") {
                problems.push(format!("{rows}: too wide, {}", seen["page_px"]));
            }
            if seen["small"] != serde_json::json!([]) {
                problems.push(format!("{rows}: text below 11 px, {}", seen["small"]));
            }
        }
    }
    // Bytes of all allocations: each rise of the records' allocated bytes is one.
    let rises =
        allocated.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).sum::<u64>().cast_signed();
    let seen = select(browser, "allocations");
    if sum(&seen, "size_bytes") != rises {
        problems.push(format!("allocations of {}, not {rises}", sum(&seen, "size_bytes")));
    }
    problems
}

/// A click on a head sorts, the next one turns the order round; a search keeps the rows that match.
fn orders(browser: &mut Browser) -> Vec<String> {
    let mut problems = Vec::new();
    let all = select(browser, "allocations");
    let size = "document.querySelectorAll('#rows-head button')[1]";
    for (direction, sign) in [("descending", -1.0), ("ascending", 1.0)] {
        let seen = browser.evaluate(&format!("({size}?.click(), {SEEN})"));
        if seen["sorted"][1] != direction {
            problems.push(format!("the order is {}, not {direction}", seen["sorted"]));
        }
        let rows = seen["reply"]["rows"].as_array().into_iter().flatten();
        let sizes: Vec<f64> = rows.map(|row| row["cells"][1].as_f64().unwrap_or(-1.0)).collect();
        if sizes.len() < 10 || sizes.windows(2).any(|pair| sign * (pair[1] - pair[0]) < 0.0) {
            problems.push(format!("{direction}: {sizes:?}"));
        }
    }
    let (total, rows) = (whole(&all["reply"], "total"), whole(&all, "rows"));
    if total < 200 || rows > 120 || whole(&all, "visible") < 5 {
        problems.push(format!("{total} rows, {rows} in the document, {} seen", all["visible"]));
    }
    let found = search(browser, "^0x[0-9a-f]*[02468a]00$");
    let matching = whole(&found["reply"], "matching");
    let count = found["count"].as_str().unwrap_or_default();
    if matching >= total || !count.ends_with("rows match") || matching < 1 {
        problems.push(format!("the search finds {matching} of {total}: {count}"));
    }
    let bad = search(browser, "(");
    if bad["error"] != 1 || whole(&bad["reply"], "matching") < total {
        problems.push(format!("a bad expression is not an error: {}", bad["found"]));
    }
    search(browser, "");
    problems
}

/// Keys go to any row, pin it and show it in the address map.
fn keys(browser: &mut Browser) -> Vec<String> {
    let mut problems = Vec::new();
    browser.evaluate("(vramtape.setMoment(null), 0)");
    let blocks = whole(&select(browser, "blocks")["reply"], "total");
    for (key, place) in [("End", blocks), ("Home", 1), ("ArrowDown", 2), ("ArrowUp", 1)] {
        press(browser, key);
        let seen = browser.evaluate(SEEN);
        // The line of heads is the first.
        let line = |key: &str| seen[key].as_str().and_then(|line| line.parse().ok()).unwrap_or(-1);
        if line("at") != place + 1 || seen["at_is_visible"] != true {
            problems.push(format!("{key}: row {}, seen: {}", seen["at"], seen["at_is_visible"]));
        }
        if line("rowcount") != blocks + 1 {
            problems.push(format!("{} lines of {blocks} blocks", seen["rowcount"]));
        }
    }
    press(browser, "PageDown");
    press(browser, "PageUp");
    browser.evaluate(SEEN);
    press(browser, "Enter");
    wait_until(browser, "!document.getElementById('pinned').hidden");
    let seen = browser.evaluate(SEEN);
    let address = seen["cells"][0].as_str().unwrap_or_default().to_owned();
    let is_pinned = seen["pinned"].as_str().is_some_and(|text| text.contains(&address));
    if address.is_empty() || !is_pinned || whole(&seen, "lit") < 1 {
        problems.push(format!("Enter pins {} and lights {} rows", seen["pinned"], seen["lit"]));
    }
    let start = seen["reply"]["rows"][0]["moment"].clone();
    press(browser, "m");
    wait_until(browser, "vramtape.state().view === 'map'");
    let state = browser.evaluate("vramtape.map().then(() => vramtape.state())");
    if state["view"] != "map" || state["moment"] != start {
        problems.push(format!("m shows {} at {}, not {start}", state["view"], state["moment"]));
    }
    problems
}

/// A link restores the rows and their order; a run with an error has it as a row.
#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_link_restores_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let run = "resnet50_batchsweep-oom.pickle.zst";
    let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces").join(run);
    let page = folder.path().join("page.html");
    vramtape(&["view", run.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    let url = |rest: &str| format!("file://{}#view=table&{rest}", page.display());
    let ready = "new Promise((done) => {
        const look = () => (document.querySelector('#rows-body tr') ? done(true) : setTimeout(look, 10));
        look();
    })";
    let mut browser = Browser::start();
    browser.open(&url("rows=allocations&sort=-requested_bytes"), 1280, "light");
    browser.evaluate(ready);
    let seen = browser.evaluate(SEEN);
    assert_eq!(seen["reply"]["request"]["rows"], "allocations");
    assert_eq!(seen["sorted"][2], "descending");
    // Another fragment alone does not load a page again.
    browser.navigate("about:blank");
    browser.open(&url("rows=out+of+memory"), 380, "dark");
    browser.evaluate(ready);
    let seen = browser.evaluate(SEEN);
    assert!(whole(&seen["reply"], "total") >= 1, "{seen}");
    assert!(whole(&seen, "page_px") <= whole(&seen, "window_px"), "{seen}");
    assert_eq!(browser.complaints(&format!("file://{}", page.display())), Vec::<String>::new());
}
