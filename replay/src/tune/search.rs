//! The search itself: coordinate descent from a few starts, every line replayed on every run.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use settings::{Compat, Config, StitchConfig};
use trace_format::Event;

use super::{Outcome, Proof};
use crate::candidate::line::{KNOBS, Line};
use crate::candidate::score::{Score, device_calls};
use crate::candidate::{Member, TuneError};
use crate::driver::{DriveError, Follow, Result};
use crate::fit::{Fit, Search as FitSearch, fit};
use crate::report::Report;

/// A search in progress.
pub(super) struct Tuner<'a, 't> {
    pub(super) members: &'a [Member<'t>],
    pub(super) compat: Compat,
    pub(super) lines_max: usize,
    pub(super) progress: &'a (dyn Fn() + Sync),
    /// The score of the runs as recorded.
    pub(super) before: Score,
    /// Lines and their scores; `None` for lines that cannot be set.
    pub(super) seen: HashMap<Line, Option<Score>>,
}

impl Tuner<'_, '_> {
    /// The runs as they were recorded, each with its own settings and their changes.
    pub(super) fn before(&self) -> Result<(Vec<Config>, Vec<Report>), TuneError> {
        let recorded = |member: &Member<'_>| member.recorded_config(self.compat);
        let configs = self.members.iter().map(recorded).collect::<Result<Vec<_>, TuneError>>()?;
        let both: Vec<_> = self.members.iter().zip(&configs).collect();
        let replay = |(member, config): &(&Member<'_>, &Config)| {
            member.replay(config, Follow { is_as_recorded: true, ..member.follow }, self.progress)
        };
        let reports = both.par_iter().map(replay).collect::<Result<_, _>>()?;
        Ok((configs, reports))
    }

    /// Goes down from every start, until no knob helps.
    pub(super) fn descend(&mut self, recorded: &Line) -> Result<(), TuneError> {
        let mut expandable = recorded.bare();
        expandable.values[0] = Some("True".to_owned());
        for start in [recorded.clone(), recorded.bare(), expandable] {
            self.look_at(vec![start.clone()])?;
            let mut at = start;
            let mut since_gain = 0;
            // A round over all knobs that changes nothing is the end.
            for knob in (0..=KNOBS.len()).cycle() {
                let values = self.alternatives(&at, knob);
                self.look_at(values.clone())?;
                let better = values.into_iter().filter(|line| self.is_better(line, &at));
                let best = better
                    .reduce(|one, other| if self.is_better(&other, &one) { other } else { one });
                since_gain = if best.is_some() { 0 } else { since_gain + 1 };
                at = best.unwrap_or(at);
                if since_gain > KNOBS.len() || self.is_full() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The lines that differ from this one in one knob; the one behind the last is `search_after_flush`.
    fn alternatives(&self, line: &Line, knob: usize) -> Vec<Line> {
        if knob == KNOBS.len() {
            // It serves what else would be out of memory, and nothing besides.
            let is_short = self.score(line).is_some_and(|score| score.ooms > 0);
            let other = Line { search_after_flush: !line.search_after_flush, ..line.clone() };
            return if is_short || line.search_after_flush { vec![other] } else { Vec::new() };
        }
        let key = KNOBS[knob].key;
        let matters = match key {
            // Only oversize requests ask for it, and only a limit makes any.
            "max_non_split_rounding_mb" => line.values[1].is_some(),
            // Its threshold is a share of what a memory fraction allows.
            "garbage_collection_threshold" => self.has_fraction(),
            _ => true,
        };
        if !matters {
            return Vec::new();
        }
        let recorded = self
            .members
            .iter()
            .filter_map(|member| Line::read(&member.settings).values[knob].clone());
        let tried = KNOBS[knob].values.iter().map(|value| (*value).to_owned());
        let mut lines: Vec<Line> = Vec::new();
        for value in std::iter::once(None).chain(recorded.map(Some)).chain(tried.map(Some)) {
            let mut other = line.clone();
            other.values[knob] = value;
            if other != *line && !lines.contains(&other) {
                lines.push(other);
            }
        }
        lines
    }

    fn has_fraction(&self) -> bool {
        self.members.iter().any(|member| {
            let set = |event: &Event| matches!(event, Event::MemoryFraction { fraction } if *fraction < 1.0);
            member.tape.base.memory_fraction.is_some_and(|fraction| fraction < 1.0)
                || member.settings.contains("per_process_memory_fraction")
                || member.tape.records.iter().any(|record| set(&record.event))
        })
    }

    /// Replays every run under those of the lines that are new.
    fn look_at(&mut self, lines: Vec<Line>) -> Result<(), TuneError> {
        let room = self.lines_max.saturating_sub(self.seen.values().flatten().count());
        let new: Vec<_> = lines.into_iter().filter(|line| !self.seen.contains_key(line)).collect();
        let configs: Vec<_> = new.iter().map(|line| line.config(self.compat)).collect();
        let jobs =
            configs.iter().enumerate().filter_map(|(at, config)| Some((at, config.as_ref()?)));
        let jobs: Vec<_> = jobs
            .take(room)
            .flat_map(|(at, config)| self.members.iter().map(move |member| (at, config, member)))
            .collect();
        let reports: Mutex<HashMap<usize, Vec<(usize, Report)>>> = Mutex::default();
        jobs.par_iter().enumerate().try_for_each(|(job, (at, config, member))| {
            let follow = Follow { is_as_recorded: false, ..member.follow };
            let report = member.replay(config, follow, self.progress)?;
            let mut reports = reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.entry(*at).or_default().push((job, report));
            Ok::<_, DriveError>(())
        })?;
        let mut reports = reports.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (at, line) in new.into_iter().enumerate() {
            let replayed = reports.remove(&at).map(|mut of_line| {
                of_line.sort_by_key(|(job, _)| *job);
                let of_line: Vec<_> = of_line.into_iter().map(|(_, report)| report).collect();
                Score { complexity: line.complexity(), ..Score::of(&of_line, Some(&self.before)) }
            });
            if replayed.is_some() || configs[at].is_none() {
                self.seen.insert(line, replayed);
            }
        }
        Ok(())
    }

    /// Replays every run under a line, whatever the limit.
    pub(super) fn replay_now(&mut self, line: &Line) -> Result<(), TuneError> {
        let lines_max = std::mem::replace(&mut self.lines_max, usize::MAX);
        self.look_at(vec![line.clone()])?;
        self.lines_max = lines_max;
        Ok(())
    }

    /// Whether a line is worth a change from another one.
    pub(super) fn is_gain_over(&self, line: &Line, other: &Line) -> bool {
        let both = self.score(line).zip(self.score(other));
        both.is_some_and(|(one, two)| one.is_gain_over(two))
    }

    pub(super) fn is_full(&self) -> bool {
        self.seen.values().flatten().count() >= self.lines_max
    }

    fn score(&self, line: &Line) -> Option<&Score> {
        self.seen.get(line).and_then(Option::as_ref)
    }

    /// The best line that makes no more device calls than this, less the knobs that do not earn their place.
    pub(super) fn best(&mut self, calls_max: i64) -> Result<Option<Line>, TuneError> {
        let Some(mut best) = self.best_among(|score| score.device_calls <= calls_max) else {
            return Ok(None);
        };
        let Some(goal) = self.score(&best).cloned() else { return Ok(None) };
        for knob in (0..KNOBS.len()).rev() {
            let mut simpler = best.clone();
            if simpler.values[knob].take().is_none() {
                continue;
            }
            self.look_at(vec![simpler.clone()])?;
            let is_as_good =
                |score: &Score| score.device_calls <= calls_max && score.is_about_as_good_as(&goal);
            if self.score(&simpler).is_some_and(is_as_good) {
                best = simpler;
            }
        }
        Ok(Some(best))
    }

    fn is_better(&self, line: &Line, other: &Line) -> bool {
        match (self.score(line), self.score(other)) {
            (Some(one), Some(two)) => (one, line.text()) < (two, other.text()),
            (one, _) => one.is_some(),
        }
    }

    fn best_among(&self, admits: impl Fn(&Score) -> bool) -> Option<Line> {
        let known = self.seen.iter().filter_map(|(line, score)| Some((score.as_ref()?, line)));
        let admitted = known.filter(|(score, _)| score.ooms_more == 0 && admits(score));
        admitted
            .min_by_key(|(score, line)| ((*score).clone(), line.text()))
            .map(|(_, line)| line.clone())
    }

    /// Whether a line makes more device calls than the runs made.
    pub(super) fn calls_more(&self, line: &Line) -> bool {
        self.score(line).is_some_and(|score| score.device_calls > self.before.device_calls)
    }

    /// Whether a line is worth a change.
    pub(super) fn gain(&self, line: &Line) -> bool {
        self.score(line).is_some_and(|score| score.is_gain_over(&self.before))
    }

    pub(super) fn replayed_proof(&self, line: &Line) -> Result<Proof, TuneError> {
        let config = line.config(self.compat).expect("a line that was replayed");
        self.proof_under(line, config)
    }

    /// Every run under `stitch`; `None` where one takes too many driver calls, or the rest of the recorded settings
    /// cannot be set.
    pub(super) fn stitched_proof(&self, recorded: &Line) -> Result<Option<Proof>, TuneError> {
        let line = recorded.bare();
        let Some(config) = line.config(self.compat) else { return Ok(None) };
        let config = Config { stitch: Some(StitchConfig::default()), ..config };
        match self.proof_under(&line, config) {
            Ok(proof) => Ok(Some(proof)),
            Err(TuneError::Drive(DriveError::TooMuch { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn proof_under(&self, line: &Line, config: Config) -> Result<Proof, TuneError> {
        let replay = |member: &Member<'_>| {
            member.replay(&config, Follow { is_as_recorded: false, ..member.follow }, self.progress)
        };
        let reports = self.members.par_iter().map(replay).collect::<Result<Vec<_>, _>>()?;
        let configs = vec![config; self.members.len()];
        self.proof(line, &configs, &reports)
    }

    pub(super) fn proof(
        &self,
        line: &Line,
        configs: &[Config],
        reports: &[Report],
    ) -> Result<Proof, TuneError> {
        let both: Vec<_> = self.members.iter().zip(configs).collect();
        let fits = both.par_iter().map(|(member, config)| {
            let search = FitSearch { follow: member.follow, checks: 0, device_bytes: None };
            let choices = [(*config).clone().into()];
            Ok(fit(member.tape, &choices, search, self.progress)?.remove(0))
        });
        let fits = fits.collect::<Result<Vec<Fit>>>()?;
        let runs =
            self.members.iter().zip(reports).zip(fits).map(|((member, report), fit)| Outcome {
                peak_reserved_bytes: report.peak_reserved_bytes,
                device_calls: device_calls(report),
                num_alloc_retries: report.num_alloc_retries,
                num_ooms: report.num_ooms,
                fits_from_bytes: fit.capacity_bytes,
                margin_bytes: member
                    .capacity_bytes
                    .zip(fit.capacity_bytes)
                    .map(|(has, needs)| signed(has).saturating_sub(signed(needs))),
            });
        Ok(Proof {
            settings: line.text(),
            search_after_flush: line.search_after_flush,
            runs: runs.collect(),
        })
    }
}

/// A size as a number that may become negative; a capacity that a file claims can be anything.
fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
