//! The committed counts: one line for each compiler, clock and case.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo;

const HEAD: &str = "# Instructions of an allocation and its free; cargo xtask bench --instructions --accept.\n\
                    # compiler, target and clock\trecord\tsize_bytes\tinstructions\n";

/// One measured operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// `record:` of `VRAMTAPE_CONF`, and what follows it.
    pub(super) record: &'static str,
    /// The size of the allocation.
    pub(super) size_bytes: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, record:{}", self.size_bytes, self.record)
    }
}

/// The counts of one compiler and clock.
pub(super) struct Committed(Vec<(String, u64, f64)>);

impl Committed {
    /// The counts of this compiler and machine; empty if none were taken there.
    pub(super) fn read() -> Result<Self> {
        let path = path()?;
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text, &here()?).with_context(|| format!("in {}", path.display()))
    }

    /// Those of `key` in the table.
    pub(super) fn parse(text: &str, key: &str) -> Result<Self> {
        let mut found = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let fields: Vec<_> = line.split('\t').collect();
            let [of, record, size_bytes, instructions] = fields[..] else {
                anyhow::bail!("{line:?} has not four fields: write the table anew with --accept");
            };
            if of == key {
                let size_bytes = size_bytes.parse().with_context(|| format!("in {line:?}"))?;
                let instructions = instructions.parse().with_context(|| format!("in {line:?}"))?;
                found.push((record.to_owned(), size_bytes, instructions));
            }
        }
        Ok(Self(found))
    }

    /// Whether there are no counts.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The count of a case.
    pub(super) fn of(&self, case: &Case) -> Option<f64> {
        let is_it = |(record, size, _): &&(String, u64, f64)| {
            (record.as_str(), *size) == (case.record, case.size_bytes)
        };
        self.0.iter().find(is_it).map(|(_, _, instructions)| *instructions)
    }
}

/// Puts the counts in the place of those of this compiler and machine, and says where.
pub(super) fn write(counted: &[(Case, f64)]) -> Result<PathBuf> {
    let (path, here) = (path()?, here()?);
    let old = fs::read_to_string(&path).unwrap_or_default();
    let is_other = |line: &&str| !line.starts_with('#') && !line.starts_with(&format!("{here}\t"));
    let mut lines: Vec<String> = old.lines().filter(is_other).map(str::to_owned).collect();
    for (case, instructions) in counted {
        lines.push(format!("{here}\t{}\t{}\t{instructions:.1}", case.record, case.size_bytes));
    }
    lines.sort();
    let new = path.with_extension("new");
    fs::write(&new, format!("{HEAD}{}\n", lines.join("\n")))
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn path() -> Result<PathBuf> {
    Ok(cargo::root()?.join("benches/instructions/counts.tsv"))
}

/// The key of the counts: the compiler, the target, and which clock the recorder reads. Valgrind hands the
/// processor's answer about its time stamp counter through.
fn here() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name| {
        text.lines().find_map(|line| line.strip_prefix(name)).context("rustc says no version")
    };
    let (release, host) = (field("release: ")?, field("host: ")?);
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has_steady_tsc = cpuinfo.split_whitespace().any(|flag| flag == "nonstop_tsc");
    let clock = if has_steady_tsc { "rdtsc" } else { "clock_gettime" };
    Ok(format!("rustc {release}, {host}, {clock}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_another_compiler_are_not_compared_with() {
        let text =
            "# head\nother\toff\t512\t100.0\nhere\toff\t512\t200.5\nhere\tring\t512\t300.0\n";
        let committed = Committed::parse(text, "here").unwrap();
        assert_eq!(committed.of(&Case { record: "off", size_bytes: 512 }), Some(200.5));
        assert_eq!(committed.of(&Case { record: "off", size_bytes: 4096 }), None);
        assert!(Committed::parse(text, "nowhere").unwrap().is_empty());
        assert!(Committed::parse("here\toff\t512\n", "here").is_err());
    }

    #[test]
    fn a_pair_takes_at_most_1_3_times_as_many_instructions_under_stitch() {
        let text = fs::read_to_string(path().unwrap()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        for key in lines.filter_map(|line| Some(line.split_once('\t')?.0)) {
            let committed = Committed::parse(&text, key).unwrap();
            for size_bytes in [512, 4 << 20, 64 << 20] {
                let of = |record| committed.of(&Case { record, size_bytes });
                let (native, stitch) = (of("ring"), of("ring,strategy:stitch"));
                let ratio = stitch.zip(native).map(|(stitch, native)| stitch / native);
                assert!(
                    ratio.is_some_and(|ratio| ratio <= 1.3),
                    "{key}, {size_bytes} B: {ratio:?}"
                );
            }
        }
    }
}
