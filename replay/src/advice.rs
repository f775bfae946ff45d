//! Which setting to try for a run: one answer for every verb that gives advice.
//!
//! `waste`, `compare` and `tune` call [`measure`] and [`choose`], so they name the same settings for the same run.
//! The candidates are the settings that `compare` has rows for, and our search after the last flush; each of them is
//! replayed. `tune` searches further, and prints what it finds beside the advice.

use allocator::stats::ByteSize;
use rayon::prelude::*;
use serde::Serialize;
use settings::Compat;
use trace_format::{BlockStatus, Event};

use crate::candidate::line::Line;
use crate::candidate::score::Score;
use crate::candidate::{Member, TuneError};
use crate::compare::{StrategyRow, USUAL_SETTINGS};
use crate::driver::{DriveError, Follow, Result};
use crate::graph_pools::GraphPools;
use crate::report::Report;
use crate::run::DeviceTape;

/// From this share of the reserved bytes on that are live, no setting is advised: there is next to nothing to gain.
const LIVE_SHARE_MIN: f64 = 0.99;

/// How many replays [`measure`] makes at most.
pub const REPLAYS_MAX: u64 = USUAL_SETTINGS.len() as u64 + 4;

/// The kind of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// These settings help.
    Settings,
    /// No allocator helps: the memory is live, or the device is too small for what is live.
    NothingHelps,
    /// None of the candidates helps.
    NoCandidateHelps,
}

/// The figures of all ranks under one line of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The most that the worst rank held from the device at once.
    pub peak_reserved_bytes: u64,
    /// Calls of all ranks that obtain or return device memory.
    pub device_calls: i64,
    /// Times memory was out, over all ranks.
    pub num_ooms: i64,
}

/// Which setting to try, as replays show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The kind of advice.
    pub kind: Kind,
    /// The text for `PYTORCH_CUDA_ALLOC_CONF`, if settings are advised; empty is PyTorch's defaults.
    pub settings: Option<String>,
    /// Whether `search_after_flush:True` in `VRAMTAPE_CONF` is part of it.
    pub search_after_flush: bool,
    /// As recorded.
    pub before: Figures,
    /// Under the advised settings.
    pub after: Option<Figures>,
    /// The most bytes that the worst rank had alive at once.
    pub peak_live_bytes: u64,
    /// What other pools for captured graphs would reserve, on the worst rank; `None` where no graph was captured.
    pub graph_pools: Option<GraphPools>,
    /// The same as a sentence without its full stop.
    pub text: String,
}

/// One run under its recorded settings and under each candidate.
#[derive(Clone, Debug)]
pub struct Measured {
    recorded: Line,
    before: Report,
    lines: Vec<(Line, Report)>,
    /// The most bytes that were live or requested at once.
    demand_bytes: u64,
    graph_pools: Option<GraphPools>,
    capacity_bytes: Option<u64>,
}

/// Replays a run under its own settings and under each candidate. Of the `known` rows, which are without recorded
/// changes of settings, those that fit are taken instead. A candidate that passes the bound of driver calls is left
/// out. `progress` is called after each replay.
///
/// # Errors
/// When the run cannot be replayed, or its settings cannot be read.
pub fn measure(
    member: &Member<'_>,
    compat: Compat,
    known: &[StrategyRow],
    progress: &(dyn Fn() + Sync),
) -> Result<Measured, TuneError> {
    let recorded = Line::read(&member.settings);
    let config = member.recorded_config(compat)?;
    let changes = |event: &Event| matches!(event, Event::Settings { .. });
    let has_changes = member.follow.is_as_recorded
        && member.tape.records.iter().any(|record| changes(&record.event));
    let is_other = has_changes || member.stitched.is_some();
    let known_before = known_row(known, &recorded).filter(|_| !is_other);
    let before = match known_before.and_then(StrategyRow::report) {
        Some(report) => report.clone(),
        None => member.replay(&config, member.follow, progress)?,
    };
    let lines = candidates(&recorded, before.num_ooms > 0);
    let of_line = |line: Line| -> Option<Result<(Line, Report)>> {
        if let Some(row) = known_row(known, &line) {
            return row.report().map(|report| Ok((line, report.clone())));
        }
        let config = line.config(compat)?;
        let follow = Follow { is_as_recorded: false, ..member.follow };
        match member.replay(&config, follow, progress) {
            Err(DriveError::TooMuch { .. }) => None,
            replayed => Some(replayed.map(|report| (line, report))),
        }
    };
    let lines = lines.into_par_iter().filter_map(of_line).collect::<Result<Vec<_>, _>>()?;
    let demand_bytes = demand_bytes(member.tape);
    let capacity_bytes = member.capacity_bytes;
    let graph_pools = GraphPools::of(member.tape.records, before.peak_reserved_bytes, |records| {
        let text = |id| (member.tape.text)(id);
        let changed = Member {
            tape: DeviceTape { base: member.tape.base, records, text: &text },
            settings: member.settings.clone(),
            stitched: member.stitched.clone(),
            capacity_bytes: member.capacity_bytes,
            follow: member.follow,
        };
        Ok(changed.replay(&config, member.follow, progress)?.peak_reserved_bytes)
    })?;
    Ok(Measured { recorded, before, lines, demand_bytes, graph_pools, capacity_bytes })
}

/// The lines that are tried for a run with these settings: the usual ones, and our search after the last flush where
/// memory was out.
pub(crate) fn candidates(recorded: &Line, is_out_of_memory: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let searches = is_out_of_memory.then(|| Line { search_after_flush: true, ..recorded.clone() });
    for line in USUAL_SETTINGS.into_iter().map(|text| recorded.bare().and(text)).chain(searches) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn known_row<'r>(known: &'r [StrategyRow], line: &Line) -> Option<&'r StrategyRow> {
    known.iter().find(|row| {
        let (strategy, config) = row.name_and_config();
        ["native", "expandable"].contains(&strategy) && Line::read(config) == *line
    })
}

/// The most bytes that the program held or requested at once. No allocator serves it with less.
fn demand_bytes(tape: DeviceTape<'_>) -> u64 {
    let blocks = tape.base.segments.iter().flat_map(|segment| &segment.blocks);
    let blocks = blocks.filter(|block| block.status == BlockStatus::Allocated);
    let mut live_bytes: u64 = blocks.map(|block| block.requested_bytes).sum();
    let mut most_bytes = live_bytes;
    for record in tape.records {
        match record.event {
            Event::Alloc { requested_bytes, .. } => {
                live_bytes = live_bytes.saturating_add(requested_bytes);
            }
            Event::Free { requested_bytes, .. } => {
                live_bytes = live_bytes.saturating_sub(requested_bytes);
            }
            Event::Oom { requested_bytes, .. } => {
                most_bytes = most_bytes.max(live_bytes.saturating_add(requested_bytes));
            }
            _ => {}
        }
        most_bytes = most_bytes.max(live_bytes);
    }
    most_bytes
}

/// The advice for the runs together, each of which was measured; `None` where there is no run.
pub fn choose(runs: &[Measured]) -> Option<Advice> {
    let worst = runs.iter().max_by_key(|run| run.before.peak_reserved_bytes)?;
    let reports: Vec<_> = runs.iter().map(|run| run.before.clone()).collect();
    let before = Score::of(&reports, None);
    let (live_bytes, reserved_bytes) =
        (worst.before.peak_live_bytes, worst.before.peak_reserved_bytes);
    let is_live = live_bytes as f64 >= LIVE_SHARE_MIN * reserved_bytes as f64;
    let best = best(runs, &before).filter(|_| before.ooms > 0 || !is_live);
    let mut advice = Advice {
        kind: Kind::Settings,
        settings: None,
        search_after_flush: false,
        before: figures(&before),
        after: None,
        peak_live_bytes: live_bytes,
        graph_pools: worst.graph_pools,
        text: String::new(),
    };
    if let Some((line, after)) = best {
        advice.settings = Some(line.text());
        advice.search_after_flush = line.search_after_flush;
        advice.after = Some(figures(&after));
        advice.text = gain(&label(line, &worst.recorded), &before, &after, runs.len());
        return Some(advice);
    }
    let lacks = |run: &&Measured| {
        run.before.num_ooms > 0
            && run.capacity_bytes.is_some_and(|capacity_bytes| run.demand_bytes > capacity_bytes)
    };
    let short = runs.iter().filter(lacks).max_by_key(|run| run.demand_bytes);
    (advice.kind, advice.text) = match short {
        Some(Measured { demand_bytes, capacity_bytes, .. }) => (
            Kind::NothingHelps,
            format!(
                "nothing in the allocator helps: {} are live or requested at once, and the device has {}",
                ByteSize(*demand_bytes),
                ByteSize(capacity_bytes.unwrap_or_default())
            ),
        ),
        None if is_live => (
            Kind::NothingHelps,
            format!(
                "nothing in the allocator helps: {} of {} are live",
                ByteSize(live_bytes),
                ByteSize(reserved_bytes)
            ),
        ),
        None if before.ooms > 0 => (
            Kind::NoCandidateHelps,
            "none of the usual settings serves more requests, replayed".to_owned(),
        ),
        None => (
            Kind::NoCandidateHelps,
            "none of the usual settings reserves noticeably less, replayed".to_owned(),
        ),
    };
    Some(advice)
}

/// The best line that every run was measured under, if it is a gain: of lines that are about as good the simplest.
fn best<'r>(runs: &'r [Measured], before: &Score) -> Option<(&'r Line, Score)> {
    let score = |line: &'r Line| {
        let of_run =
            |run: &Measured| Some(run.lines.iter().find(|(other, _)| other == line)?.1.clone());
        let reports = runs.iter().map(of_run).collect::<Option<Vec<_>>>()?;
        let score = Score::of(&reports, Some(before));
        Some((line, Score { complexity: line.complexity(), ..score }))
    };
    let scored = runs.first()?.lines.iter().filter_map(|(line, _)| score(line));
    let harmless: Vec<_> = scored.filter(|(_, score)| score.ooms_more == 0).collect();
    let (_, goal) = harmless.iter().min_by_key(|(line, score)| (score.clone(), line.text()))?;
    let near = harmless.iter().filter(|(_, score)| score.is_about_as_good_as(goal));
    let simplest =
        near.min_by_key(|(line, score)| (score.complexity, score.clone(), line.text()))?;
    simplest.1.is_memory_gain_over(before).then(|| simplest.clone())
}

fn figures(score: &Score) -> Figures {
    Figures {
        peak_reserved_bytes: score.worst_reserved_bytes,
        device_calls: score.device_calls,
        num_ooms: score.ooms,
    }
}

/// The settings in words.
fn label(line: &Line, recorded: &Line) -> String {
    const OURS: &str = "search_after_flush:True in VRAMTAPE_CONF";
    let text = match line.text() {
        text if text.is_empty() => "PyTorch's defaults".to_owned(),
        text => text,
    };
    match line.search_after_flush {
        true if line.text() == recorded.text() => OURS.to_owned(),
        true => format!("{text} and {OURS}"),
        false => text,
    }
}

/// The gain in words.
fn gain(label: &str, before: &Score, after: &Score, runs: usize) -> String {
    if after.ooms < before.ooms {
        let plural = if after.ooms == 1 { "" } else { "s" };
        let (now, then) = (after.ooms, before.ooms);
        return format!("{label}: {now} time{plural} out of memory instead of {then}, replayed");
    }
    let (now, then) = (ByteSize(after.worst_reserved_bytes), ByteSize(before.worst_reserved_bytes));
    match runs {
        1 => format!("{label}: {now} instead of {then}, replayed"),
        _ => format!("{label}: at most {now} on any rank instead of {then}, replayed"),
    }
}
