//! Valid files with wrong meanings, given to every verb and to the checker of snapshots: an answer or an error in
//! words, within 10 seconds and 1 GiB.
//!
//! A file is made from its number alone, which each message names: `VRAMTAPE_FUZZ_FIRST=NUMBER` begins with it.
//! `VRAMTAPE_FUZZ_SECONDS=3600 cargo test --release -p cli --test fuzz -- --nocapture` goes on for an hour. Several
//! runs share a series: `VRAMTAPE_FUZZ_FIRST` is where each begins. With `VRAMTAPE_FUZZ_COSTLY=1` each file tries to
//! cost as much as it can.

mod chunks;
mod costly;
mod logs;
mod program;
mod rng;
mod snapshot;
mod tape;
mod verbs;
mod watch;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rng::Rng;
use tests::snapshot_contract::{Demand, check_file};
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

/// Whether the file with this number is a costly one; drawn from its generator.
fn is_costly(rng: &mut Rng) -> bool {
    rng.once_in(ONE_COSTLY_IN) || number_of("VRAMTAPE_FUZZ_COSTLY").is_some()
}

/// The file with this number.
fn file(number: u64) -> Vec<u8> {
    let rng = &mut Rng::of(number);
    if is_costly(rng) {
        return costly::costly(rng);
    }
    let mut bytes = match rng.roll(16) {
        0..=8 => tape::tape(rng),
        9..=13 => snapshot::snapshot(rng),
        _ => logs::log(rng),
    };
    if rng.once_in(16) {
        rng.change(&mut bytes);
    }
    match rng.roll(24) {
        0 => zstd::bulk::compress(&bytes, 1).expect("memory"),
        1 => {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(&bytes).expect("memory");
            packer.finish().expect("memory")
        }
        _ => bytes,
    }
}

/// What came of a command line.
enum Answer {
    Given,
    Refused(String),
    /// A panic, or a bound that was passed.
    Found(String),
}

/// The answer of the command itself: memory that an earlier answer left to this process does not count.
fn costly_answer(line: &[OsString], folder: &Path) -> Answer {
    let printed = folder.join("printed");
    let mut child = Command::new(env!("CARGO_BIN_EXE_vramtape"))
        .args(line)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&printed).unwrap())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let passed = watch::passes_a_bound(&mut child);
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    let status = child.wait().unwrap();
    let has_printed = fs::metadata(&printed).unwrap().len() > 0;
    match (passed, status.code()) {
        (Some(bound), _) => Answer::Found(bound),
        (None, Some(0)) => Answer::Given,
        (None, Some(1)) if has_printed => Answer::Given, // Two runs differ.
        (None, Some(1 | 2)) => Answer::Refused(errors),
        (None, _) => Answer::Found(format!("{status}: {errors}")),
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
        let rng = &mut Rng::of(number ^ 0xf11e);
        let [run, other, out] =
            ["run.vtape", "other.vtape", "out"].map(|name| self.folder.join(name));
        fs::write(&run, file(number)).unwrap();
        if rng.once_in(16) || !other.exists() {
            fs::write(&other, file(number.wrapping_add(1))).unwrap();
        }
        let is_costly = is_costly(&mut Rng::of(number));
        for at in 0..self.verbs.len() {
            let verb = &self.verbs[at];
            let line = verb.line(rng, &Files { run: &run, other: &other, out: &out }, is_costly);
            let name = verb.name().to_owned();
            let what = format!("file {number}: {line:?}");
            let begun = Instant::now();
            let answer = if is_costly {
                costly_answer(&line, &self.folder)
            } else {
                self.answer(&what, || cli::ask(Arc::new(Silent), 1, line).map(drop))
            };
            self.count(&name, number, begun.elapsed(), answer, what);
        }
        if !is_costly {
            let (name, begun) = ("snapshot-contract", Instant::now());
            let what = format!("file {number}: {name}");
            let check = || check_file(&run, Demand::Complete).map_err(|error| error.to_string());
            let answer = self.answer(&what, || check().map(drop));
            self.count(name, number, begun.elapsed(), answer, what);
        }
    }

    /// Counts an answer about the file `run.vtape`, and keeps the file if it is a finding.
    fn count(&mut self, name: &str, number: u64, taken: Duration, answer: Answer, what: String) {
        let count = self.counts.entry(name.to_owned()).or_default();
        count.taken += taken;
        count.slowest = count.slowest.max((taken, number));
        match answer {
            Answer::Given => count.answered += 1,
            Answer::Refused(error) if error.trim().is_empty() => {
                drop(self.found.insert(format!("{name}: an empty error"), what));
            }
            Answer::Refused(_) => count.refused += 1,
            Answer::Found(place) => {
                if let Entry::Vacant(entry) = self.found.entry(place) {
                    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(number.to_string());
                    fs::copy(self.folder.join("run.vtape"), &kept).unwrap();
                    println!("FOUND: {what}: {}; kept as {}", entry.key(), kept.display());
                    entry.insert(what);
                }
            }
        }
    }

    /// The answer within this process.
    fn answer(&self, what: &str, ask: impl FnOnce() -> Result<(), String>) -> Answer {
        self.watch.begin(what.to_owned());
        let answer = panic::catch_unwind(AssertUnwindSafe(ask));
        self.watch.end();
        match answer {
            Ok(Ok(())) => Answer::Given,
            Ok(Err(error)) => Answer::Refused(error),
            Err(_) => Answer::Found(self.last.lock().unwrap().clone()),
        }
    }

    fn report(&self, files: u64) {
        println!("{files} files");
        for (verb, Count { answered, refused, taken, slowest }) in &self.counts {
            let (most, number) = slowest;
            println!(
                "{verb:<17} {answered:>8} answered {refused:>8} refused, {taken:.1?} in all, \
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
        if seconds.is_some() || !is_costly(&mut Rng::of(first + files)) {
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
