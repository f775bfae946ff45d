//! The runs of a verb that takes several: files and folders of files, the ranks of a job. Every device of every run is
//! a rank.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, anyhow};
use rayon::prelude::*;
use replay::driver::DriveError;
use replay::ending::Ending;
use replay::import::RunLimits;
use replay::ranks::{Skipped, each, find};
use serde::Serialize;

use crate::progress::Progress;
use crate::setting::{Chosen, MachineFlags};
use crate::start::Started;
use crate::{describe, input};

/// A run's share of a bar over many runs.
const PARTS_OF_A_RUN: u64 = 1000;
/// Files that a text report names among those it left out; JSON has all.
const LEFT_OUT_LINES: usize = 10;

/// The runs, and the machine they are replayed on.
#[derive(clap::Args)]
pub(crate) struct RunsFlags {
    /// Tapes, snapshots or logs, or folders of them; several are the ranks of a job
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) ranks: RanksFlags,
}

/// The same without the names of the runs.
#[derive(clap::Args)]
pub(crate) struct RanksFlags {
    #[command(flatten)]
    pub(crate) machine: MachineFlags,
    /// Of several runs, leave out those that cannot be read or replayed, and name them
    #[arg(long)]
    keep_going: bool,
}

/// The result of one rank.
#[derive(Serialize)]
pub(crate) struct Rank<T> {
    /// Its file's name, and its device's where the file has several.
    pub(crate) name: String,
    pub(crate) device: u16,
    #[serde(flatten)]
    pub(crate) found: T,
    /// Facts that an import inferred, a sentence each.
    pub(crate) inferred: Vec<String>,
    /// Where the run starts in the middle: with what.
    #[serde(rename = "start")]
    pub(crate) started: Option<Started>,
    #[serde(flatten)]
    pub(crate) bound: Bound,
}

/// How a run ended, and whether its numbers are lower bounds for that.
#[derive(Clone, Serialize)]
pub(crate) struct Bound {
    /// Whether the program might have asked for more than the run has.
    pub(crate) lower_bound: bool,
    pub(crate) ending: Ending,
}

impl Bound {
    pub(crate) fn of(chosen: &Chosen) -> Self {
        let ending = Ending::of(chosen.tape());
        Self { lower_bound: ending.is_lower_bound(), ending }
    }

    /// The head of a column: the second where its numbers are lower bounds.
    pub(crate) fn head(&self, plain: &'static str, at_least: &'static str) -> &'static str {
        if self.lower_bound { at_least } else { plain }
    }

    /// A number in words: with `at least` where it is a lower bound.
    pub(crate) fn number(&self, number: String) -> String {
        if self.lower_bound { format!("at least {number}") } else { number }
    }

    /// Why numbers are lower bounds, as a paragraph of a report; nothing where they are not.
    pub(crate) fn note(&self) -> String {
        self.ending.at_least().map_or(String::new(), |sentence| format!("\n{sentence}\n"))
    }
}

/// The results of all ranks.
pub(crate) struct Answers<T> {
    /// At least one.
    pub(crate) ranks: Vec<Rank<T>>,
    /// Files that were left out.
    pub(crate) skipped: Vec<Skipped>,
    /// Whether several were asked for, or there are several.
    is_several: bool,
}

impl RunsFlags {
    /// As [`RanksFlags::each`].
    pub(crate) fn each<T: Send>(
        &self,
        what: &str,
        jobs_each: usize,
        ask: impl Fn(&Chosen, &Share<'_>) -> Result<T> + Sync,
    ) -> Result<Answers<T>> {
        self.ranks.each(&self.runs, what, jobs_each, ask)
    }
}

impl RanksFlags {
    /// Reads the runs, asks about every device of each and drops it: several at a time, on all cores. `ask` takes apart
    /// what it does into up to `jobs_each` jobs for different cores.
    pub(crate) fn each<T: Send>(
        &self,
        runs: &[PathBuf],
        what: &str,
        jobs_each: usize,
        ask: impl Fn(&Chosen, &Share<'_>) -> Result<T> + Sync,
    ) -> Result<Answers<T>> {
        let known = self.machine.known()?;
        let found = find(runs)?;
        let names = found.names();
        if let ([file], [name], false) = (&found.files[..], &names[..], found.is_several) {
            let devices = self.machine.devices(file, input::read(file, &known)?)?;
            let progress = match devices.len() {
                1 => Progress::start(what, 0),
                count => Progress::over_runs(what, count, PARTS_OF_A_RUN),
            };
            let ranks = ask_each(name, &devices, &progress, &ask)?;
            return Ok(Answers { is_several: ranks.len() > 1, ranks, skipped: found.skipped });
        }
        let count = found.files.len();
        let progress = Progress::over_runs(what, count, PARTS_OF_A_RUN * count as u64);
        let sources: Vec<_> = found.files.iter().zip(&names).collect();
        let asked = each(&sources, jobs_each, |(file, name)| {
            let devices = match self.read(file, &known) {
                Ok(devices) => devices,
                Err(error) => return self.left_out(file, &error).map(Err),
            };
            match ask_each(name, &devices, &progress, &ask) {
                Ok(ranks) => Ok(Ok(ranks)),
                Err(error) if is_of_run(&error) => self.left_out(file, &error).map(Err),
                Err(error) => Err(error.context(file.display().to_string())),
            }
        })?;
        drop(progress);
        let mut answers = Answers { ranks: Vec::new(), skipped: found.skipped, is_several: true };
        for of_run in asked {
            match of_run {
                Ok(ranks) => answers.ranks.extend(ranks),
                Err(skipped) => answers.skipped.push(skipped),
            }
        }
        if answers.ranks.is_empty() {
            let why = answers.skipped.last().map_or("", |skipped| &skipped.reason);
            return Err(anyhow!("no run could be read and replayed; the last: {why}"));
        }
        Ok(answers)
    }

    /// Reads a run among others.
    fn read(&self, file: &Path, known: &RunLimits) -> Result<Vec<Chosen>> {
        self.machine.devices(file, input::read_among_others(file, known)?)
    }

    /// A broken run is left out if that was asked for, and else is the end.
    fn left_out(&self, file: &Path, error: &anyhow::Error) -> Result<Skipped> {
        let file = file.display().to_string();
        // Errors of files name them; here the name stands before all of it.
        let why = describe(error);
        let named = [format!("cannot read {file}: "), format!("{file}: ")];
        let reason =
            named.iter().find_map(|name| why.strip_prefix(name)).unwrap_or(&why).to_owned();
        if self.keep_going {
            return Ok(Skipped { file, reason });
        }
        Err(anyhow!("{file}: {reason}; --keep-going leaves out such runs"))
    }
}

/// Whether the error of a replay is of the run, and not of what was asked.
fn is_of_run(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(
            DriveError::Contradiction { .. }
                | DriveError::Settings { .. }
                | DriveError::Base(_)
                | DriveError::NoRoom { .. }
        )
    )
}

fn ask_each<T: Send>(
    name: &str,
    devices: &[Chosen],
    progress: &Progress,
    ask: &(impl Fn(&Chosen, &Share<'_>) -> Result<T> + Sync),
) -> Result<Vec<Rank<T>>> {
    let whole = progress.is_over_runs().then(|| PARTS_OF_A_RUN / devices.len() as u64);
    let rank = |chosen: &Chosen| {
        let share =
            Share { run: name, progress, whole, total: OnceLock::new(), seen: AtomicU64::new(0) };
        let device = chosen.device().id.0;
        let name = match devices.len() {
            1 => name.to_owned(),
            _ => format!("{name} device {device}"),
        };
        let found = ask(chosen, &share)?;
        let (inferred, started) = (chosen.inferred().to_vec(), chosen.started());
        Ok(Rank { name, device, found, inferred, started, bound: Bound::of(chosen) })
    };
    devices.par_iter().map(rank).collect()
}

/// How far one rank is, in the bar of all.
pub(crate) struct Share<'p> {
    /// Its run's name.
    pub(crate) run: &'p str,
    progress: &'p Progress,
    /// Its share of a bar over many runs.
    whole: Option<u64>,
    total: OnceLock<u64>,
    seen: AtomicU64,
}

impl Share<'_> {
    /// The work is on so many records.
    pub(crate) fn begin(&self, total: u64) {
        if self.whole.is_none() {
            self.progress.set_total(total);
        }
        let _ = self.total.set(total.max(1)); // It begins once.
    }

    /// So many records are done.
    pub(crate) fn at(&self, done: u64) {
        let Some(whole) = self.whole else { return self.progress.at(done) };
        let total = *self.total.get().unwrap_or(&u64::MAX);
        let part = (u128::from(whole) * u128::from(done.min(total)) / u128::from(total)) as u64;
        let before = self.seen.fetch_max(part, Ordering::Relaxed);
        self.progress.add(part.saturating_sub(before));
    }
}

impl<T> Answers<T> {
    /// The one rank where one run was asked for and has one device; else all.
    pub(crate) fn only(mut self) -> Result<Rank<T>, Self> {
        match self.ranks.pop() {
            Some(rank) if !self.is_several => Ok(rank),
            rank => {
                self.ranks.extend(rank);
                Err(self)
            }
        }
    }

    /// Whether the numbers of any rank are lower bounds.
    pub(crate) fn is_lower_bound(&self) -> bool {
        self.ranks.iter().any(|rank| rank.bound.lower_bound)
    }

    /// Why they are, of the first rank of which they are, as a paragraph.
    pub(crate) fn at_least(&self) -> String {
        let cut = self.ranks.iter().filter(|rank| rank.bound.lower_bound);
        let more = match cut.clone().count() {
            0 | 1 => String::new(),
            count => format!("; so are {} more", count - 1),
        };
        match cut.clone().find_map(|rank| Some((&rank.name, rank.bound.ending.at_least()?))) {
            Some((_, sentence)) if self.ranks.len() == 1 => format!("\n{sentence}\n"),
            Some((name, sentence)) => format!("\n{name}: {sentence}{more}\n"),
            None => String::new(),
        }
    }

    /// The skipped files, and the facts inferred about the rank that decides, as the last paragraph of a report.
    pub(crate) fn notes(&self, worst: usize) -> String {
        let Rank { name, inferred, started, .. } = &self.ranks[worst];
        let started = started.map(|started| format!("\n{name} {}", started.sentence(Some(0))));
        let about = inferred.iter().map(|what| format!("of {name}: {what}"));
        let started = started.unwrap_or_default() + &self.at_least();
        started + &self.left_out() + &inferred_notes(&about.collect::<Vec<_>>())
    }

    /// The skipped files, as a paragraph.
    pub(crate) fn left_out(&self) -> String {
        let line = |Skipped { file, reason }: &Skipped| format!("left out: {file}: {reason}\n");
        let mut lines: Vec<_> = self.skipped.iter().take(LEFT_OUT_LINES).map(line).collect();
        if self.skipped.len() > LEFT_OUT_LINES {
            let more = self.skipped.len() - LEFT_OUT_LINES;
            lines.push(format!("left out: {more} more, listed by --json\n"));
        }
        paragraph(&lines)
    }
}

/// Facts that an import inferred about a run, as the last paragraph of its report.
pub(crate) fn inferred_notes(inferred: &[String]) -> String {
    let lines: Vec<_> = inferred.iter().map(|what| format!("inferred: {what}\n")).collect();
    paragraph(&lines)
}

/// Lines behind an empty one; nothing where there are none.
fn paragraph(lines: &[String]) -> String {
    let space = if lines.is_empty() { "" } else { "\n" };
    space.to_owned() + &lines.concat()
}
