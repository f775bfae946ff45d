//! `vramtape clean`: removes what vramtape left on this machine: the rings of processes that died, and the compiled
//! bridge, which the next process that needs it compiles again.

use std::env;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use recorder::remove_dead_rings;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::Serialize;

use crate::rings::RingFolder;
use crate::{Verdict, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Remove rings only; the compiled bridge stays
    #[arg(long)]
    rings: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folder: RingFolder,
}

#[derive(Serialize)]
struct Report {
    removed: Vec<PathBuf>,
}

/// Removes them and prints their names.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let mut report = Report { removed: Vec::new() };
    let outcome = remove(options, &mut report.removed);
    if options.json {
        output::print_json(&report)?;
    } else if report.removed.is_empty() && outcome.is_ok() {
        let bridge = if options.rings { "" } else { ", and no compiled bridge" };
        output::print(&format!("no ring of a dead process{bridge}\n"))?;
    } else {
        for path in &report.removed {
            output::print(&format!("removed {}\n", path.display()))?;
        }
    }
    outcome.map(|()| Verdict::Good)
}

/// Notes each removal at once, so that a later failure still reports the earlier ones.
fn remove(options: &Options, removed: &mut Vec<PathBuf>) -> Result<()> {
    let rings = options.folder.path();
    remove_dead_rings(&rings, removed).with_context(|| {
        format!("cannot remove rings from {}: is it there, and are they yours?", rings.display())
    })?;
    let cache = bridge_cache(|name| env::var_os(name).map(PathBuf::from));
    if let Some(folder) = cache.filter(|_| !options.rings) {
        remove_bridges(&folder, removed).with_context(|| {
            format!("cannot remove the libraries compiled from {}: is it yours?", folder.display())
        })?;
    }
    Ok(())
}

/// Where the Python package keeps compiled bridges (`cache` in `python/vramtape/_bridge/build.py`).
fn bridge_cache(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    let all = set("VRAMTAPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("vramtape")))
        .or_else(|| Some(set("HOME")?.join(".cache/vramtape")))?;
    Some(all.join("bridge"))
}

/// Removes the folder with the builds, their locks and what is remembered of those that failed; nothing else, and
/// nothing of a build that a process is compiling.
fn remove_bridges(folder: &Path, removed: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    let (_locks, compiled_now) = lock_builds(&paths)?;
    for path in paths {
        let is_ours = ["so", "lock", "failed"].iter().any(|known| has_extension(&path, known));
        if is_ours && !compiled_now.iter().any(|build| is_of(&path, build)) {
            fs::remove_file(&path)?;
            removed.push(path);
        }
    }
    let _ = fs::remove_dir(folder); // Fails where other files are in it.
    Ok(())
}

/// Takes the locks of the builds, so that no compilation begins while they are held. Also returns the builds that
/// another process is compiling, by their paths without an extension.
fn lock_builds(paths: &[PathBuf]) -> io::Result<(Vec<File>, Vec<PathBuf>)> {
    let (mut locks, mut compiled_now) = (Vec::new(), Vec::new());
    for path in paths.iter().filter(|path| has_extension(path, "lock")) {
        let lock = File::open(path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => locks.push(lock),
            Err(Errno::WOULDBLOCK) => compiled_now.push(path.with_extension("")),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((locks, compiled_now))
}

fn has_extension(path: &Path, known: &str) -> bool {
    path.extension().is_some_and(|end| end == known)
}

/// Whether a file is of a build: its name begins with the build's.
fn is_of(path: &Path, build: &Path) -> bool {
    let [path, build] = [path, build].map(|path| path.as_os_str().as_encoded_bytes());
    path.starts_with(build)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_package_keeps_it() {
        let at = |set: &[(&str, &str)]| {
            let variable = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| PathBuf::from(value))
            };
            bridge_cache(variable).map(|path| path.display().to_string())
        };
        let (own, xdg, home) = (("VRAMTAPE_CACHE", "/o"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h"));
        assert_eq!(at(&[home, xdg, own]).as_deref(), Some("/o/bridge"));
        assert_eq!(at(&[home, xdg]).as_deref(), Some("/x/vramtape/bridge"));
        assert_eq!(
            at(&[home, ("XDG_CACHE_HOME", "")]).as_deref(),
            Some("/h/.cache/vramtape/bridge")
        );
        assert_eq!(at(&[]), None);
    }

    #[test]
    fn builds_are_removed_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let bridge = folder.path().join("bridge");
        let mut removed = Vec::new();
        remove_bridges(&bridge, &mut removed).unwrap();
        assert_eq!(removed, Vec::<PathBuf>::new());
        fs::create_dir(&bridge).unwrap();
        let path = |name: &str| bridge.join(name);
        for name in ["k.so", "k.lock", "l.failed", "notes.txt"] {
            fs::write(path(name), "x").unwrap();
        }
        remove_bridges(&bridge, &mut removed).unwrap();
        assert_eq!(removed, [path("k.lock"), path("k.so"), path("l.failed")]);
        assert!(path("notes.txt").exists());
        fs::remove_file(path("notes.txt")).unwrap();
        remove_bridges(&bridge, &mut removed).unwrap();
        assert!(!bridge.exists());
    }

    #[test]
    fn a_build_that_a_process_is_compiling_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["torch-2.lock", "torch-2.r4nd0m.so", "torch-1.lock", "torch-1.so"] {
            fs::write(path(name), "x").unwrap();
        }
        let compiling = File::open(path("torch-2.lock")).unwrap();
        flock(&compiling, FlockOperation::LockExclusive).unwrap();
        let mut removed = Vec::new();
        remove_bridges(folder.path(), &mut removed).unwrap();
        assert_eq!(removed, [path("torch-1.lock"), path("torch-1.so")]);
        drop(compiling);
        remove_bridges(folder.path(), &mut removed).unwrap();
        assert_eq!(removed[2..], [path("torch-2.lock"), path("torch-2.r4nd0m.so")]);
    }
}
