//! The measurements, by operation and subject.

use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::machine::Machine;
use crate::times::Times;

/// The subjects that others are compared with, as the program names them.
const NATIVE_HISTORY: &str = "pytorch, history on";
const OURS: &str = "vramtape";
const OURS_OFF: &str = "vramtape, record:off";

/// All measurements of a run. An operation is an allocation and its free; with threads its time is
/// the wall's, over the operations of all threads.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    torch: String,
    machine: Machine,
    rounds: u32,
    count: u32,
    operations: Vec<Operation>,
}

#[derive(Debug, Serialize)]
struct Operation {
    name: String,
    subjects: Vec<Row>,
    /// The ring's cost for each of the two events: ours less ours without a recorder, round by round. Of one
    /// thread: where several wait for each other it is drowned.
    ring_per_event: Option<Times>,
}

#[derive(Debug, Serialize)]
struct Row {
    subject: String,
    #[serde(flatten)]
    times: Times,
    /// Over PyTorch's with its history on, medians.
    ratio_to_history: Option<f64>,
    /// Where there are threads: one operation of one of them, over the same with no other thread, medians.
    ratio_to_alone: Option<f64>,
}

/// The times of one subject and operation, in the order of the rounds.
struct Series<'a> {
    operation: &'a str,
    subject: &'a str,
    ns: Vec<f64>,
}

impl Table {
    /// Reads the programs' lines.
    pub(crate) fn read(
        torch: &str,
        machine: Machine,
        rounds: u32,
        count: u32,
        lines: &str,
    ) -> Result<Self> {
        let all = series(lines)?;
        if let Some(short) = all.iter().find(|series| series.ns.len() != rounds as usize) {
            let Series { operation, subject, ns } = short;
            bail!("{subject}, {operation}: {} measurements of {rounds}", ns.len());
        }
        let mut operations: Vec<Operation> = Vec::new();
        for of in &all {
            let at = operations.iter().position(|known| known.name == of.operation);
            let at = at.unwrap_or_else(|| {
                operations.push(Operation {
                    name: of.operation.to_owned(),
                    subjects: Vec::new(),
                    ring_per_event: ring_per_event(&all, of.operation),
                });
                operations.len() - 1
            });
            operations[at].subjects.push(row(&all, of));
        }
        Ok(Self { torch: torch.to_owned(), machine, rounds, count, operations })
    }
}

fn series(lines: &str) -> Result<Vec<Series<'_>>> {
    let mut all: Vec<Series> = Vec::new();
    for line in lines.lines() {
        let mut fields = line.split('\t');
        let (Some(operation), Some(subject), Some(ns)) =
            (fields.next(), fields.next(), fields.next())
        else {
            bail!("{line:?} is no measurement");
        };
        let ns = ns.parse().with_context(|| format!("{line:?} has no time"))?;
        match all.iter_mut().find(|known| (known.operation, known.subject) == (operation, subject))
        {
            Some(known) => known.ns.push(ns),
            None => all.push(Series { operation, subject, ns: vec![ns] }),
        }
    }
    Ok(all)
}

fn row(all: &[Series], of: &Series) -> Row {
    let times = Times::of(of.ns.clone());
    let over =
        |other: &Series, by: f64| times.median_ns * by / Times::of(other.ns.clone()).median_ns;
    let history = find(all, of.operation, NATIVE_HISTORY);
    let alone = alone(of.operation);
    let ratio_to_alone = alone.and_then(|(threads, operation)| {
        find(all, operation, of.subject).map(|other| over(other, f64::from(threads)))
    });
    Row {
        subject: of.subject.to_owned(),
        times,
        ratio_to_history: history.map(|history| over(history, 1.0)),
        ratio_to_alone,
    }
}

/// How many threads an operation has, and the same of one thread.
fn alone(operation: &str) -> Option<(u32, &'static str)> {
    let (threads, what) = operation.strip_prefix("threads ")?.split_once(',')?;
    let alone = if what.ends_with("mixed") { "mixed 1000 live" } else { "pair 4 MiB" };
    Some((threads.parse().ok()?, alone))
}

fn ring_per_event(all: &[Series], operation: &str) -> Option<Times> {
    if alone(operation).is_some() {
        return None;
    }
    let (ring, off) = (find(all, operation, OURS)?, find(all, operation, OURS_OFF)?);
    let differences = ring.ns.iter().zip(&off.ns).map(|(ring, off)| (ring - off) / 2.0);
    Some(Times::of(differences.collect()))
}

fn find<'a>(all: &'a [Series<'a>], operation: &str, subject: &str) -> Option<&'a Series<'a>> {
    all.iter().find(|series| (series.operation, series.subject) == (operation, subject))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "PyTorch {} beside vramtape (record:ring), on the simulated driver.\n{}\n\
             ns for an allocation and its free, {} rounds of {} each (threads: ten times as many).",
            self.torch, self.machine, self.rounds, self.count
        )?;
        for Operation { name, subjects, ring_per_event } in &self.operations {
            let heads = ["median", "quartiles", "best", "/ history", "   / alone"];
            let [median, quartiles, best, history, alone] = heads;
            write!(f, "\n{name:<30}{median:>9}{quartiles:>18}{best:>9}{history:>11}")?;
            writeln!(f, "{}", if subjects[0].ratio_to_alone.is_some() { alone } else { "" })?;
            for Row { subject, times, ratio_to_history, ratio_to_alone } in subjects {
                let ratio =
                    |ratio: Option<f64>| ratio.map_or_else(String::new, |r| format!("{r:.2}"));
                let (history, alone) = (ratio(*ratio_to_history), ratio(*ratio_to_alone));
                let line = format!("  {subject:<28}{times}{history:>11}{alone:>10}");
                writeln!(f, "{}", line.trim_end())?;
            }
            if let Some(times) = ring_per_event {
                writeln!(f, "  {:<28}{times}", "the ring, for each event")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rounds: u32, lines: &str) -> Result<Table> {
        Table::read("2.11.0", Machine::look(), rounds, 7, lines)
    }

    #[test]
    fn medians_and_ratios_come_from_the_rounds_of_each_subject() {
        let mut lines = Vec::new();
        for round in [1.0, 3.0, 2.0, 9.0, 0.5] {
            for (subject, ns) in [(NATIVE_HISTORY, 300.0), (OURS, 50.0), (OURS_OFF, 30.0)] {
                lines.push(format!("pair 4 MiB\t{subject}\t{:.3}", ns * round));
                lines.push(format!("threads 2, own devices, 4 MiB\t{subject}\t{:.3}", ns * round));
            }
        }
        let table = table(5, &lines.join("\n")).unwrap();
        let ours = &table.operations[0].subjects[1];
        assert_eq!(ours.subject, OURS);
        let expected = Times {
            best_ns: 25.0,
            lower_quartile_ns: 50.0,
            median_ns: 100.0,
            upper_quartile_ns: 150.0,
        };
        assert_eq!(ours.times, expected);
        assert!((ours.ratio_to_history.unwrap() - 1.0 / 6.0).abs() < 1e-9);
        assert_eq!(ours.ratio_to_alone, None);
        // As fast over all threads as one alone: each of the two takes twice as long.
        assert_eq!(table.operations[1].subjects[1].ratio_to_alone, Some(2.0));
        assert!(
            table.to_string().contains("100.0        50.0-150.0     25.0       0.17\n"),
            "{table}"
        );
    }

    #[test]
    fn the_rings_cost_is_the_difference_within_each_round() {
        let round =
            |ring, off| format!("pair 512 B\t{OURS}\t{ring}\npair 512 B\t{OURS_OFF}\t{off}\n");
        // A disturbed round moves both subjects, and the difference stays.
        let lines = [round(60, 40), round(260, 240), round(66, 42)].concat();
        let table = table(3, &lines).unwrap();
        let ring = table.operations[0].ring_per_event.unwrap();
        assert_eq!((ring.best_ns, ring.median_ns, ring.upper_quartile_ns), (10.0, 10.0, 12.0));
    }

    #[test]
    fn a_missing_round_is_an_error() {
        let error = table(2, "512 B\tpytorch\t1.0\n").unwrap_err();
        assert!(format!("{error:#}").contains("pytorch, 512 B: 1 measurements of 2"), "{error:#}");
        assert!(table(2, "512 B pytorch").is_err());
    }
}
