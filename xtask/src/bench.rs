//! `cargo xtask bench`: the criterion benches; on request PyTorch's own allocator beside ours, or instructions.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::artefacts::Artefacts;
use crate::venv::Venv;
use crate::{cargo, instructions, peers, torch};

/// Options of the benches.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Options {
    /// Also run PyTorch's own allocator on the simulated driver, in the same run as ours
    #[arg(long, group = "turns")]
    peers: bool,
    /// The PyTorch of all that runs beside it (--peers and --replays: 2.11.0 or 2.15.0)
    #[arg(long, default_value = torch::DEFAULT, value_name = "VERSION")]
    torch: String,
    /// Of --peers only the operations whose name contains this, and none of the criterion benches; may be repeated
    #[arg(long, requires = "peers", value_name = "PART")]
    only: Vec<String>,
    /// How often --peers and --replays repeat each measurement
    #[arg(long, requires = "turns", value_name = "N")]
    rounds: Option<u32>,
    /// Print --peers or --replays as JSON
    #[arg(long, requires = "turns")]
    json: bool,
    /// Measure only the replay of tapes, by vramtape and by PyTorch's own allocator in the same run
    #[arg(long, group = "turns", conflicts_with_all = ["filter", "stacks", "snapshots"])]
    replays: bool,
    /// Measure only the cost of a Python stack, in PyTorch's own history and in vramtape
    #[arg(long, conflicts_with_all = ["peers", "filter"])]
    stacks: bool,
    /// Measure only the import of a snapshot, by PyTorch's own readers and by vramtape
    #[arg(long, conflicts_with_all = ["peers", "filter", "stacks"])]
    snapshots: bool,
    /// Measure only `torch.empty` and a step of training in Python, under each route in turns with PyTorch's own
    /// allocator
    #[arg(long, conflicts_with_all = ["peers", "filter", "stacks", "snapshots"])]
    python: bool,
    /// Measure only the pages of `vramtape view`, in a Chromium: of runs looped to 1 and 10 million records (by
    /// default a recorded training of GPT-2)
    #[arg(long, value_name = "RUN", num_args = 0.., conflicts_with_all = ["peers", "filter"])]
    view: Option<Vec<PathBuf>>,
    /// Measure only dry runs beside other estimators and published peaks, and write docs/results/dry-run.md
    #[arg(long, conflicts_with_all = ["peers", "filter"])]
    dry_run: bool,
    /// Of --dry-run only these rows, printed instead of written; may be repeated
    #[arg(long, requires = "dry_run", value_name = "NAME")]
    row: Vec<String>,
    /// Count the instructions of an allocation and its free (needs valgrind), and nothing else
    #[arg(long, conflicts_with_all = ["peers", "filter"])]
    instructions: bool,
    /// Keep the counts of --instructions as those that `cargo xtask test` compares with
    #[arg(long, requires = "instructions")]
    accept: bool,
    /// Only the benches whose name contains this
    #[arg(value_name = "FILTER")]
    filter: Option<String>,
}

/// Runs them; criterion's output goes straight through.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.instructions {
        instructions::bench(options.accept)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(runs) = &options.view {
        pages(runs)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.dry_run {
        scoreboard(&options.row)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.stacks {
        in_python("stacks.py", &options.torch)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.python {
        in_python("empty.py", &options.torch)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.snapshots {
        snapshots(&options.torch)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.replays {
        beside_pytorch(options)?;
        return Ok(ExitCode::SUCCESS);
    }
    if options.only.is_empty() {
        let mut criterion = cargo::command(&["bench", "-p", "benches", "--benches"])?;
        if let Some(filter) = &options.filter {
            criterion.args(["--", filter]);
        }
        check(&mut criterion, "the benches")?;
    }
    if options.peers {
        beside_pytorch(options)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn beside_pytorch(options: &Options) -> Result<()> {
    let artefacts = Artefacts::build()?;
    let torch = torch::find(&options.torch)?;
    if !torch.has_peers {
        bail!("the peers bench does not compile against torch {}; take another", torch.version);
    }
    let venv = Venv::ensure(&torch.requirements)?;
    let mut peers =
        peers::command(&venv, &artefacts, if options.replays { "" } else { "peers/scale" })?;
    if options.replays {
        peers.arg("--replays");
    }
    for part in &options.only {
        peers.args(["--only", part]);
    }
    if let Some(rounds) = options.rounds {
        peers.args(["--rounds", &rounds.to_string()]);
    }
    if options.json {
        peers.arg("--json");
    }
    check(&mut peers, "the peers bench")
}

/// A bench that is a Python script of `benches/peers`.
fn in_python(script: &str, version: &str) -> Result<()> {
    let artefacts = Artefacts::build()?;
    let venv = Venv::ensure(&torch::find(version)?.requirements)?;
    venv.ensure_cuda_headers()?; // So that the bridge can be built.
    let mut python = Command::new(venv.python());
    python.arg(cargo::root()?.join("benches/peers").join(script));
    artefacts.announce(&mut python);
    check(&mut python, script)
}

/// Dry runs beside other estimators.
fn scoreboard(rows: &[String]) -> Result<()> {
    let artefacts = Artefacts::build()?;
    Venv::ensure(&torch::DEEPSPEED)?; // Beside the other one, whose scripts use it.
    let mut python = Command::new(Venv::ensure(&torch::TRAINING)?.python());
    python.arg(cargo::root()?.join("benches/dry_run/scoreboard.py"));
    python.args(rows.iter().flat_map(|row| ["--row", row]));
    if rows.is_empty() {
        python.arg("--page").arg(cargo::root()?.join("docs/results/dry-run.md"));
    }
    artefacts.announce(&mut python);
    check(&mut python, "the scoreboard")
}

fn snapshots(version: &str) -> Result<()> {
    let artefacts = Artefacts::build()?;
    let build = ["build", "--release", "-p", "benches", "--bin", "import"];
    check(&mut cargo::command(&build)?, "the build of the import")?;
    let mut python = Command::new(Venv::ensure(&torch::find(version)?.requirements)?.python());
    python.arg(cargo::root()?.join("benches/peers/snapshots.py"));
    python.env("VRAMTAPE_IMPORT", cargo::target()?.join("release/import"));
    artefacts.announce(&mut python);
    check(&mut python, "the bench of snapshots")
}

/// Loops each run to both lengths, and measures the pages of the tapes.
fn pages(runs: &[PathBuf]) -> Result<()> {
    let build = ["build", "--release", "-p", "cli", "-p", "benches", "--bin", "vramtape"];
    let mut build = cargo::command(&build)?;
    check(build.args(["--bin", "loop_tape", "--bin", "view"]), "the build")?;
    let (release, folder) = (cargo::target()?.join("release"), cargo::empty("view")?);
    let known = [cargo::root()?.join("tests/data/traces/gpt2_train-default.pickle.zst")];
    let runs = if runs.is_empty() { &known } else { runs };
    let mut view = Command::new(release.join("view"));
    view.arg(release.join("vramtape")).arg(&folder);
    for run in runs {
        let name = run.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or("run");
        for records in [1_000_000, 10_000_000] {
            let tape = folder.join(format!("{name}-{records}.vtape"));
            let mut looped = Command::new(release.join("loop_tape"));
            check(looped.arg(run).arg(&tape).arg(records.to_string()), "the loop")?;
            view.arg(tape);
        }
    }
    check(&mut view, "the bench of pages")
}

fn check(command: &mut Command, what: &str) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start {what}"))?;
    if !status.success() {
        bail!("{what} failed ({status}); the output is above");
    }
    Ok(())
}
