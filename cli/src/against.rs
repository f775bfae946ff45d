//! `vramtape verify RUN --against EXPECTED`: whether two runs put everything in the same places.

use std::path::Path;

use anyhow::{Result, bail};
use replay::import::RunLimits;
use replay::placements::{Run, compare};
use replay::tape::Device;
use serde::Serialize;

use crate::{Verdict, input, output};

#[derive(Default, Serialize)]
struct Report {
    same: bool,
    allocations: u64,
    frees: u64,
    segment_events: u64,
    ooms: u64,
    differences: Vec<Difference>,
}

#[derive(Serialize)]
struct Difference {
    device: u16,
    after_steps: u64,
    expected: String,
    actual: String,
}

/// Compares device by device.
pub(crate) fn run(
    expected: &Path,
    actual: &Path,
    known: &RunLimits,
    json: bool,
) -> Result<Verdict> {
    let expected = input::read(expected, known)?.devices;
    let actual = input::read(actual, known)?.devices;
    let ids = |devices: &[Device]| devices.iter().map(|device| device.id).collect::<Vec<_>>();
    if ids(&expected) != ids(&actual) {
        let list =
            |devices| format!("{:?}", ids(devices).iter().map(|id| id.0).collect::<Vec<_>>());
        bail!(
            "the runs have other devices ({} and {}): compare runs of the same script",
            list(&expected),
            list(&actual)
        );
    }
    let mut report = Report { same: true, ..Report::default() };
    for (one, other) in expected.iter().zip(&actual) {
        let compared = compare(side(one), side(other));
        report.allocations += compared.allocations;
        report.frees += compared.frees;
        report.segment_events += compared.segment_events;
        report.ooms += compared.ooms;
        if let Some(found) = compared.difference {
            report.same = false;
            report.differences.push(Difference {
                device: one.id.0,
                after_steps: found.after_steps,
                expected: found.expected,
                actual: found.actual,
            });
        }
    }
    output::print_report(json, &report, || text(&report))?;
    Ok(if report.same { Verdict::Good } else { Verdict::Bad })
}

fn side(device: &Device) -> Run<'_, impl Iterator<Item = trace_format::Event> + '_> {
    Run { base: &device.base.segments, events: device.records.iter().map(|record| record.event) }
}

fn text(report: &Report) -> String {
    let Report { allocations, frees, segment_events, ooms, .. } = report;
    let verdict = if report.same { "the same" } else { "the same up to the first difference" };
    let head = format!(
        "{verdict} in {allocations} allocations, {frees} halves of frees, {segment_events} segment events and {ooms} \
         refused requests\n"
    );
    let differences = report.differences.iter().map(|Difference { device, after_steps, expected, actual }| {
        format!("device {device}, after {after_steps} equal steps:\n  expected {expected}\n  got      {actual}\n")
    });
    std::iter::once(head).chain(differences).collect()
}
