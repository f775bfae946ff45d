//! How many instructions an allocation and its free take, through the C ABI on the simulated device.
//!
//! Nanoseconds depend on the machine and on its load; instructions do not. Callgrind counts those of a program that
//! makes N pairs and of one that makes more: the difference, over the further pairs, is the count of a pair. Kernel
//! time and cache misses are not in it.

mod counts;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::artefacts::Artefacts;
use crate::progress::Step;
use crate::tally::{Counts, Outcome, Tally};
use crate::{cargo, exec};

use counts::{Case, Committed};

/// The counted cases: without and with a recorder, and under `stitch`, a small block and large ones of two sizes.
const CASES: [Case; 8] = [
    Case { record: "off", size_bytes: 512 },
    Case { record: "off", size_bytes: 4 << 20 },
    Case { record: "ring", size_bytes: 512 },
    Case { record: "ring", size_bytes: 4 << 20 },
    Case { record: "ring", size_bytes: 64 << 20 },
    Case { record: "ring,strategy:stitch", size_bytes: 512 },
    Case { record: "ring,strategy:stitch", size_bytes: 4 << 20 },
    Case { record: "ring,strategy:stitch", size_bytes: 64 << 20 },
];

/// Pairs of the two programs. No power of two is between them, so no table grows in the difference: how many
/// instructions a copy of memory takes depends on the processor.
const PAIRS: [u64; 2] = [10_000, 16_000];

/// More instructions than committed, in percent, that a change may add unnoticed.
const TOLERANCE_PERCENT: f64 = 3.0;

/// No count takes a tenth of this.
const LIMIT: Duration = Duration::from_secs(2 * 60);

/// The group of `cargo xtask test`.
pub(crate) fn test(tally: &Tally, artefacts: &Artefacts) {
    const NAME: &str = "instructions of an allocation and its free";
    if let Some(why) = missing() {
        return tally.skip(NAME, &why);
    }
    match Committed::read() {
        Ok(committed) if committed.is_empty() => {
            let why = "not counted for this compiler and clock: cargo xtask bench --instructions --accept";
            tally.skip(NAME, why);
        }
        committed => tally.group(NAME, || {
            let table = Table { counted: count(artefacts)?, committed: committed? };
            let failed = table.counted.iter().filter(|(case, now)| table.is_worse(case, *now)).count();
            let passed = table.counted.len() - failed;
            let detail = format!(
                "{}More than {TOLERANCE_PERCENT} % above what is committed. If it is worth it: cargo xtask bench \
                 --instructions --accept",
                table.text()
            );
            Ok(Outcome { counts: Counts { passed: passed as u64, failed: failed as u64 }, detail })
        }),
    }
}

/// `cargo xtask bench --instructions`: prints the counts, and commits them to the table on request.
pub(crate) fn bench(is_accepted: bool) -> Result<()> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let table = Table { counted: count(&Artefacts::build()?)?, committed: Committed::read()? };
    print!("{}", table.text());
    if is_accepted {
        println!("written to {}", counts::write(&table.counted)?.display());
    }
    Ok(())
}

/// Why nothing can be counted here, if so.
fn missing() -> Option<String> {
    let has = |program: &str| {
        Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    if !has("valgrind") {
        return Some(
            "valgrind is not installed (Debian and Ubuntu: apt install valgrind)".to_owned(),
        );
    }
    (!has("cc")).then(|| "there is no C compiler (cc)".to_owned())
}

/// The instructions of a pair, by case.
fn count(artefacts: &Artefacts) -> Result<Vec<(Case, f64)>> {
    let folder = cargo::target()?.join("xtask");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let program = build(artefacts, &folder)?;
    let mut step = Step::start("counting instructions");
    let mut counted = Vec::new();
    for case in CASES {
        let [few, many] = PAIRS;
        let fewer = run(&mut step, &program, &case, few)?;
        let more = run(&mut step, &program, &case, many)?;
        counted.push((case, (more as f64 - fewer as f64) / (many - few) as f64));
    }
    step.done();
    Ok(counted)
}

fn build(artefacts: &Artefacts, folder: &Path) -> Result<PathBuf> {
    let root = cargo::root()?;
    let program = folder.join("pairs");
    let library = &artefacts.library;
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-O2", "-I"]).arg(root.join("ffi/include"));
    compile.arg(root.join("benches/instructions/pairs.c")).arg(library).arg("-o").arg(&program);
    let beside = library.parent().context("the library lies in no folder")?;
    compile.arg(format!("-Wl,-rpath,{}", beside.display()));
    let status = compile.status().context("cannot start cc")?;
    if !status.success() {
        bail!("benches/instructions/pairs.c does not compile; the errors are above");
    }
    Ok(program)
}

/// The instructions of the whole program.
fn run(step: &mut Step, program: &Path, case: &Case, pairs: u64) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    valgrind.args([case.size_bytes, pairs].map(|number| number.to_string()));
    for variable in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"] {
        valgrind.env_remove(variable);
    }
    valgrind.env("VRAMTAPE_CONF", format!("device:sim,record:{}", case.record));
    let advice = "Does the program run without valgrind?";
    let output = exec::run_or_fail(step, "instructions", valgrind, LIMIT, advice)?;
    let total = output.text.lines().find_map(|line| line.split_once("Collected :"));
    let (_, total) =
        total.with_context(|| format!("callgrind counted nothing:\n{}", output.tail()))?;
    total.trim().parse().with_context(|| format!("{total:?} is no count"))
}

/// The new counts beside the committed ones.
struct Table {
    counted: Vec<(Case, f64)>,
    committed: Committed,
}

impl Table {
    /// The rise over what is committed, in percent.
    fn rise_percent(&self, case: &Case, now: f64) -> Option<f64> {
        self.committed.of(case).map(|before| (now / before - 1.0) * 100.0)
    }

    fn is_worse(&self, case: &Case, now: f64) -> bool {
        self.rise_percent(case, now).is_none_or(|percent| percent > TOLERANCE_PERCENT)
    }

    fn text(&self) -> String {
        let mut text =
            format!("{:<44}{:>14}{:>11}{:>9}\n", "pair", "instructions", "committed", "change");
        for (case, now) in &self.counted {
            let committed =
                self.committed.of(case).map_or("none".to_owned(), |n| format!("{n:.1}"));
            let change =
                self.rise_percent(case, *now).map_or(String::new(), |p| format!("{p:+.1} %"));
            let line = format!("{:<44}{now:>14.1}{committed:>11}{change:>9}", case.to_string());
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_tolerance_above_the_committed_count_is_worse() {
        let committed = Committed::parse("here\toff\t512\t200.0\n", "here").unwrap();
        let table = Table { counted: Vec::new(), committed };
        let case = Case { record: "off", size_bytes: 512 };
        assert!(!table.is_worse(&case, 205.9));
        assert!(table.is_worse(&case, 206.1));
        assert!(!table.is_worse(&case, 100.0));
        assert!(table.is_worse(&CASES[3], 1.0), "a case without a count is not passed over");
    }
}
