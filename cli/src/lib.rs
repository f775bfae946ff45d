//! The verbs of the `vramtape` command, thin over `replay`.
//!
//! Every verb but `mcp` takes `--json`. Results go to standard output, everything else to standard error. Exit codes:
//! 0 is yes or done, 1 is a check that failed, 2 is a command or an input that cannot be used. `-` is standard input or
//! output.
#![forbid(unsafe_code)]

mod advice;
mod against;
mod attach;
mod bytes;
mod caller;
mod clean;
mod compare;
mod diff;
mod edit;
mod explain;
#[cfg(feature = "tables")]
mod export;
mod exporter;
mod fail_on;
mod fit;
mod holders;
mod http;
mod import;
mod info;
mod input;
mod leaks;
#[cfg(feature = "mcp")]
mod mcp;
mod output;
mod pack;
mod package;
mod page;
mod plan;
mod process;
mod progress;
mod recover;
mod replay;
mod report;
mod rings;
mod runs;
mod setting;
mod start;
mod strategy;
mod table;
mod tape_file;
mod top;
mod tune;
mod verify;
mod view;
mod waste;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, ErrorKind};

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use trace_format::visible;

pub use caller::{Caller, ask};

#[derive(Parser)]
#[command(name = "vramtape", version, about = ABOUT, max_term_width = 100)]
#[command(after_help = format!("{}\n{RUNS}", package::help()))]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const ABOUT: &str = "Record, read and replay the GPU memory of a training run";

const RUNS: &str = "RUN is a tape (.vtape), a PyTorch memory snapshot (.pickle), a log of RMM or a problem of \
    minimalloc (.csv), also .zst or .gz; - is standard input. Where RUN... is taken, several runs, or a folder of \
    them, are the ranks of a job.\nExit codes: 0 done or yes, 1 a check failed, 2 the command or its input cannot \
    be used.";

#[derive(Subcommand)]
enum Verb {
    /// Convert another tool's file to a tape
    Import(import::Options),
    /// Replay a run under one setting and print the memory that it reserves
    Replay(replay::Options),
    /// Print the table over strategies and settings for a run
    Compare(compare::Options),
    /// Break down a run's reserved memory
    Waste(waste::Options),
    /// Explain an out of memory or the peak: the cause, the blocks that hold the memory, what would have helped
    Explain(explain::Options),
    /// Summarize a run for an issue or a chat: peak, cause, waste, largest holders, what to try
    Report(report::Options),
    /// Find the code that holds more memory from step to step
    Leaks(leaks::Options),
    /// Write runs as one HTML page that needs no network
    View(view::Options),
    /// Find the smallest device that a run fits on
    Fit(fit::Options),
    /// Find the settings under which runs reserve least, and print the line to export
    Tune(tune::Options),
    /// Plan the placements of runs for the strategy stitch, offline
    Plan(plan::Options),
    /// Pack buffers whose lifetimes are known: a problem of minimalloc, or the blocks of a run
    Pack(pack::Options),
    /// Change a run's requests and write the result as a tape
    Edit(edit::Options),
    /// Write a run as tables for DuckDB, pandas or Polars, or as a PyTorch memory snapshot
    #[cfg(feature = "tables")]
    Export(export::Options),
    /// Check that vramtape's allocator places a recorded run as PyTorch did
    ///
    /// Of a tape of stitch, also check that each byte of a page had one home, which did not move in use.
    Verify(verify::Options),
    /// Print a summary of a run
    #[command(visible_alias = "stats")]
    Info(info::Options),
    /// Find what grew between two runs, and fail if it is too much
    Diff(diff::Options),
    /// Show the memory of a running job
    Top(top::Options),
    /// Serve the memory statistics of all running jobs to Prometheus
    Exporter(exporter::Options),
    /// Make a tape of a running job
    Attach(attach::Options),
    /// Make a tape from the rings of a killed process
    Recover(recover::Options),
    /// Remove the rings of dead processes and the compiled bridge
    Clean(clean::Options),
    /// Serve the verbs that only read to an assistant, by the Model Context Protocol
    #[cfg(feature = "mcp")]
    Mcp(mcp::Options),
}

/// The outcome of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Done, or the answer is yes.
    Good,
    /// A check failed; the output says where.
    Bad,
}

/// The command line's definition in clap, for documents and tests.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs one command line, the program's name first; its exit code.
pub fn run(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> u8 {
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    if let Some(refusal) = args.get(1).and_then(|verb| package::refusal(verb.to_str()?)) {
        eprintln!("error: {}", visible(&refusal));
        return 2;
    }
    let verb = match Cli::try_parse_from(args) {
        Ok(cli) => cli.verb,
        Err(error) => {
            print_usage(&error);
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match dispatch(&verb) {
        Ok(Verdict::Good) => 0,
        Ok(Verdict::Bad) => 1,
        Err(error) if is_broken_pipe(&error) => 0,
        Err(error) => {
            eprintln!("error: {}", visible(&describe(&error)));
            2
        }
    }
}

/// Prints help or a mistake on the command line, which quotes the argument.
fn print_usage(error: &clap::Error) {
    let text = error.render().to_string();
    match visible(&text) {
        // Colours, where it is a terminal. A closed stream is no error.
        Cow::Borrowed(_) => drop(error.print()),
        Cow::Owned(text) => eprint!("{text}"),
    }
}

fn dispatch(verb: &Verb) -> Result<Verdict> {
    match verb {
        Verb::Import(options) => import::run(options),
        Verb::Replay(options) => replay::run(options),
        Verb::Compare(options) => compare::run(options),
        Verb::Waste(options) => waste::run(options),
        Verb::Explain(options) => explain::run(options),
        Verb::Report(options) => report::run(options),
        Verb::Leaks(options) => leaks::run(options),
        Verb::View(options) => view::run(options),
        Verb::Fit(options) => fit::run(options),
        Verb::Tune(options) => tune::run(options),
        Verb::Plan(options) => plan::run(options),
        Verb::Pack(options) => pack::run(options),
        Verb::Edit(options) => edit::run(options),
        #[cfg(feature = "tables")]
        Verb::Export(options) => export::run(options),
        Verb::Verify(options) => verify::run(options),
        Verb::Info(options) => info::run(options),
        Verb::Diff(options) => diff::run(options),
        Verb::Top(options) => top::run(options),
        Verb::Exporter(options) => exporter::run(options),
        Verb::Attach(options) => attach::run(options),
        Verb::Recover(options) => recover::run(options),
        Verb::Clean(options) => clean::run(options),
        #[cfg(feature = "mcp")]
        Verb::Mcp(options) => mcp::run(options),
    }
}

/// The error and its causes, each once: many of our errors quote their cause already.
fn describe(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Whether the reader of our output left early, as `| head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let of = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    };
    error.chain().any(of)
}
