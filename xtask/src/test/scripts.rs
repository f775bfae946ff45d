//! The tests of the release build: its instruction counts, its tables in what reads tables (`tests/python/tables`),
//! it beside PyTorch's allocator, and it in a real, unmodified PyTorch, every `tests/python/test_*.py` under every
//! version.
//!
//! A script passes when it exits with 0. It finds what was built in `VRAMTAPE_LIBRARY`,
//! `VRAMTAPE_SIMCUDA` and `VRAMTAPE_COMMAND`, and writes to the folder it runs in, if at all.
//! Where it prints lines `PASS name` or `FAIL name`, each is counted as a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::artefacts::Artefacts;
use crate::kit::{Kit, TABLES};
use crate::progress::Step;
use crate::tally::{Counts, Outcome, Tally};
use crate::venv::Venv;
use crate::{cargo, exec, instructions, peers, torch};

use super::package;

/// No script takes a tenth of this; one that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// Runs every script under every PyTorch.
pub(super) fn run(tally: &mut Tally) -> Result<()> {
    let folder = cargo::root()?.join("tests/python");
    let scripts = find(&folder)?;
    let mut artefacts = None;
    tally.group("release build", || {
        artefacts = Some(Artefacts::build()?);
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    let Some(artefacts) = artefacts else { return Ok(()) };
    package::run(tally, &artefacts)?;
    instructions::test(tally, &artefacts);
    if let Some(venv) = environment(tally, "tables", &TABLES) {
        run_each(tally, &find(&folder.join("tables"))?, "tables", &venv, &artefacts);
    }
    for torch in &torch::ALL {
        let with = format!("torch {}", torch.version);
        let Some(venv) = environment(tally, &with, &torch.kit) else { continue };
        let name = format!("a round beside its allocator ({with})");
        tally.group(&name, || peers::test(&name, &[], &venv, &artefacts));
        let name = format!("a replay beside its allocator ({with})");
        tally.group(&name, || peers::test(&name, &["--replays"], &venv, &artefacts));
        run_each(tally, &scripts, &with, &venv, &artefacts);
    }
    Ok(())
}

/// The environment of a kit, if it can be had.
fn environment(tally: &mut Tally, with: &str, kit: &'static Kit) -> Option<Venv> {
    let mut venv = None;
    tally.group(&format!("environment of {with}"), || {
        venv = Some(Venv::ensure(kit)?);
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    venv
}

fn run_each(
    tally: &mut Tally,
    scripts: &[PathBuf],
    with: &str,
    venv: &Venv,
    artefacts: &Artefacts,
) {
    for script in scripts {
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{name} ({with})");
        tally.group(&name, || run_script(&name, script, Command::new(venv.python()), artefacts));
    }
}

/// The `test_*.py` of a folder.
pub(super) fn find(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut scripts = Vec::new();
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?
    {
        let path = entry.context("cannot list the scripts")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("test_") && path.extension().is_some_and(|extension| extension == "py")
        {
            scripts.push(path);
        }
    }
    if scripts.is_empty() {
        bail!("no test_*.py in {}: the checkout is incomplete", folder.display());
    }
    scripts.sort();
    Ok(scripts)
}

/// Runs a script with this Python, in a folder of its own.
pub(super) fn run_script(
    name: &str,
    script: &Path,
    mut python: Command,
    artefacts: &Artefacts,
) -> Result<Outcome> {
    let log = name.replace([' ', '(', ')'], "-");
    let scratch = cargo::target()?.join("xtask").join(&log);
    if scratch.exists() {
        fs::remove_dir_all(&scratch).context("cannot empty a script's folder")?;
    }
    fs::create_dir_all(&scratch).context("cannot make a script's folder")?;
    python.arg("-u").arg(script).current_dir(&scratch);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    artefacts.announce(&mut python);
    let mut step = Step::start(name);
    let output = exec::run(&mut step, &log, python, LIMIT)?;
    let mut counts = count(&output.text);
    if output.success() {
        counts.passed = counts.passed.max(1);
    } else {
        counts.failed = counts.failed.max(1);
    }
    Ok(Outcome { counts, detail: output.tail() })
}

fn count(text: &str) -> Counts {
    let begin = |word: &str| text.lines().filter(|line| line.starts_with(word)).count() as u64;
    Counts { passed: begin("PASS "), failed: begin("FAIL ") }
}
