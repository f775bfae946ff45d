//! The measurements, by operation and subject.

use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Serialize;

/// The subjects as the program names them.
const NATIVE: &str = "pytorch";
const NATIVE_HISTORY: &str = "pytorch, history on";
const OURS: &str = "vramtape";

/// All measurements of a run. An operation is an allocation and its free; with threads its time is
/// the wall's, over the operations of all threads.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    torch: String,
    rounds: u32,
    pairs: u32,
    operations: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    operation: String,
    pytorch: Times,
    pytorch_history: Times,
    vramtape: Times,
    /// Ours over PyTorch's with its history on, medians: both record.
    ratio_to_history: f64,
    /// Ours, which records, over PyTorch's, which does not.
    ratio_to_off: f64,
}

/// Nanoseconds of one operation over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(clippy::struct_field_names, reason = "the unit is a part of each")]
struct Times {
    best_ns: f64,
    lower_quartile_ns: f64,
    median_ns: f64,
    upper_quartile_ns: f64,
}

impl Table {
    /// Reads the program's lines.
    pub(crate) fn read(torch: &str, rounds: u32, pairs: u32, lines: &str) -> Result<Self> {
        let mut measured: Vec<(&str, &str, f64)> = Vec::new();
        for line in lines.lines() {
            let mut fields = line.split('\t');
            let (Some(operation), Some(subject), Some(ns)) =
                (fields.next(), fields.next(), fields.next())
            else {
                bail!("{line:?} is no measurement");
            };
            let ns = ns.parse().with_context(|| format!("{line:?} has no time"))?;
            measured.push((operation, subject, ns));
        }
        let mut names: Vec<&str> = Vec::new();
        for (operation, _, _) in &measured {
            if !names.contains(operation) {
                names.push(operation);
            }
        }
        let times = |operation: &str, subject: &str| {
            let of = measured.iter().filter(|m| m.0 == operation && m.1 == subject);
            Times::of(of.map(|m| m.2).collect(), rounds)
                .with_context(|| format!("{subject}, {operation}"))
        };
        let row = |operation: &&str| {
            let pytorch = times(operation, NATIVE)?;
            let pytorch_history = times(operation, NATIVE_HISTORY)?;
            let vramtape = times(operation, OURS)?;
            Ok(Row {
                operation: (*operation).to_owned(),
                pytorch,
                pytorch_history,
                vramtape,
                ratio_to_history: vramtape.median_ns / pytorch_history.median_ns,
                ratio_to_off: vramtape.median_ns / pytorch.median_ns,
            })
        };
        let operations = names.iter().map(row).collect::<Result<_>>()?;
        Ok(Self { torch: torch.to_owned(), rounds, pairs, operations })
    }
}

impl Times {
    fn of(mut ns: Vec<f64>, rounds: u32) -> Result<Self> {
        if ns.len() != rounds as usize {
            bail!("{} measurements of {rounds}", ns.len());
        }
        ns.sort_by(f64::total_cmp);
        Ok(Self {
            best_ns: ns[0],
            lower_quartile_ns: ns[ns.len() / 4],
            median_ns: ns[ns.len() / 2],
            upper_quartile_ns: ns[ns.len() * 3 / 4],
        })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lower_quartile_ns, median_ns, upper_quartile_ns, .. } = self;
        f.pad(&format!("{median_ns:.0} ({lower_quartile_ns:.0}-{upper_quartile_ns:.0})"))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "PyTorch {} beside vramtape (record:ring), on the simulated driver.\n\
             ns for an allocation and its free: median (quartiles) of {} rounds of {} each.\n",
            self.torch, self.rounds, self.pairs
        )?;
        let columns = ["pytorch", "pytorch, history", "vramtape"];
        write!(f, "{:<38}", "operation")?;
        for column in columns {
            write!(f, "{column:>20}")?;
        }
        writeln!(f, "{:>12}{:>8}", "/ history", "/ off")?;
        for row in &self.operations {
            let Row { operation, pytorch, pytorch_history, vramtape, .. } = row;
            write!(f, "{operation:<38}{pytorch:>20}{pytorch_history:>20}{vramtape:>20}")?;
            writeln!(f, "{:>12.2}{:>8.2}", row.ratio_to_history, row.ratio_to_off)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ratios_come_from_the_rounds_of_each_subject() {
        let mut lines = Vec::new();
        for round in [1.0, 3.0, 2.0, 9.0, 0.5] {
            for (subject, ns) in [(NATIVE, 200.0), (NATIVE_HISTORY, 300.0), (OURS, 50.0)] {
                lines.push(format!("512 B\t{subject}\t{:.3}", ns * round));
            }
        }
        let table = Table::read("2.11.0", 5, 7, &lines.join("\n")).unwrap();
        let row = &table.operations[0];
        let expected = Times {
            best_ns: 25.0,
            lower_quartile_ns: 50.0,
            median_ns: 100.0,
            upper_quartile_ns: 150.0,
        };
        assert_eq!(row.vramtape, expected);
        assert!((row.ratio_to_history - 1.0 / 6.0).abs() < 1e-9);
        assert!((row.ratio_to_off - 0.25).abs() < 1e-9);
        assert!(table.to_string().contains("100 (50-150)        0.17    0.25"), "{table}");
    }

    #[test]
    fn a_missing_round_is_an_error() {
        let error = Table::read("2.11.0", 2, 7, "512 B\tpytorch\t1.0\n").unwrap_err();
        assert!(format!("{error:#}").contains("pytorch, 512 B: 1 measurements of 2"), "{error:#}");
        assert!(Table::read("2.11.0", 2, 7, "512 B pytorch").is_err());
    }
}
