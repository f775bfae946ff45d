//! The comparison as a page: one file, with everything in it and nothing asked of a network.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use replay::compare::StrategyRow;
use replay::holders::RunHolders;
use replay::report::Report;
use replay::series::Point;
use serde::Serialize;
use trace_format::Commit;

/// The page, with a place for the data.
const TEMPLATE: &str = include_str!("../../../viewer/compare.html");
const PLACE: &str = "{{data}}";

/// Points of a line: about as many as a screen has columns.
pub(super) const POINTS: usize = 1000;

/// The subject of the page.
#[derive(Default, Serialize)]
pub(super) struct About<'c> {
    /// The run's name.
    pub(super) run: String,
    pub(super) device: u16,
    pub(super) capacity_bytes: Option<u64>,
    /// The table in a sentence or two.
    pub(super) summary: String,
    pub(super) inferred: &'c [String],
    /// The code that held the recorded run's memory.
    pub(super) holders: Option<&'c RunHolders>,
}

/// The content of the page.
#[derive(Serialize)]
pub(super) struct Data<'c> {
    #[serde(flatten)]
    about: About<'c>,
    /// The recorded run, and the edited one if there is one.
    runs: Vec<Run>,
    /// The rows of all runs, those of one setting together.
    rows: Vec<Row<'c>>,
}

#[derive(Serialize)]
struct Run {
    /// The stretches that its lines are drawn in, by their ends: records, and nanoseconds since the first.
    after_records: Vec<u64>,
    time_ns: Vec<u64>,
    /// The most alive at once in each, of the first row.
    live_bytes: Vec<u64>,
}

#[derive(Serialize)]
struct Row<'c> {
    /// Whose: its place among the runs, and that of its settings.
    run: usize,
    setting: usize,
    /// The settings, in words.
    label: String,
    /// The most reserved at once in each stretch.
    reserved_bytes: Vec<u64>,
    #[serde(flatten)]
    report: &'c Report,
}

impl<'c> Data<'c> {
    /// Of the recorded run and the edited one, each with a row for each of the `labels`; refused rows are left out.
    pub(super) fn new(about: About<'c>, labels: &[String], runs: &[&'c [StrategyRow]]) -> Self {
        let row = |(run, setting): (usize, usize)| {
            let StrategyRow::Replayed { report, points } = &runs[run][setting] else { return None };
            let edited = if run == 0 { "" } else { ", edited" };
            Some(Row {
                run,
                setting,
                label: format!("{}{edited}", labels[setting]),
                reserved_bytes: of(points, |point| point.reserved_bytes),
                report,
            })
        };
        let settings = 0..labels.len();
        let rows = settings.flat_map(|setting| (0..runs.len()).map(move |run| (run, setting)));
        Self {
            about,
            runs: runs.iter().map(|rows| Run::new(rows)).collect(),
            rows: rows.filter_map(row).collect(),
        }
    }
}

impl Run {
    fn new(rows: &[StrategyRow]) -> Self {
        let mut points = rows.iter().map(StrategyRow::points);
        let first = points.find(|points| !points.is_empty()).unwrap_or_default();
        let start_ns = first.first().map_or(0, |point| point.time_ns);
        Self {
            after_records: of(first, |point| point.after_records),
            time_ns: first.iter().map(|point| point.time_ns.saturating_sub(start_ns)).collect(),
            live_bytes: of(first, |point| point.live_bytes),
        }
    }
}

fn of(points: &[Point], value: fn(&Point) -> u64) -> Vec<u64> {
    points.iter().map(value).collect()
}

/// Writes the page, whole or not at all.
pub(super) fn write(path: &Path, data: &Data<'_>) -> Result<()> {
    let page = page(data)?;
    let cannot = || format!("cannot write {}", path.display());
    let (mut file, commit) = Commit::begin(path).with_context(cannot)?;
    file.write_all(page.as_bytes()).with_context(cannot)?;
    commit.finish().with_context(cannot)
}

fn page(data: &Data<'_>) -> Result<String> {
    let json = serde_json::to_string(data).context("cannot make JSON")?;
    // Inside a script element only this could end it, or begin a comment.
    Ok(TEMPLATE.replace(PLACE, &json.replace('<', "\\u003c")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(run: &str) -> String {
        let about = About { run: run.to_owned(), ..About::default() };
        page(&Data::new(about, &[], &[])).unwrap()
    }

    #[test]
    fn it_asks_nothing_of_a_network() {
        let page = page_of("run");
        let outside = ["src=", "href=", "@import", "fetch(", "url("];
        assert!(outside.iter().all(|word| !page.contains(word)), "a page that stands alone");
        assert!(page.contains("default-src 'none'"), "and says so to the browser");
    }

    #[test]
    fn names_of_code_are_text_and_never_markup() {
        assert!(!TEMPLATE.contains("innerHTML") && !TEMPLATE.contains("insertAdjacentHTML"));
    }

    #[test]
    fn a_name_cannot_leave_the_data() {
        let page = page_of("</script><script>alert(1)</script>");
        assert!(!page.contains("<script>alert"));
        assert!(page.contains("\\u003c/script>"));
    }
}
