//! One moment of a run, explained.

use std::path::Path;

use anyhow::{Result, bail};
use replay::explain::{At, Explanation, PARTS, Question, capacity_at_oom, explain};
use replay::run::Addresses;
use serde::Serialize;
use viewer::ExplainPlot;

use super::Options;
use super::run_text::text;
use crate::progress::Progress;
use crate::runs::{Bound, inferred_notes};
use crate::setting::Chosen;
use crate::start::{self, Started};
use crate::{Verdict, bytes, output, page};

#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// The memory before the first record; `null` where the run begins with an empty device.
    start: Option<Started>,
    /// Facts that were inferred, a sentence each.
    inferred: &'a [String],
    #[serde(flatten)]
    bound: &'a Bound,
}

/// Replays and prints.
pub(super) fn run(options: &Options, run: &Path) -> Result<Verdict> {
    if let Some(file) = &options.html {
        output::check(file, options.force)?;
        if options.json && file == Path::new("-") {
            bail!("--json and the page cannot both go to standard output: give --html a file");
        }
    }
    let chosen = options.machine.read_one(run)?;
    let setting = chosen.setting(options.strategy.as_ref(), options.config.as_deref())?;
    let progress = Progress::start("replaying", PARTS);
    let (explanation, note) = explained(&chosen, setting, options.at, &|parts| progress.at(parts))?;
    drop(progress);
    if let Some(file) = &options.html {
        write_page(file, run, &chosen, &explanation)?;
        if file == Path::new("-") {
            return Ok(Verdict::Good);
        }
    }
    let inferred: Vec<_> = chosen.inferred().iter().cloned().chain(note).collect();
    let bound = Bound::of(&chosen);
    let start = chosen.started();
    if options.json {
        let (explanation, inferred, bound) = (&explanation, &inferred, &bound);
        output::print_json(&Answer { explanation, start, inferred, bound })?;
    } else {
        let about = start::paragraph(start, None) + &inferred_notes(&inferred);
        output::print(&(text(&explanation) + &about))?;
    }
    Ok(Verdict::Good)
}

/// Writes the page of the device with the explanation.
fn write_page(file: &Path, run: &Path, chosen: &Chosen, explanation: &Explanation) -> Result<()> {
    let progress =
        Progress::start("writing the page", page::PASSES * chosen.device().records.len() as u64);
    let name = run.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut device = page::device(&name, chosen, &|records| progress.add(records))?;
    device.add_explanation(&ExplainPlot::new(explanation));
    let page = page::page(&name, vec![device]);
    if file == Path::new("-") {
        return page::write_to(&page, &mut std::io::stdout().lock());
    }
    page::write(&page, file).map(drop)
}

/// The explanation of a moment, and the capacity that was inferred for it in a sentence.
pub(crate) fn explained(
    chosen: &Chosen,
    mut setting: replay::run::Options,
    at: Option<At>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(Explanation, Option<String>)> {
    let mut device_bytes = chosen.device_bytes();
    let mut note = None;
    // What others held of the device at the refusal was not this run's to use.
    let at_oom = capacity_at_oom(chosen.device()).filter(|_| chosen.is_as_recorded());
    if let Some(at_oom) =
        at_oom.filter(|at_oom| setting.capacity_bytes.is_none_or(|it| *at_oom < it))
    {
        device_bytes = device_bytes.max(setting.capacity_bytes);
        setting.capacity_bytes = Some(at_oom);
        note = Some(format!(
            "the run can have {}: what it held and what was free at its last refused request",
            bytes::show(at_oom)
        ));
    }
    let is_as_recorded = setting.addresses == Addresses::Recorded;
    let (tape, device) = (chosen.tape(), chosen.device());
    let question = Question { tape, device, at, device_bytes, is_as_recorded };
    Ok((explain(&question, &setting, progress)?, note))
}
