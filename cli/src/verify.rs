//! `vramtape verify RUN --meta META.json`: whether our allocator does what the recorded one did.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use replay::import::{Origin, RunLimits, import_file};
use replay::tape::Tape;
use replay::verify::{Agreement, RecordedRun, Verification, verify, verify_tape};
use serde::Serialize;
use trace_format::DeviceId;

use crate::input::TrustFlag;
use crate::start::{self, Started};
use crate::{Verdict, against, input, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A PyTorch memory snapshot, or a tape
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// JSON about its run: torch, device_total_bytes, fraction, memory_stats
    #[arg(long, value_name = "META.json")]
    meta: Option<PathBuf>,
    /// Compare the placements with those of another run instead
    #[arg(long, value_name = "EXPECTED", conflicts_with = "meta")]
    against: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trust: TrustFlag,
}

#[derive(Serialize)]
struct Report {
    same: bool,
    devices: Vec<DeviceReport>,
}

#[derive(Serialize)]
struct DeviceReport {
    device: u16,
    same: bool,
    #[serde(flatten)]
    verification: Verification,
}

/// Replays under the recorded settings and compares.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    if let Some(expected) = &options.against {
        let known = options.trust.with(&RunLimits::default());
        return against::run(expected, &options.run, &known, options.json);
    }
    let recorded = input::recorded(options.meta.as_deref())?;
    let devices: Vec<_> =
        verifications(&options.run, &options.trust.with(&recorded.known()), &recorded)?
            .into_iter()
            .map(|(device, verification)| DeviceReport {
                device: device.0,
                same: verification.holds(),
                verification,
            })
            .collect();
    let report = Report { same: devices.iter().all(|device| device.same), devices };
    output::print_report(options.json, &report, || report.devices.iter().map(text).collect())?;
    Ok(if report.same { Verdict::Good } else { Verdict::Bad })
}

/// Of a tape or a snapshot.
fn verifications(
    run: &Path,
    known: &RunLimits,
    recorded: &RecordedRun,
) -> Result<Vec<(DeviceId, Verification)>> {
    if run != Path::new("-")
        && let Some(tape) = Tape::open_recorded(run, known.trust_factor)?
    {
        input::warn_of(run, &tape);
        input::warn_of_plan(&tape);
        return Ok(verify_tape(&tape, recorded)?);
    }
    let import = import_file(run, known).context(
        "verify needs a tape, or a snapshot that PyTorch wrote; --against compares two runs of any kind",
    )?;
    if import.origin != Origin::Snapshot {
        bail!(
            "{} is {}: it has no placements to verify; try `vramtape compare`",
            run.display(),
            import.origin
        );
    }
    Ok(verify(&import, recorded)?)
}

fn text(report: &DeviceReport) -> String {
    let Verification {
        start,
        steps,
        allocations,
        replay_differs,
        final_state,
        stats,
        page_violation,
    } = &report.verification;
    let verdict = if report.same { "the same as recorded" } else { "NOT as recorded" };
    let mut lines = vec![format!("device {}: {verdict}", report.device)];
    if let Some(start) = *start {
        lines.push(format!("  {}", Started { start, cold: false }.sentence(None).trim_end()));
    }
    if let Some(differs) = replay_differs {
        lines.push(format!("  {}", start::difference(differs).trim_end()));
    }
    lines.push(format!(
        "  {} allocations, {} halves of frees, {} segment events, {} refused requests",
        steps.allocations, steps.frees, steps.segment_events, steps.ooms
    ));
    if let Some(difference) = &steps.difference {
        lines.push(format!("  {difference}"));
        lines.push(format!(
            "  {} of {allocations} allocations are placed as recorded up to there",
            steps.allocations
        ));
    }
    match final_state {
        Some(Agreement { first_difference: Some(found), .. }) => {
            lines.push(format!("  segments at the end: {found}"));
        }
        Some(agreement) => {
            lines.push(format!("  {} segments and blocks at the end", agreement.recorded));
        }
        None => {}
    }
    if let Some(violation) = page_violation {
        lines.push(format!("  pages of stitch are used in a way that is not safe: {violation}"));
    }
    let shown = |value: Option<i64>| value.map_or("nothing".to_owned(), |value| value.to_string());
    match stats {
        None => lines.push("  statistics: none recorded to compare with (--meta)".to_owned()),
        Some(differences) => {
            lines.push(format!("  statistics: {} differ", differences.len()));
            lines.extend(differences.iter().map(|stat| {
                let (recorded, replayed) = (shown(stat.recorded), shown(stat.replayed));
                format!("    {}: recorded {recorded}, replayed {replayed}", stat.key)
            }));
        }
    }
    lines.join("\n") + "\n"
}
