//! The tests of the release build: its instruction counts, it beside PyTorch's allocator, and it in a real, unmodified
//! PyTorch, every `tests/python/test_*.py` under every version that it could fail under alone. The command and the lab
//! that they use are those of the Rust tests, also for the tables in what reads tables (`tests/python/tables`).
//!
//! A script passes when it exits with 0. It finds what was built in `VRAMTAPE_LIBRARY`, `VRAMTAPE_LAB_LIBRARY`,
//! `VRAMTAPE_SIMCUDA`, `VRAMTAPE_COMMAND` and `VRAMTAPE_SNAPSHOT_CONTRACT`, and writes to the folder it runs in, if at
//! all.
//! Where it prints lines `PASS name` or `FAIL name`, each is counted as a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::artefacts::Artefacts;
use crate::progress::Step;
use crate::requirements::{PACKAGE, Requirements, TABLES};
use crate::tally::{Counts, Outcome, Tally};
use crate::venv::Venv;
use crate::{cargo, exec, instructions, peers, torch};

use super::package;
use super::parallel::Parallel;
use super::rings::Rings;

/// No script takes a tenth of this, alone on a machine; one that hangs is a failure.
const LIMIT: Duration = Duration::from_secs(20 * 60);

/// Tests of vramtape's side of the interface to PyTorch: run under its default version only, as all take minutes.
const ONCE: [&str; 10] = [
    "test_end",
    "test_explain",
    "test_gpu",
    "test_install",
    "test_launch",
    "test_leaks",
    "test_loop",
    "test_owners",
    "test_recordings",
    "test_view",
];

/// Adds the scripts, which use what was built.
pub(super) fn add<'a>(parallel: &Parallel<'_, 'a>, built: &'a OnceLock<Artefacts>) {
    let added = Artefacts::of_tests()
        .and_then(|artefacts| add_all(parallel, built.get_or_init(|| artefacts)));
    if let Err(error) = added {
        parallel.tally.group("scripts", || Err(error));
    }
}

/// Builds what PyTorch loads; whether it compiles.
pub(super) fn build(tally: &Tally) -> bool {
    let mut is_built = false;
    tally.group("release build", || {
        Artefacts::build_libraries()?;
        is_built = true;
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    is_built
}

/// Adds every script under every PyTorch that it is for.
fn add_all<'a>(parallel: &Parallel<'_, 'a>, artefacts: &'a Artefacts) -> Result<()> {
    let tally = parallel.tally;
    let folder = cargo::root()?.join("tests/python");
    let scripts = find(&folder)?;
    package::add(parallel, artefacts)?;
    instructions::test(tally, artefacts);
    let with_bridges = package::with_bridges(tally, artefacts);
    // Beside that of `training`, whose scripts use it.
    let _ = environment(tally, "deepspeed", &torch::DEEPSPEED);
    // Not last: one of them takes long, and a thread would wait for it alone.
    for requirements in [&TABLES, &torch::TRAINING, &torch::CI] {
        let Some(venv) = environment(tally, requirements.name, requirements) else { continue };
        let scripts = find(&folder.join(requirements.name))?;
        add_scripts(parallel, scripts, requirements.name, || of_checkout(&venv, artefacts));
    }
    for torch in &torch::ALL {
        let with = format!("torch {}", torch.version);
        let Some(venv) = environment(tally, &with, &torch.requirements) else { continue };
        if torch.has_peers {
            for (what, flags) in [("round", &[][..]), ("replay", &["--replays"])] {
                let name = format!("a {what} beside its allocator ({with})");
                let venv = venv.clone();
                parallel.add(name.clone(), move || peers::test(&name, flags, &venv, artefacts));
            }
        }
        let is_once = |script: &Path| {
            script.file_stem().is_some_and(|stem| ONCE.iter().any(|once| stem == *once))
        };
        let is_wanted = |script: &&PathBuf| torch.version == torch::DEFAULT || !is_once(script);
        let scripts: Vec<_> = scripts.iter().filter(is_wanted).cloned().collect();
        add_scripts(parallel, scripts, &with, || of_checkout(&venv, artefacts));
        if let Some(package) = &with_bridges {
            let python = || {
                let mut python = Command::new(venv.python());
                artefacts.announce_to_installed(&mut python);
                python.env("PYTHONPATH", package);
                python
            };
            add_scripts(parallel, find(&folder.join("package/bridges"))?, &with, python);
            if torch.version == torch::DEFAULT {
                add_scripts(parallel, find(&folder.join("first_hour"))?, &with, python);
            }
        }
    }
    Ok(())
}

/// Makes every environment, while something else is tested. Errors are reported when an environment is first used.
pub(super) fn prepare() {
    let torches = torch::ALL.iter().map(|torch| &torch.requirements);
    let others = [&torch::TRAINING, &torch::DEEPSPEED, &torch::CI, &TABLES, &PACKAGE];
    for requirements in torches.chain(others) {
        if let Ok(venv) = Venv::ensure(requirements) {
            drop(venv.ensure_cuda_headers());
        }
    }
}

/// The environment with these packages, if it can be made.
fn environment(tally: &Tally, with: &str, requirements: &'static Requirements) -> Option<Venv> {
    let mut venv = None;
    tally.group(&format!("environment of {with}"), || {
        let made = Venv::ensure(requirements)?;
        made.ensure_cuda_headers()?; // So that the bridge is built, and tested.
        venv = Some(made);
        Ok(Outcome { counts: Counts::one(true), detail: String::new() })
    });
    venv
}

/// One group for each script, with a Python of its own.
fn add_scripts(
    parallel: &Parallel,
    scripts: Vec<PathBuf>,
    with: &str,
    python: impl Fn() -> Command,
) {
    for script in scripts {
        let name = script.file_stem().unwrap_or_default().to_string_lossy();
        let name = format!("{name} ({with})");
        let python = python();
        parallel.add(name.clone(), move || run_script(&name, &script, python));
    }
}

/// An environment's Python, that finds what this checkout built.
fn of_checkout(venv: &Venv, artefacts: &Artefacts) -> Command {
    let mut python = Command::new(venv.python());
    artefacts.announce(&mut python);
    python
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
pub(super) fn run_script(name: &str, script: &Path, mut python: Command) -> Result<Outcome> {
    let log = name.replace([' ', '(', ')'], "-");
    python.arg("-u").arg(script).current_dir(cargo::empty(&log)?);
    // Bytecode goes apart from the checkout. Without it, a process that imports what an optimizer does takes three
    // seconds longer.
    python.env_remove("PYTHONDONTWRITEBYTECODE");
    python.env("PYTHONPYCACHEPREFIX", cargo::target()?.join("xtask/bytecode"));
    let rings = Rings::new()?;
    rings.announce(&mut python);
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
