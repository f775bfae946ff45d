//! Processes that record on this machine, found by their rings.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use recorder::{RingReader, list_rings};

/// A process and its rings, one for each device that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Its command line, if the system reports it.
    pub(crate) command: Option<String>,
    pub(crate) rings: Vec<PathBuf>,
}

/// The living processes whose rings are in `folder`, by process id.
pub(crate) fn list(folder: &Path) -> Result<Vec<Process>> {
    let rings = list_rings(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut processes: Vec<Process> = Vec::new();
    for path in rings {
        // One that cannot be opened was removed just now, is being made, or is another version's.
        let Ok(reader) = RingReader::open(&path) else { continue };
        if !reader.is_live() {
            continue;
        }
        let info = reader.info();
        match processes.iter_mut().find(|known| known.pid == info.pid) {
            Some(known) => known.rings.push(path),
            None => processes.push(Process {
                pid: info.pid,
                command: command(info.pid, info.process_start_ticks),
                rings: vec![path],
            }),
        }
    }
    processes.sort_by_key(|process| process.pid);
    Ok(processes)
}

/// The process that `pid` names, or the only one there is.
pub(crate) fn choose(folder: &Path, pid: Option<u32>) -> Result<Process> {
    pick(list(folder)?, pid, |pid| why_not(folder, pid))
}

fn pick(
    mut processes: Vec<Process>,
    pid: Option<u32>,
    why_not: impl Fn(u32) -> &'static str,
) -> Result<Process> {
    if let Some(pid) = pid {
        processes.retain(|process| process.pid == pid);
    }
    match (processes.len(), pid) {
        (1, _) => Ok(processes.remove(0)),
        (0, Some(pid)) => bail!("process {pid} {}", why_not(pid)),
        (0, None) => bail!(
            "no process records here: start one with vramtape as its allocator and without record:off"
        ),
        _ => {
            let lines = processes.iter().map(|process| {
                let command = process.command.as_deref().unwrap_or_default();
                format!("\n  {:>8}  {command}", process.pid).trim_end().to_owned()
            });
            bail!("several processes record here; name one of them:{}", lines.collect::<String>())
        }
    }
}

fn why_not(folder: &Path, pid: u32) -> &'static str {
    let rings = list_rings(folder).unwrap_or_default();
    let of_pid = |path: &PathBuf| RingReader::open(path).is_ok_and(|ring| ring.info().pid == pid);
    if rings.iter().any(of_pid) {
        "is dead; `vramtape recover` makes a tape of its rings"
    } else {
        "has no ring: it does not use vramtape, is another user's, or has record:off"
    }
}

/// The command line, if the process is the one that began then.
fn command(pid: u32, start_ticks: u64) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let started = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok();
    if started != Some(start_ticks) {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words = line.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    Some(words.join(" ")).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_process_is_chosen_and_several_are_named() {
        let process = |pid, command: &str| Process {
            pid,
            command: (!command.is_empty()).then(|| command.to_owned()),
            rings: Vec::new(),
        };
        let pick = |processes: &[Process], pid| {
            pick(processes.to_vec(), pid, |_| "is not there").map_err(|error| error.to_string())
        };
        let two = [process(7, "python a.py"), process(88, "")];
        assert_eq!(pick(&two[..1], None), Ok(two[0].clone()));
        assert_eq!(pick(&two, Some(88)), Ok(two[1].clone()));
        assert_eq!(pick(&two, Some(9)).unwrap_err(), "process 9 is not there");
        let several = pick(&two, None).unwrap_err();
        assert!(
            several.ends_with("name one of them:\n         7  python a.py\n        88"),
            "{several}"
        );
        assert!(pick(&[], None).unwrap_err().contains("no process records"));
    }
}
