//! Envelopes of private pools in a page: their heights, their borders, and what is said of the room in them.

use std::collections::BTreeMap;
use std::path::Path;

use replay::import::RunLimits;
use replay::tape::Tape;
use serde_json::Value;
use tests::browser::Browser;
use trace_format::State;

use super::view::{DRAWN, READY};
use super::vramtape;

/// Pixels of a border's ink across the top of the highest envelope, at a fraction of the window.
const BORDER: &str = "vramtape.columnAt(FRACTION).then((stack) => {
    const { plot, top_bytes } = vramtape.state();
    const sum = (list) => list.reduce((bytes, one) => bytes + one.bytes, 0);
    const height = sum(stack.groups.filter(({ label }) => label === 'default pools')) + sum(stack.envelopes);
    const front = document.getElementById('front');
    const ratio = front.width / front.clientWidth;
    const x = Math.round((plot.left + FRACTION * plot.width) * ratio);
    const y = Math.round((plot.top + (1 - height / top_bytes) * plot.height) * ratio);
    const copy = new OffscreenCanvas(1, 13).getContext('2d', { willReadFrequently: true });
    copy.drawImage(front, x, y - 6, 1, 13, 0, 0, 1, 13);
    const rows = copy.getImageData(0, 0, 1, 13).data;
    let ink = 0;
    for (let i = 3; i < rows.length; i += 4) ink += rows[i] / 255;
    const box = front.getBoundingClientRect();
    return { ink: ink / ratio, x: box.left + x / ratio, y: box.top + y / ratio, stack };
})";

/// The most reserved bytes of each private pool on each stream.
fn most_reserved(run: &Path) -> BTreeMap<String, u64> {
    let tape = Tape::open(run, &RunLimits::default()).unwrap();
    let device = &tape.devices[0];
    let mut state = State::from_base(&device.base).unwrap();
    let mut most: BTreeMap<String, u64> = BTreeMap::new();
    for record in &device.records {
        state.apply(record).unwrap();
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for segment in state.segments().iter().filter(|it| !it.pool.is_default()) {
            let label = format!("{}, stream {}", segment.pool, segment.stream);
            *sums.entry(label).or_default() += segment.size_bytes;
        }
        for (label, bytes) in sums {
            let most = most.entry(label).or_default();
            *most = bytes.max(*most);
        }
    }
    most
}

fn ink(seen: &Value) -> f64 {
    seen["ink"].as_f64().unwrap()
}

#[test]
#[ignore = "needs a browser: cargo xtask test runs it where there is one"]
fn private_pools_are_envelopes_whose_borders_are_wider_when_pointed_at_or_pinned() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    for run in ["cudagraph_pools-default", "cudagraph_pools-expandable"] {
        let run = format!("../tests/data/traces/{run}.pickle.zst");
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join(run);
        let page = folder.path().join("page.html");
        vramtape(&["view", run.to_str().unwrap(), "-f", "-o", page.to_str().unwrap()]);
        browser.navigate("about:blank");
        let url = format!("file://{}#by=private+pool", page.display());
        browser.open(&url, 1280, "light");
        assert_eq!(browser.evaluate(READY), true);
        browser.settle();
        let border = BORDER.replace("FRACTION", "0.97");
        let seen = browser.evaluate(&border);
        let envelopes = seen["stack"]["envelopes"].as_array().unwrap().iter();
        let heights: BTreeMap<String, u64> = envelopes
            .map(|it| (it["label"].as_str().unwrap().to_owned(), it["bytes"].as_u64().unwrap()))
            .filter(|(_, bytes)| *bytes > 0)
            .collect();
        assert_eq!(heights, most_reserved(&run));
        assert!((ink(&seen) - 3.0).abs() < 0.6, "the border: {seen}");
        let (x, y) = (seen["x"].as_f64().unwrap(), seen["y"].as_f64().unwrap());
        // Beside the column that is measured, which the cursor's line would cross.
        browser.point_at((x - 12.0, y + 20.0), false);
        let pointed = browser.evaluate(&border);
        assert!((ink(&pointed) - 5.0).abs() < 0.6, "pointed at: {pointed}");
        let tip = "new Promise((done) => setTimeout(() => done(document.getElementById('tip').textContent), 400))";
        let tip = browser.evaluate(tip);
        assert!(tip.as_str().unwrap().contains("capacity"), "{tip}");
        browser.point_at((x - 12.0, y + 20.0), true);
        browser.point_at((x - 40.0, y - 40.0), false);
        browser.evaluate(DRAWN);
        browser.settle();
        let pinned = browser.evaluate(&border);
        assert!((ink(&pinned) - 5.0).abs() < 0.6, "pinned: {pinned}");
        assert_eq!(browser.complaints(url.split('#').next().unwrap()), Vec::<String>::new());
    }
}
