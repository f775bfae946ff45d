//! The flame graph of a page: its sums are the allocated bytes, and keys alone reach all of it.

use serde_json::Value;
use tests::browser::Browser;

use super::number;
use super::view::press;

/// What is wrong with the flame graph, given the allocated bytes at each moment. The tab is shown, and left at the end.
pub(super) fn problems(allocated: &[u64], browser: &mut Browser) -> Vec<String> {
    press(browser, "4");
    let problems = [sums(allocated, browser), keys(browser)].concat();
    press(browser, "1");
    problems
}

/// A number of bytes or of rows.
fn whole(value: &Value, key: &str) -> i64 {
    number(value, key) as i64
}

fn sums(allocated: &[u64], browser: &mut Browser) -> Vec<String> {
    let mut problems = Vec::new();
    let last = allocated.len() - 1;
    for moment in [0, last / 3, last] {
        let graph = browser.evaluate(&format!("(vramtape.setMoment({moment}), vramtape.flame())"));
        let of_roots = |depth: i64| -> i64 {
            let rects = graph["rects"].as_array().into_iter().flatten();
            rects.filter(|it| whole(it, "depth") == depth).map(|it| whole(it, "bytes")).sum()
        };
        let expected = allocated[moment].cast_signed();
        let (total, root, below) = (whole(&graph, "total_bytes"), of_roots(0), of_roots(1));
        // Rectangles below a pixel are counted, not drawn.
        let is_below = below <= expected && below >= expected / 20 * 19;
        if total != expected || root != expected || !is_below {
            problems
                .push(format!("the graph of {moment}: {total}, {root}, {below}, not {expected}"));
        }
    }
    let (from, to) = (last / 3, last / 2);
    let change = "document.getElementById('flame-of')";
    let graph = browser.evaluate(&format!(
        "(vramtape.setWindow({from}, {to}), {change}.value = 'difference',
         {change}.dispatchEvent(new Event('change')), vramtape.flame())"
    ));
    let found = whole(&graph, "more_bytes") - whole(&graph, "less_bytes");
    let expected = allocated[to - 1].cast_signed() - allocated[from].cast_signed();
    if found != expected {
        problems.push(format!("from {from} to {to} {found} bytes more, not {expected}"));
    }
    browser.evaluate(&format!(
        "({change}.value = 'live', {change}.dispatchEvent(new Event('change')), vramtape.setMoment(null),
         vramtape.setWindow(0, {last}), 0)"
    ));
    problems
}

/// Arrows go to a frame, Enter gives it the full width, 0 shows the whole graph.
fn keys(browser: &mut Browser) -> Vec<String> {
    let width = |graph: &Value, depth: i64| -> f64 {
        let rects = graph["rects"].as_array().into_iter().flatten();
        let wide = rects.filter(|it| whole(it, "depth") == depth);
        wide.map(|it| number(it, "x1") - number(it, "x0")).fold(0.0, f64::max)
    };
    for key in ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"] {
        press(browser, key);
    }
    let zoomed = browser.evaluate("vramtape.flame()");
    let full = number(&zoomed["request"], "width");
    let mut problems = Vec::new();
    let depth = zoomed["request"]["zoom"].as_array().map_or(0, Vec::len) as i64;
    if depth == 0 || (width(&zoomed, depth) - full).abs() > 0.5 {
        problems.push(format!("Enter zooms to depth {depth}: {}", zoomed["request"]));
    }
    press(browser, "0");
    if browser.evaluate("vramtape.flame()")["request"]["zoom"] != serde_json::json!([]) {
        problems.push("0 does not show the whole graph".to_owned());
    }
    problems
}
