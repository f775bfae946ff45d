//! Plots that replays of a device make: the parts of reserved memory, and other strategies, over time.

use replay::compare::StrategyRow;
use replay::report::Report;
use replay::series::Point;
use replay::waste::{Sample, Waste};
use serde::Serialize;

/// The parts of a device's reserved memory over time (`vramtape waste`).
#[derive(Debug, Serialize)]
pub struct WastePlot {
    /// The strategy and settings of the replay.
    settings: String,
    /// By how much the replay differs from the recording, if it does.
    pub differs: Option<String>,
    /// Why there are no parts.
    error: Option<String>,
    /// The moments at which the stretches begin, and the moment behind the last. Each shows its fullest moment.
    edges: Vec<u64>,
    parts: Vec<Part>,
}

#[derive(Debug, Serialize)]
struct Part {
    name: &'static str,
    bytes: Vec<u64>,
}

impl WastePlot {
    /// Of a series over a run of so many records.
    pub fn new(waste: &Waste, records: usize, settings: String) -> Self {
        let (stretches, moments) = (waste.series.len() as u64, records as u64 + 1);
        let edge = |at: u64| (at * moments).div_ceil(stretches.max(1));
        let first = waste.series.first().map_or_else(Default::default, |first| first.parts.named());
        let part = |(place, (name, _)): (usize, (&'static str, u64))| {
            let bytes = |sample: &Sample| sample.parts.named()[place].1;
            Part { name, bytes: waste.series.iter().map(bytes).collect() }
        };
        Self {
            settings,
            differs: None,
            error: None,
            edges: (0..=stretches).map(edge).collect(),
            parts: first.into_iter().enumerate().map(part).collect(),
        }
    }

    /// Of a run that cannot be replayed.
    pub fn failed(error: String) -> Self {
        Self {
            settings: String::new(),
            differs: None,
            error: Some(error),
            edges: Vec::new(),
            parts: Vec::new(),
        }
    }
}

/// A device under several strategies over time (`vramtape compare`).
#[derive(Debug, Serialize)]
pub struct StrategiesPlot {
    /// The table in a sentence or two.
    pub summary: String,
    /// Memory of the simulated device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// Facts that an import inferred, a sentence each.
    pub inferred: Vec<String>,
    /// The recorded run, and the edited one if there is one.
    runs: Vec<Run>,
    /// The rows of all runs, those of one setting together.
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Run {
    /// The moments at which its stretches begin, and the moment behind the last.
    edges: Vec<u64>,
    /// When the stretches end, in nanoseconds since the first record.
    time_ns: Vec<u64>,
    /// The most alive at once in each, of the first row.
    live_bytes: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Row {
    /// Its place among the runs, and that of its settings.
    run: usize,
    setting: usize,
    /// The settings, in words.
    label: String,
    /// The most reserved at once in each stretch.
    reserved_bytes: Vec<u64>,
    #[serde(flatten)]
    report: Report,
}

impl StrategiesPlot {
    /// Of the recorded run, which begins at `start_ns`, and the edited one, each with a row for each of the `labels`;
    /// refused rows are left out.
    pub fn new(start_ns: u64, labels: &[String], runs: &[&[StrategyRow]]) -> Self {
        let row = |(run, setting): (usize, usize)| {
            let StrategyRow::Replayed { report, points } = &runs[run][setting] else { return None };
            let edited = if run == 0 { "" } else { ", edited" };
            Some(Row {
                run,
                setting,
                label: format!("{}{edited}", labels[setting]),
                reserved_bytes: points.iter().map(|point| point.reserved_bytes).collect(),
                report: report.clone(),
            })
        };
        let settings = 0..labels.len();
        let rows = settings.flat_map(|setting| (0..runs.len()).map(move |run| (run, setting)));
        let rows = rows.filter_map(row).collect();
        let runs = runs.iter().map(|rows| Run::new(rows, start_ns)).collect();
        Self { summary: String::new(), capacity_bytes: None, inferred: Vec::new(), runs, rows }
    }
}

impl Run {
    fn new(rows: &[StrategyRow], start_ns: u64) -> Self {
        let mut points = rows.iter().map(StrategyRow::points);
        let first: &[Point] = points.find(|points| !points.is_empty()).unwrap_or_default();
        let ends = first.iter().map(|point| point.after_records + 1);
        Self {
            edges: std::iter::once(0).chain(ends).collect(),
            time_ns: first.iter().map(|point| point.time_ns.saturating_sub(start_ns)).collect(),
            live_bytes: first.iter().map(|point| point.live_bytes).collect(),
        }
    }
}
