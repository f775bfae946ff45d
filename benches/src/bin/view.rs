//! `view COMMAND FOLDER TAPE...`: pages of tapes, written and opened in a Chromium without a GPU.
//!
//! For each tape: seconds to write the page and its size; then, each time in a new browser with an empty profile at
//! 1280x800, milliseconds from navigation to the first frame with data, the resident memory of the process that draws
//! the page, and ten seconds of panning and zooming: the time of the page's pictures, and the distance between frames.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::browser::Browser;

/// How often a page is opened.
const ROUNDS: usize = 3;
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 800;
/// Panning and zooming.
const MOTION: Duration = Duration::from_secs(10);

/// Keeps the distance of frames.
const WATCH_FRAMES: &str = "(() => {
    window.distances = [];
    let before = performance.now();
    const frame = (now) => { window.distances.push(now - before); before = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
    window.vramtape.frameTimes();
    return 0;
})()";

fn main() {
    let args: Vec<String> = env::args().collect();
    let [_, command, folder, tapes @ ..] = &args[..] else {
        panic!("usage: view COMMAND FOLDER TAPE...");
    };
    println!(
        "| tape | written | size | first frame | memory | empty page | picture p50, p95 | frame p50, p95 |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for tape in tapes {
        let name = Path::new(tape).file_stem().expect("a tape").to_string_lossy();
        let page = Path::new(folder).join(format!("{name}.html"));
        let started = Instant::now();
        let line = ["view", "--force", "-o", page.to_str().expect("a name"), tape];
        let status = Command::new(command).args(line).output().expect("the command").status;
        let written_s = started.elapsed().as_secs_f64();
        assert!(status.success(), "{tape} has a page");
        let size_mb = fs::metadata(&page).expect("a page").len() as f64 / 1e6;
        let page = fs::canonicalize(&page).expect("a page");
        let mut rounds: Vec<Round> = (0..ROUNDS).map(|_| Round::of(&page)).collect();
        rounds.sort_by(|a, b| a.first_frame_ms.total_cmp(&b.first_frame_ms));
        let Round { first_frame_ms, .. } = rounds[ROUNDS / 2];
        let most = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(0.0, f64::max);
        println!(
            "| {name} | {written_s:.2} s | {size_mb:.1} MB | {first_frame_ms:.0} ms | {:.0} MiB | {:.0} MiB | \
             {:.1}, {:.1} ms | {:.1}, {:.1} ms |",
            most(|it| it.memory_mib),
            most(|it| it.empty_mib),
            most(|it| it.picture_ms[0]),
            most(|it| it.picture_ms[1]),
            most(|it| it.frame_ms[0]),
            most(|it| it.frame_ms[1]),
        );
    }
}

/// One opening of a page.
struct Round {
    first_frame_ms: f64,
    memory_mib: f64,
    /// The same of an empty page.
    empty_mib: f64,
    /// Median, and the value that 95 % do not exceed.
    picture_ms: [f64; 2],
    frame_ms: [f64; 2],
}

impl Round {
    fn of(page: &Path) -> Self {
        let mut browser = Browser::start();
        browser.resize(WIDTH, HEIGHT, "light");
        let empty_mib = memory_mib(&mut browser);
        browser.navigate(&format!("file://{}", page.display()));
        let ready = "new Promise((done) => {
            const look = () => document.documentElement.dataset.ready === '1'
                ? done(performance.getEntriesByName('vramtape:first-frame')[0].startTime) : setTimeout(look, 5);
            look();
        })";
        let first_frame_ms = browser.evaluate(ready).as_f64().expect("a time");
        move_about(&mut browser);
        let memory_mib = memory_mib(&mut browser);
        let picture_ms = quantiles(&browser.evaluate("window.vramtape.frameTimes()"));
        let frame_ms = quantiles(&browser.evaluate("window.distances"));
        Self { first_frame_ms, memory_mib, empty_mib, picture_ms, frame_ms }
    }
}

/// Zooms in and out at changing places, and drags in between.
fn move_about(browser: &mut Browser) {
    browser.evaluate(WATCH_FRAMES);
    let started = Instant::now();
    let mut at = 0_u32;
    while started.elapsed() < MOTION {
        at += 1;
        let (x, y) = (300 + at * 97 % 700, 300);
        let is_in = (at / 40).is_multiple_of(2);
        let wheel = json!({
            "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": if is_in { -120 } else { 120 },
        });
        browser.call("Input.dispatchMouseEvent", &wheel);
        if at.is_multiple_of(10) {
            drag(browser, (f64::from(x), f64::from(y)));
        }
    }
}

fn drag(browser: &mut Browser, (x, y): (f64, f64)) {
    let mut send = |kind: &str, x: f64| {
        let buttons = i32::from(kind != "mouseReleased");
        let event = json!({
            "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1,
        });
        browser.call("Input.dispatchMouseEvent", &event);
    };
    send("mousePressed", x);
    for step in 1..=10 {
        send("mouseMoved", x + 12.0 * f64::from(step));
    }
    send("mouseReleased", x + 120.0);
}

/// Resident memory of the largest process that draws pages.
fn memory_mib(browser: &mut Browser) -> f64 {
    let resident = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
        let kib: f64 = line.split_whitespace().nth(1).unwrap_or("0").parse().expect("a number");
        kib / 1024.0
    };
    browser.renderers().into_iter().map(resident).fold(0.0, f64::max)
}

fn quantiles(times: &Value) -> [f64; 2] {
    let times = times.as_array().expect("a list");
    let mut times: Vec<f64> = times.iter().filter_map(Value::as_f64).collect();
    assert!(times.len() > 20, "only {} frames", times.len());
    times.sort_by(f64::total_cmp);
    [0.5, 0.95].map(|part| times[(times.len() as f64 * part) as usize])
}
