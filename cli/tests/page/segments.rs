//! Segments over time: the strips of every column have the bytes of the records, and keys and mouse reach blocks.

use serde_json::Value;
use tests::browser::Browser;

use super::number;
use super::view::{SEEN, press};

/// Pointing at so many columns and rows of the picture finds a block or a hole.
const PLACES: u32 = 9;

/// What is wrong with the segments, given allocated and reserved bytes at each moment. The tab is shown, and left at
/// the end.
pub(super) fn problems(allocated: &[u64], reserved: &[u64], browser: &mut Browser) -> Vec<String> {
    press(browser, "3");
    let mut problems = columns(allocated, reserved, browser);
    problems.extend(fits(browser));
    problems.extend(keys_and_mouse(browser));
    browser.evaluate("(vramtape.setMoment(null), 0)");
    press(browser, "0");
    press(browser, "1");
    problems
}

/// The bytes of strips at the moments of all columns, and what is reserved at the most.
fn columns(allocated: &[u64], reserved: &[u64], browser: &mut Browser) -> Vec<String> {
    let mut problems = Vec::new();
    let moments = allocated.len();
    for (from, to) in [(0, moments), (moments / 3, moments / 3 + 40), (moments - 20, moments)] {
        let asked = format!("(vramtape.setWindow({from}, {to}), vramtape.segments())");
        let seen = browser.evaluate(&asked);
        if seen.is_null() {
            problems.push(format!("no segments of {from} to {to}"));
            continue;
        }
        let list = |key: &str| -> Vec<usize> {
            let all = seen[key].as_array().into_iter().flatten();
            all.map(|it| it.as_f64().unwrap_or(-1.0) as usize).collect()
        };
        let (at, found) = (list("moment"), [list("allocated"), list("reserved")]);
        let is_in_order = at.is_sorted() && at.iter().all(|at| (from..to).contains(at));
        if at.is_empty() || !is_in_order {
            problems.push(format!("columns of {from} to {to} are moments {at:?}"));
            continue;
        }
        for (x, moment) in at.into_iter().enumerate() {
            let expected = [allocated[moment] as usize, reserved[moment] as usize];
            if found.each_ref().map(|all| all[x]) != expected {
                problems.push(format!("segments at {moment}: {}, not {expected:?}", found[0][x]));
                break;
            }
        }
        let most = *reserved[from..to].iter().max().unwrap() as f64;
        let numbers = &seen["numbers"];
        let at = number(numbers, "moment") as usize;
        let is_most = number(numbers, "reserved_bytes").to_bits() == most.to_bits()
            && reserved[at] as f64 >= most
            && number(numbers, "allocated_bytes") as u64 == allocated[at];
        if !is_most {
            problems.push(format!("of {from} to {to}: {numbers}, not {most} bytes reserved"));
        }
        if most > 0.0 && (number(&seen, "pixels") <= 0.0 || number(numbers, "segments") <= 0.0) {
            problems.push(format!("nothing is drawn of {from} to {to}: {numbers}"));
        }
    }
    browser.evaluate(&format!("(vramtape.setWindow(0, {moments}), vramtape.segments(), 0)"));
    problems
}

fn fits(browser: &mut Browser) -> Vec<String> {
    let seen = browser.evaluate(SEEN);
    let is_good = seen["small"] == serde_json::json!([])
        && number(&seen, "page_px") <= number(&seen, "window_px");
    let note = browser.evaluate("document.getElementById('segments-note').textContent");
    let is_stated =
        note.as_str().is_some_and(|note| note.contains("column") || note.contains("Exact"));
    if is_good && is_stated { Vec::new() } else { vec![format!("segments: {seen}, {note}")] }
}

fn keys_and_mouse(browser: &mut Browser) -> Vec<String> {
    let mut problems = Vec::new();
    browser.evaluate("(document.getElementById('strips').scrollIntoView({ block: 'center' }), 0)");
    let root = browser.evaluate(
        "(({ left, top, width, height }) => ({ left, top, width, height }))(
            document.getElementById('strips').getBoundingClientRect())",
    );
    let shown = |browser: &mut Browser, id: &str| -> String {
        let text = format!(
            "(() => {{ const it = document.getElementById('{id}'); return it.hidden ? '' : it.textContent; }})()"
        );
        browser.evaluate(&text).as_str().unwrap_or_default().to_owned()
    };
    let mut is_found = false;
    for place in 0..PLACES * PLACES {
        let share = |at: u32| f64::from(at + 1) / f64::from(PLACES + 2);
        let (x, y) = (share(place % PLACES), share(place / PLACES));
        let at = (
            number(&root, "left") + x * number(&root, "width"),
            number(&root, "top") + y * number(&root, "height"),
        );
        browser.point_at(at, false);
        if !shown(browser, "strips-tip").contains("address") {
            continue;
        }
        is_found = true;
        browser.point_at(at, true);
        if !shown(browser, "pinned").contains("address") {
            problems.push(format!("a click at {x}, {y} of the segments pins nothing"));
        }
        break;
    }
    if !is_found {
        problems.push("nothing is below the mouse in the segments".to_owned());
    }
    let state = |browser: &mut Browser| -> Value { browser.evaluate("vramtape.state()") };
    let before = number(&state(browser), "moment");
    press(browser, ">");
    press(browser, ">");
    if number(&state(browser), "moment") <= before {
        problems.push(format!("> leaves the cursor of the segments at {before}"));
    }
    let length = |state: &Value| number(state, "to") - number(state, "from");
    let whole = length(&state(browser));
    press(browser, "+");
    if length(&state(browser)) >= whole {
        problems.push("+ does not zoom into the segments".to_owned());
    }
    press(browser, "Escape");
    problems
}
