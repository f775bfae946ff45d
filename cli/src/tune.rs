//! `vramtape tune RUN...`: the settings under which several runs reserve the least, with the replays that show it.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, bail};
use replay::advice::Kind;
use replay::ranks::Skipped;
use replay::run::DeviceTape;
use replay::tune::{Member, Outcome, Proof, Tuning, tune};
use serde::Serialize;
use trace_format::StringId;

use crate::progress::Progress;
use crate::runs::{Bound, RunsFlags, inferred_notes};
use crate::setting::Chosen;
use crate::start::Started;
use crate::table::Table;
use crate::{Verdict, bytes, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    runs: RunsFlags,
    /// Lines that are tried, at most about
    #[arg(long, value_name = "N", default_value_t = 200)]
    lines: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The runs, in the order of `before.runs` and the others.
    runs: Vec<String>,
    /// The lines to export; none where there is nothing to gain.
    export: Vec<String>,
    #[serde(flatten)]
    tuning: &'a Tuning,
    /// The memory before each run's first record; `null` where it begins with an empty device.
    start: Vec<Option<Started>>,
    /// Facts that imports inferred, a sentence each.
    inferred: Vec<&'a str>,
    skipped: &'a [Skipped],
    /// Whether the numbers of any run are lower bounds.
    lower_bound: bool,
    /// How the runs ended.
    endings: Vec<&'a Bound>,
}

/// Searches and prints the line to export.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    // Each line is replayed on every run: all of them stay in memory.
    let read = options.runs.each("reading", 1, |chosen, _| Ok(chosen.clone()))?;
    let runs: Vec<_> = read.ranks.iter().map(|rank| rank.name.clone()).collect();
    let chosen: Vec<_> = read.ranks.iter().map(|rank| &rank.found).collect();
    let Some(first) = chosen.first() else { bail!("no RUN to tune: name at least one") };
    if let Some(other) = chosen.iter().find(|other| other.compat() != first.compat()) {
        bail!(
            "the runs are of different PyTorch versions (as {} and as {}): choose one with --compat",
            first.compat().name(),
            other.compat().name()
        );
    }
    let texts: Vec<_> = chosen.iter().map(|chosen| |id: StringId| chosen.tape().text(id)).collect();
    let members = chosen.iter().zip(&texts).map(|(chosen, text)| member(chosen, text));
    let members: Vec<_> = members.collect::<Result<_>>()?;

    let records: u64 = chosen.iter().map(|chosen| chosen.device().records.len() as u64).sum();
    let each = records / chosen.len() as u64;
    let total = (options.lines * chosen.len()) as u64;
    let progress = Progress::start("tuning", total * each);
    let done = AtomicU64::new(0);
    let tuning = tune(&members, first.compat(), options.lines, &|| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.at(done.min(total) * each);
    })?;
    drop(progress);
    let export = tuning.best.as_ref().map_or(Vec::new(), export);
    if options.json {
        let inferred = chosen.iter().flat_map(|chosen| chosen.inferred()).map(String::as_str);
        let inferred = inferred.collect();
        let skipped = &read.skipped;
        let start = chosen.iter().map(|chosen| chosen.started()).collect();
        let tuning = &tuning;
        let lower_bound = read.is_lower_bound();
        let endings = read.ranks.iter().map(|rank| &rank.bound).collect();
        let report =
            Report { runs, export, tuning, start, inferred, skipped, lower_bound, endings };
        output::print_json(&report)?;
    } else {
        let notes: String = chosen.iter().map(|chosen| inferred_notes(chosen.inferred())).collect();
        let started = |(at, chosen): (usize, &&Chosen)| {
            let peak = tuning.before.runs[at].peak_reserved_bytes;
            let sentence = chosen.started()?.sentence(Some(peak));
            Some(format!("\n{} {sentence}", runs[at]))
        };
        let started: String = chosen.iter().enumerate().filter_map(started).collect();
        let bounds: Vec<_> = read.ranks.iter().map(|rank| &rank.bound).collect();
        let text = text(&runs, &bounds, &tuning) + &started + &read.at_least();
        output::print(&(text + &read.left_out() + &notes))?;
    }
    Ok(Verdict::Good)
}

fn member<'t>(
    chosen: &'t Chosen,
    text: &'t (dyn Fn(StringId) -> &'t str + Sync),
) -> Result<Member<'t>> {
    let device = chosen.device();
    Ok(Member {
        tape: DeviceTape { base: &device.base, records: &device.records, text },
        settings: chosen.recorded_settings(),
        stitched: chosen.recorded_stitch()?,
        capacity_bytes: chosen.capacity_bytes,
        follow: chosen.follow,
    })
}

/// The line to put into the environment.
fn export(proof: &Proof) -> Vec<String> {
    let pytorch = if proof.settings.is_empty() {
        "unset PYTORCH_CUDA_ALLOC_CONF".to_owned()
    } else {
        format!("export PYTORCH_CUDA_ALLOC_CONF={}", quoted(&proof.settings))
    };
    let ours =
        proof.search_after_flush.then(|| "export VRAMTAPE_CONF=search_after_flush:True".to_owned());
    std::iter::once(pytorch).chain(ours).collect()
}

/// Quoted where a shell would read it otherwise.
fn quoted(settings: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.:,-".contains(c);
    if settings.chars().all(is_plain) { settings.to_owned() } else { format!("\"{settings}\"") }
}

fn text(runs: &[String], bounds: &[&Bound], tuning: &Tuning) -> String {
    let graphs = tuning.advice.graph_pools.map(|graphs| format!("\n{graphs}"));
    let graphs = graphs.filter(|graphs| graphs.len() > 1).unwrap_or_default();
    settings_text(runs, bounds, tuning) + &graphs
}

/// Printed below a table with a row of `stitch`.
const STITCH_NOTE: &str =
    "stitch: VRAMTAPE_CONF=strategy:stitch, for comparison; it has run on one GPU so far\n";

/// The settings that help, or that none does.
fn settings_text(runs: &[String], bounds: &[&Bound], tuning: &Tuning) -> String {
    let table = |proofs: &[(&str, &Proof)]| table(runs, bounds, proofs);
    let advice = &tuning.advice.text;
    let tried = format!(
        "{} lines replayed on {} run{}{}\n",
        tuning.lines,
        runs.len(),
        if runs.len() == 1 { "" } else { "s" },
        if tuning.stopped_early { "; stopped there, --lines takes more" } else { "" }
    );
    let stitch = tuning.stitch.as_ref().map(|proof| ("stitch", proof));
    let note = if stitch.is_some() { STITCH_NOTE } else { "" };
    let Some(best) = &tuning.best else {
        let rows = [Some(("before", &tuning.before)), stitch];
        let table = table(&rows.into_iter().flatten().collect::<Vec<_>>());
        return format!("nothing to gain: {advice}\n{tried}\n{table}{note}");
    };
    let lines = export(best).join("\n");
    let mut text = match tuning.advice.kind {
        Kind::Settings => format!("{lines}\n\n{advice}\n{tried}\n"),
        _ => format!("{lines}\n\n{advice}; a longer search found this line\n{tried}\n"),
    };
    let rows = [Some(("before", &tuning.before)), Some(("after", best)), stitch];
    text.push_str(&table(&rows.into_iter().flatten().collect::<Vec<_>>()));
    text.push_str(note);
    if let Some(further) = &tuning.further {
        let lines = export(further).join("\n");
        text.push_str(
            "\na longer search found a better line, fitted more closely to these runs:\n\n",
        );
        text.push_str(&lines);
        text.push_str("\n\n");
        text.push_str(&table(&[("after", further)]));
    }
    if let Some(frugal) = &tuning.best_without_more_calls {
        let lines = export(frugal).join("\n");
        text.push_str("\nwith no more device calls than before:\n\n");
        text.push_str(&lines);
        text.push_str("\n\n");
        text.push_str(&table(&[("after", frugal)]));
    }
    text
}

fn table(runs: &[String], bounds: &[&Bound], proofs: &[(&str, &Proof)]) -> String {
    let heads =
        ["run", "", ">reserved", ">device calls", ">retries", ">OOMs", ">fits from", ">margin"];
    let mut table = Table::new(&heads);
    for (at, run) in runs.iter().enumerate() {
        for (when, proof) in proofs {
            let Outcome { num_ooms, num_alloc_retries, device_calls, .. } = proof.runs[at];
            let shown = |text: Option<String>| text.unwrap_or_else(|| "never".to_owned());
            table.row([
                run.clone(),
                (*when).to_owned(),
                bounds[at].number(bytes::show(proof.runs[at].peak_reserved_bytes)),
                device_calls.to_string(),
                num_alloc_retries.to_string(),
                num_ooms.to_string(),
                shown(
                    proof.runs[at]
                        .fits_from_bytes
                        .map(|bytes| bounds[at].number(bytes::show(bytes))),
                ),
                margin(proof.runs[at].margin_bytes, bounds[at]),
            ]);
        }
    }
    table.render()
}

/// The least memory left on the device, in words.
fn margin(bytes: Option<i64>, bound: &Bound) -> String {
    match bytes {
        None => "not known".to_owned(),
        Some(short @ ..0) => format!("{} short", bytes::show(short.unsigned_abs())),
        Some(left) if bound.lower_bound => format!("at most {}", bytes::show(left.unsigned_abs())),
        Some(left) => bytes::show(left.unsigned_abs()),
    }
}
