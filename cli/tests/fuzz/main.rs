//! Valid files with wrong meanings, given to every verb: an answer or an error in words, within 10 seconds and 1 GiB.
//!
//! A file is made from its number alone, which each message names: `VRAMTAPE_FUZZ_FIRST=NUMBER` begins with it.
//! `VRAMTAPE_FUZZ_SECONDS=3600 cargo test --release -p cli --test fuzz -- --nocapture` goes on for an hour. Several
//! runs share a series: `VRAMTAPE_FUZZ_FIRST` is where each begins. With `VRAMTAPE_FUZZ_COSTLY=1` each file tries to cost
//! as much as it can.

mod chunks;
mod costly;
mod dice;
mod logs;
mod program;
mod snapshot;
mod tape;
mod verbs;
mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dice::Dice;
use verbs::{Files, Verb};
use watch::Watch;

/// How long the test command's run takes.
const SECONDS: u64 = 5;
/// One file in so many is costly, where a run of some length was asked for.
const ONE_COSTLY_IN: usize = 2000;

/// A caller that shows nothing.
struct Silent;

impl cli::Caller for Silent {
    fn at(&self, _: u64, _: u64) {}
    fn warn(&self, _: &str) {}
}

/// Whether the file with this number is a costly one; rolled with its dice.
fn is_costly(dice: &mut Dice) -> bool {
    dice.once_in(ONE_COSTLY_IN) || number_of("VRAMTAPE_FUZZ_COSTLY").is_some()
}

/// The file with this number.
fn file(number: u64) -> Vec<u8> {
    let dice = &mut Dice::of(number);
    if is_costly(dice) {
        return costly::costly(dice);
    }
    let mut bytes = match dice.roll(16) {
        0..=8 => tape::tape(dice),
        9..=13 => snapshot::snapshot(dice),
        _ => logs::log(dice),
    };
    if dice.once_in(16) {
        dice.change(&mut bytes);
    }
    match dice.roll(24) {
        0 => zstd::bulk::compress(&bytes, 1).expect("memory"),
        1 => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(&bytes).expect("memory");
            packer.finish().expect("memory")
        }
        _ => bytes,
    }
}

/// What came of a verb's command lines.
#[derive(Default)]
struct Count {
    answered: u64,
    refused: u64,
    taken: Duration,
    slowest: (Duration, u64),
}

/// A run of the fuzzer.
struct Run {
    verbs: Vec<Verb>,
    counts: BTreeMap<String, Count>,
    watch: Watch,
    folder: PathBuf,
    /// Where panics were, and the first command line that met each.
    found: BTreeMap<String, String>,
    /// Where the last panic was.
    last: Arc<Mutex<String>>,
}

impl Run {
    fn new(folder: &Path) -> Self {
        let last = Arc::new(Mutex::new(String::new()));
        let (verbs, watch) = (verbs::all(), Watch::start());
        let (seen, watched) = (Arc::clone(&last), watch.clone());
        panic::set_hook(Box::new(move |info| {
            if watched.is_idle() {
                eprintln!("{info}"); // The fuzzer's own.
            }
            *seen.lock().unwrap() = info.to_string();
        }));
        let folder = folder.to_owned();
        Self { verbs, counts: BTreeMap::new(), watch, folder, found: BTreeMap::new(), last }
    }

    /// Gives a file to every verb.
    fn give(&mut self, number: u64) {
        let dice = &mut Dice::of(number ^ 0xf11e);
        let [run, other, out] =
            ["run.vtape", "other.vtape", "out"].map(|name| self.folder.join(name));
        fs::write(&run, file(number)).unwrap();
        if dice.once_in(16) || !other.exists() {
            fs::write(&other, file(number.wrapping_add(1))).unwrap();
        }
        for verb in &self.verbs {
            let mut line = verb.line(dice, &Files { run: &run, other: &other, out: &out });
            let what = format!("file {number}: {line:?}");
            self.watch.begin(what.clone());
            let begun = Instant::now();
            let lines = std::mem::take(&mut line);
            let answer =
                panic::catch_unwind(AssertUnwindSafe(|| cli::ask(Arc::new(Silent), 1, lines)));
            let taken = begun.elapsed();
            self.watch.end();
            let count = self.counts.entry(verb.name().to_owned()).or_default();
            count.taken += taken;
            count.slowest = count.slowest.max((taken, number));
            match answer {
                Ok(Ok(_)) => count.answered += 1,
                Ok(Err(error)) if error.trim().is_empty() => {
                    drop(self.found.insert(format!("{}: an empty error", verb.name()), what));
                }
                Ok(Err(_)) => count.refused += 1,
                Err(_) => {
                    let place = self.last.lock().unwrap().clone();
                    let place = place.lines().next().unwrap_or_default().to_owned();
                    if !self.found.contains_key(&place) {
                        println!("FOUND: {what}: {}", self.last.lock().unwrap());
                        self.found.insert(place, what);
                    }
                }
            }
        }
    }

    fn report(&self, files: u64) {
        println!("{files} files");
        for (verb, Count { answered, refused, taken, slowest }) in &self.counts {
            let (most, number) = slowest;
            println!(
                "{verb:<8} {answered:>8} answered {refused:>8} refused, {taken:.1?} in all, \
                 at most {most:.2?} (file {number})"
            );
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn every_verb_answers_or_refuses_files_with_wrong_meanings() {
    let folder =
        tempfile::tempdir_in(if Path::new("/dev/shm").exists() { "/dev/shm" } else { "/tmp" });
    let folder = folder.unwrap();
    let (first, seconds) = (number_of("VRAMTAPE_FUZZ_FIRST"), number_of("VRAMTAPE_FUZZ_SECONDS"));
    let most = number_of("VRAMTAPE_FUZZ_FILES").unwrap_or(u64::MAX);
    let (first, end) = (first.unwrap_or(0), Duration::from_secs(seconds.unwrap_or(SECONDS)));
    let mut run = Run::new(folder.path());
    let begun = Instant::now();
    let (mut files, mut reported) = (0, Instant::now());
    while begun.elapsed() < end && files < most {
        // Unoptimised, as in the test command, these take too long.
        if seconds.is_some() || !is_costly(&mut Dice::of(first + files)) {
            run.give(first + files);
        }
        files += 1;
        if reported.elapsed().as_secs() >= 60 {
            reported = Instant::now();
            println!("so far {files}: the next is VRAMTAPE_FUZZ_FIRST={}", first + files);
        }
    }
    drop(panic::take_hook());
    run.report(files);
    println!("the next is VRAMTAPE_FUZZ_FIRST={}", first + files);
    assert!(run.found.is_empty(), "found: {:#?}", run.found);
}
