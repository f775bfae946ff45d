//! The facts of a report, from replays.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use replay::advice::{REPLAYS_MAX, choose};
use replay::explain::{At, Explanation, MomentKind, PARTS};
use replay::waste::waste;
use serde::Serialize;

use crate::advice::measured;
use crate::explain::explained;
use crate::progress::Progress;
use crate::runs::Bound;
use crate::setting::RunFlags;
use crate::waste::explain as worst_moment;
use crate::{bytes, info};

/// Facts of the program that a reader of an issue needs; `vramtape info` has the others.
const FACTS: [&str; 8] =
    ["command", "torch", "CUDA", "driver", "GPU", "strategy", "settings", "vramtape"];
const OOM: &str = "at the out of memory";
const FLUSHED: &str = "at the out of memory, after the flush";
const PEAK: &str = "at the peak";
/// Rows of holders, and changes that would have helped.
const HOLDERS: usize = 6;
const REMEDIES: usize = 3;

/// A run in short.
#[derive(Debug, Serialize)]
pub(super) struct Content {
    /// The run's file.
    pub(super) run: String,
    /// The device.
    pub(super) device: u16,
    /// How the run ended, if its numbers are lower bounds for that.
    pub(super) at_least: Option<String>,
    /// The figures at the top: name and value.
    pub(super) figures: Vec<(&'static str, String)>,
    /// The verdict of an out of memory and its reason.
    pub(super) verdict: Option<(&'static str, String)>,
    /// The peak in a sentence, of a run with enough memory.
    pub(super) moment: Option<String>,
    /// The moment of the figures and the holders.
    pub(super) when: &'static str,
    /// The moment of the parts.
    pub(super) parts_when: &'static str,
    /// The parts of reserved memory that are there, the largest first.
    pub(super) parts: Vec<Row>,
    /// The code that holds most, or why it is not known.
    pub(super) holders: Vec<Row>,
    pub(super) holders_note: Option<String>,
    /// The next thing to try.
    pub(super) next_step: String,
    /// Changes that would have helped, each replayed.
    pub(super) remedies: Vec<String>,
    /// The program and the machine: name and value.
    pub(super) facts: Vec<(String, String)>,
}

/// Some memory.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Of all rows, in percent.
    pub(super) share_percent: f64,
}

impl Content {
    /// Replays the run under its own settings and those that usually help.
    pub(super) fn of(flags: &RunFlags) -> Result<Self> {
        let mut chosen = flags.read()?;
        let mut setting = chosen.setting(None, None)?;
        let progress = Progress::start("replaying", PARTS);
        let third = |share: u64, done: u64| (share * PARTS + done) / 3;
        let at =
            |at| explained(&chosen, setting.clone(), at, &|parts| progress.at(third(0, parts)));
        let (mut explanation, _) = at(None)?;
        if explanation.host_oom.is_some() {
            // Of the device's memory the peak says more than the end.
            (explanation, _) = at(Some(At::Peak))?;
        }
        // The capacity that an out of memory shows holds for all replays.
        chosen.capacity_bytes = explanation.capacity_bytes;
        setting.capacity_bytes = explanation.capacity_bytes;
        let taken_apart = chosen.with_device(|device| waste(device, &setting, 1, &mut |_| ()))?;
        progress.at(third(1, PARTS));
        let done = AtomicU64::new(0);
        let measured = measured(&chosen, None, &[], &|| {
            let replays = done.fetch_add(1, Ordering::Relaxed) + 1;
            progress.at(third(2, (replays * PARTS / REPLAYS_MAX).min(PARTS)));
        })?;
        drop(progress);
        let advice = choose(std::slice::from_ref(&measured));
        let config = setting.native_config()?.clone();
        let (moment, next_step) = worst_moment(&taken_apart, &config, advice.as_ref());
        let host_oom = explanation.host_oom.as_ref();
        let next_step =
            host_oom.and_then(|oom| oom.try_first.first().cloned()).unwrap_or(next_step);

        let is_oom = explanation.moment.kind == MomentKind::Oom;
        let worst = taken_apart.ooms.last().filter(|_| is_oom);
        let parts_when = if worst.is_some() { FLUSHED } else { PEAK };
        let worst = worst.unwrap_or(&taken_apart.peak);
        let named =
            worst.sample.parts.named().into_iter().map(|(name, part)| (name.to_owned(), part));
        let held = explanation.live.code.iter();
        let held = held.map(|group| (group.name.clone(), group.allocated_bytes));
        let shown = |name: &(String, String)| FACTS.contains(&name.0.as_str());
        let mut facts: Vec<_> =
            info::facts(&chosen.tape().meta).into_iter().filter(shown).collect();
        facts.push(("report".to_owned(), format!("vramtape {}", env!("CARGO_PKG_VERSION"))));
        let remedies = explanation.oom.iter().flat_map(|oom| &oom.remedies);
        let remedies = remedies.take(REMEDIES).map(|remedy| remedy.text.clone()).collect();
        Ok(Self {
            run: name_of(flags),
            device: chosen.device().id.0,
            at_least: Bound::of(&chosen).ending.at_least(),
            figures: figures(&explanation),
            verdict: explanation
                .oom
                .as_ref()
                .map(|oom| (oom.verdict.name(), oom.why.clone()))
                .or(host_oom.map(|oom| (oom.verdict.name(), oom.why.clone()))),
            moment: (!is_oom).then_some(moment),
            when: if is_oom { OOM } else { PEAK },
            parts_when,
            parts: largest(named, usize::MAX),
            holders: largest(held, HOLDERS),
            holders_note: explanation.stacks_note.clone(),
            next_step,
            remedies,
            facts,
        })
    }
}

/// The name of the run's file, without its folders: a report goes to other people.
fn name_of(flags: &RunFlags) -> String {
    let path = flags.path();
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn figures(explanation: &Explanation) -> Vec<(&'static str, String)> {
    let mut figures = Vec::new();
    if let Some(oom) = &explanation.oom {
        figures.push(("requested", bytes::show(oom.request.requested_bytes)));
    }
    figures.push(("allocated", bytes::show(explanation.live.allocated_bytes)));
    figures.push(("reserved", bytes::show(explanation.moment.reserved_bytes)));
    if let Some(capacity) = explanation.capacity_bytes {
        figures.push(("capacity", bytes::show(capacity)));
    }
    figures
}

/// The largest rows, and the rest as one.
fn largest(rows: impl Iterator<Item = (String, u64)>, most: usize) -> Vec<Row> {
    let mut rows: Vec<_> = rows.filter(|(_, bytes)| *bytes > 0).collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let whole: u64 = rows.iter().map(|(_, bytes)| bytes).sum();
    let row = |(name, bytes): (String, u64)| Row {
        name,
        bytes,
        share_percent: 100.0 * bytes as f64 / whole as f64,
    };
    let rest = rows.split_off(rows.len().min(most));
    let mut shown: Vec<Row> = rows.into_iter().map(row).collect();
    if !rest.is_empty() {
        let bytes = rest.iter().map(|(_, bytes)| bytes).sum();
        shown.push(row((format!("{} others", rest.len()), bytes)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_rows_is_one_row_and_shares_add_up() {
        let rows = [("a", 10), ("b", 30), ("c", 0), ("d", 40), ("e", 20)];
        let rows = largest(rows.map(|(name, bytes)| (name.to_owned(), bytes)).into_iter(), 2);
        let names: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.bytes)).collect();
        assert_eq!(names, [("d", 40), ("b", 30), ("2 others", 30)]);
        assert!((rows.iter().map(|row| row.share_percent).sum::<f64>() - 100.0).abs() < 1e-9);
    }
}
