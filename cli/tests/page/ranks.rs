//! The ranks of a page with several runs: side by side, the worst first, and each opens.

use std::path::Path;

use serde_json::{Value, json};
use tests::browser::Browser;

use super::view::press;
use super::{number, vramtape};

/// The texts of the cards, once all are there.
const CARDS: &str = "new Promise((done) => {
    const begun = performance.now();
    const look = () => {
        const cards = [...document.querySelectorAll('.rank')];
        const is_ready = document.documentElement.dataset.ready === '1' && cards.length === 3;
        if (!is_ready && performance.now() - begun < 5000) { setTimeout(look, 10); return; }
        done({
            view: vramtape.state().view,
            cards: cards.map((card) => card.innerText.split('\\n')),
            page_px: document.documentElement.scrollWidth, window_px: innerWidth,
        });
    };
    look();
})";

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn ranks_are_side_by_side_and_the_worst_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/traces");
    let copies = [
        ("rank0", "cudagraph_pools-default"),
        ("rank1", "gpt2_train-default"),
        ("rank2", "resnet50_batchsweep-oom"),
    ];
    let mut peaks = Vec::new();
    for (rank, trace) in copies {
        let to = folder.path().join(format!("run-{rank}.pickle.zst"));
        std::fs::copy(traces.join(format!("{trace}.pickle.zst")), &to).unwrap();
        let info = vramtape(&["info", "--json", to.to_str().unwrap()]);
        let info: Value = serde_json::from_str(&info).unwrap();
        let device = &info["devices"][0];
        peaks.push(["peak_reserved_bytes", "peak_allocated_bytes"].map(|key| number(device, key)));
    }
    let page = folder.path().join("job.html");
    vramtape(&["view", folder.path().to_str().unwrap(), "-o", page.to_str().unwrap()]);
    let url = format!("file://{}", page.display());
    let mut browser = Browser::start();
    for (width, scheme) in [(380, "light"), (1280, "dark"), (2560, "light")] {
        browser.open(&url, width, scheme);
        let seen = browser.evaluate(CARDS);
        assert_eq!(seen["view"], "ranks", "{width} px");
        assert!(number(&seen, "page_px") <= number(&seen, "window_px"), "{width} px: {seen}");
        // Out of memory first, then the most reserved.
        let shown: Vec<&Value> = seen["cards"].as_array().unwrap().iter().collect();
        for (card, rank) in shown.iter().zip([2, 1, 0]) {
            let lines: Vec<&str> =
                card.as_array().unwrap().iter().filter_map(Value::as_str).collect();
            assert!(lines[0].starts_with(&format!("run-rank{rank}")), "{width} px: {lines:?}");
            let bytes = |name: &str| {
                let place = lines.iter().position(|line| *line == name).unwrap();
                let text = lines[place + 1..].iter().find(|line| line.ends_with('B')).unwrap();
                super::bytes(text)
            };
            for (name, peak) in ["peak reserved", "peak allocated"].into_iter().zip(peaks[rank]) {
                assert!((bytes(name) / peak - 1.0).abs() < 2e-3, "{width} px: {name} of {lines:?}");
            }
            assert_eq!(lines.contains(&"out of memory"), rank == 2, "{lines:?}");
        }
        assert_eq!(browser.complaints(&url), Vec::<String>::new());
    }
    // The keyboard alone opens one.
    browser.evaluate("(document.querySelectorAll('.rank')[1].focus(), 0)");
    press(&mut browser, "Enter");
    let state = browser.evaluate("vramtape.state()");
    assert_eq!((&state["view"], &state["device"]), (&json!("timeline"), &json!(1)));
    press(&mut browser, "5");
    assert_eq!(browser.evaluate("vramtape.state()")["view"], "ranks");
}
