//! The command lines that a file is given to: every verb that reads files, as the command itself lists them.

use std::ffi::OsString;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

use crate::rng::Rng;

/// Verbs that read no file but processes and what they left in memory, or messages of a client.
const OF_PROCESSES: [&str; 5] = ["top", "exporter", "attach", "clean", "mcp"];

/// A verb and its arguments.
pub(crate) struct Verb {
    command: Command,
}

/// The files that a command line may name.
pub(crate) struct Files<'f> {
    /// The file in question.
    pub(crate) run: &'f Path,
    /// Another of its like.
    pub(crate) other: &'f Path,
    /// A folder for what is written.
    pub(crate) out: &'f Path,
}

/// Every verb that reads files.
pub(crate) fn all() -> Vec<Verb> {
    let command = cli::command();
    let verbs = command.get_subcommands().filter(|verb| !OF_PROCESSES.contains(&verb.get_name()));
    verbs.map(|verb| Verb { command: verb.clone() }).collect()
}

impl Verb {
    pub(crate) fn name(&self) -> &str {
        self.command.get_name()
    }

    /// A command line, with some of the verb's flags; without the one that raises the bounds where these are the
    /// question.
    pub(crate) fn line(
        &self,
        rng: &mut Rng,
        files: &Files<'_>,
        keeps_bounds: bool,
    ) -> Vec<OsString> {
        if self.name() == "explain" && rng.once_in(4) {
            // Instead of a run, not beside it.
            return vec!["explain".into(), "--message".into(), files.run.into()];
        }
        let mut line = vec![self.name().into()];
        for arg in self.command.get_arguments() {
            let id = arg.get_id().as_str();
            let is_needed = arg.is_positional() || arg.is_required_set() || is_always(id);
            let is_left_out = matches!(id, "help" | "version" | "force" | "message");
            let raises_bounds = keeps_bounds && arg.get_long() == Some("trust-factor");
            if is_left_out || raises_bounds || (!is_needed && !rng.once_in(12)) {
                continue;
            }
            if matches!(id, "output" | "html" | "snapshot") && !arg.is_positional() {
                line.push("--force".into()); // Files of before are there.
            }
            if let Some(long) = arg.get_long().filter(|_| !arg.is_positional()) {
                line.push(format!("--{long}").into());
            }
            if matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
                line.push(value(self.name(), arg, rng, files));
            }
        }
        line
    }
}

/// Flags that a verb cannot do without, or that keep a usual file from taking long, and from this machine's rings.
fn is_always(id: &str) -> bool {
    matches!(id, "lines" | "checks" | "time" | "output" | "named")
}

/// Something for an argument, by what the help calls its value.
fn value(verb: &str, arg: &Arg, rng: &mut Rng, files: &Files<'_>) -> OsString {
    let out = |name: &str| files.out.join(name).into_os_string();
    let possible = arg.get_possible_values();
    if !possible.is_empty() {
        return rng.pick(&possible).get_name().into();
    }
    let name =
        arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name.as_str());
    let texts: &[&str] = match (name, arg.get_id().as_str()) {
        (_, "output") => {
            let ends: &[&str] = match verb {
                "export" => &["out.pickle", "out.json", "out.parquet", "out.arrow", "tables"],
                _ => &["out.vtape"],
            };
            let end: &str = ends[rng.roll(ends.len())];
            return out(end);
        }
        ("FILE", "html") => return out("page.html"),
        ("OUT.pickle", _) => return out("out.pickle"),
        ("FOLDER", _) => return out(""),
        ("FILE", "markdown") => return out("summary.md"),
        ("LIMITS", _) => &["peak:+2%", "reserved:+1GiB,step:0"],
        ("RUN" | "FILE" | "BEFORE" | "PID|RING" | "TAPE", _) => {
            return files.run.into();
        }
        ("AFTER" | "EXPECTED" | "META.json", _) => {
            return (*rng.pick(&[files.run, files.other])).into();
        }
        ("EDIT", _) => &[
            "scale:0.5",
            "scale:1e30",
            "drop:forward",
            "merge-stream:1=0",
            "free-after:3:forward",
            "free-after:1ms:f",
        ],
        ("SETTINGS", _) => &crate::program::SETTINGS,
        ("NAME[:SETTINGS]", _) => &[
            "native",
            "expandable",
            "stitch",
            "bfc",
            "async-pool",
            "rmm-pool",
            "rmm-arena",
            "native:max_split_size_mb:30",
        ],
        ("MARK|CODE", _) => &["step", "a", "epoch", "f"],
        ("SIZE", _) => &["24GiB", "1", "2MiB", "unlimited", "17179869184GiB", "300MiB"],
        ("NAME", "group_by") => &["code", "category", "size", "nothing"],
        ("WIDTHxHEIGHT", _) => &["480x320", "1280x720", "1x1", "99999x99999"],
        ("NAME", "gpu") => &["h100", "4090", "list", "nothing"],
        ("N", "lines") => {
            if rng.once_in(64) {
                &["200"]
            } else {
                &["3", "0"]
            }
        }
        ("N", "checks") => {
            if rng.once_in(16) {
                &["16"]
            } else {
                &["2", "0"]
            }
        }
        ("N", _) => &["0", "1", "2", "200", "65535", "18446744073709551615"],
        ("MOMENT", _) => &["oom", "peak", "last", "0", "7", "99999999", "5ms", "1s", "now"],
        ("SECONDS", _) => &["0", "0.01"],
        ("VERSION", _) => &["2.11", "2.15"],
        _ => {
            panic!("{verb}: the fuzzer knows no value for {name} of {}: add one here", arg.get_id())
        }
    };
    rng.pick(texts).into()
}
