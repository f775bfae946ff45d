//! A zoom in the address map.

use serde_json::Value;
use tests::browser::Browser;

use super::view::{Viewed, press};

/// The map's height, and a place in its lower part in the window.
const MAP: &str = "vramtape.map().then(() => {
    const box = document.getElementById('map').getBoundingClientRect();
    return { height: box.height, x: box.left + box.width / 2, y: box.top + 0.8 * box.height };
})";

/// The block or hole in the tooltip.
const POINTED: &str = "new Promise((done) => setTimeout(() => {
    const values = [...document.querySelectorAll('#map-tip:not([hidden]) dd')];
    done(values[0]?.textContent ?? '');
}, 60))";

fn height(map: &Value) -> f64 {
    map["height"].as_f64().unwrap()
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn a_zoom_of_the_map_keeps_the_row_of_the_block_under_the_cursor() {
    let page = Viewed::new("gpt2_train-default");
    let mut browser = Browser::start();
    browser.open(&format!("{}#view=map", page.url), 1280, "light");
    browser.settle();
    let whole = browser.evaluate(MAP);
    let place = (whole["x"].as_f64().unwrap() / 2.0, whole["y"].as_f64().unwrap());
    browser.point_at(place, false);
    let pointed = browser.evaluate(POINTED);
    assert!(pointed.as_str().unwrap().starts_with("0x"), "{pointed}");
    press(&mut browser, "e");
    browser.evaluate(MAP);
    browser.settle();
    // In its row, the block is elsewhere: rows are half as many bytes.
    let xs = (0..64).map(|step| 20.0 + 20.0 * f64::from(step));
    let is_in_row = xs.into_iter().any(|x| {
        browser.point_at((x, place.1), false);
        browser.evaluate(POINTED) == pointed
    });
    assert!(is_in_row, "{pointed} is not at the height of the cursor");
    for times in [4.0, 8.0, 8.0] {
        press(&mut browser, "e");
        let ratio = height(&browser.evaluate(MAP)) / height(&whole);
        assert!(ratio > 0.7 * times && ratio < 1.3 * times, "{ratio} times as high, not {times}");
    }
    for _ in 0..3 {
        press(&mut browser, "q");
    }
    let map = browser.evaluate(MAP);
    assert!((height(&map) - height(&whole)).abs() < 1.0, "{map}, not {whole}");
}
