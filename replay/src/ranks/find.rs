//! The runs among files and folders.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use thiserror::Error;

use crate::tape::{Tape, is_older_part};

/// Runs to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Their files, those of a folder in the order of their names, numbers in names by their value.
    pub files: Vec<PathBuf>,
    /// The other files of the folders.
    pub skipped: Vec<Skipped>,
    /// Whether several were asked for, by a folder or by more than one name, however many there are.
    pub is_several: bool,
}

/// A file that is not among the runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The file.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// A folder that cannot be used.
#[derive(Debug, Error)]
pub enum FindError {
    /// It cannot be listed.
    #[error("cannot list {folder}: {error}")]
    List {
        /// The folder.
        folder: String,
        /// Why.
        error: io::Error,
    },
    /// Nothing in it is a run.
    #[error("{folder} holds no tape, snapshot or log{seen}")]
    NoRun {
        /// The folder.
        folder: String,
        /// Its content instead, or the remedy.
        seen: String,
    },
}

/// The runs among `paths`: each file as it is, of a folder the files that are runs by their content, or tapes by their
/// name. A file that cannot be read counts as a run, so that no rank is lost unnoticed.
///
/// # Errors
/// When a folder cannot be listed or holds no run.
pub fn find(paths: &[PathBuf]) -> Result<Found, FindError> {
    let mut found = Found { is_several: paths.len() > 1, ..Found::default() };
    for path in paths {
        if path.is_dir() {
            found.is_several = true;
            found.add_folder(path)?;
        } else {
            found.files.push(path.clone());
        }
    }
    Ok(found)
}

impl Found {
    /// A label for each file: its name, with its folder where two files have one name.
    pub fn names(&self) -> Vec<String> {
        let short = |file: &PathBuf| {
            file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
        };
        let names: Vec<_> = self.files.iter().map(short).collect();
        let distinct: HashSet<_> = names.iter().collect();
        if distinct.len() == names.len() {
            return names;
        }
        self.files.iter().map(|file| file.display().to_string()).collect()
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), FindError> {
        let name = folder.display().to_string();
        let failed = |error| FindError::List { folder: name.clone(), error };
        let entries = fs::read_dir(folder).map_err(failed)?;
        let paths = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
        let mut paths = paths.map_err(failed)?;
        paths.retain(|path| !path.file_name().is_some_and(is_hidden));
        paths.sort_by(|one, other| natural(&one.to_string_lossy(), &other.to_string_lossy()));
        let (runs_before, skipped_before) = (self.files.len(), self.skipped.len());
        for path in paths {
            match why_not(&path) {
                None => self.files.push(path),
                Some(reason) => {
                    let file = path.display().to_string();
                    self.skipped.push(Skipped { file, reason: reason.to_owned() });
                }
            }
        }
        if self.files.len() > runs_before {
            return Ok(());
        }
        let seen = match &self.skipped[skipped_before..] {
            [] => ": it is empty".to_owned(),
            [only] => format!("; {} is {}", only.file, only.reason),
            [first, rest @ ..] => {
                format!(
                    "; {} is {}, and {} more are none either",
                    first.file,
                    first.reason,
                    rest.len()
                )
            }
        };
        Err(FindError::NoRun { folder: name, seen })
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Why a folder's entry is no run; `None` where it is one, or cannot be looked at.
fn why_not(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?;
    if kind.is_dir() {
        return Some("a folder: name it too if it holds runs");
    }
    if !kind.is_file() {
        return Some("no file");
    }
    let extension = path.extension().and_then(OsStr::to_str);
    match extension {
        Some("part") => Some("not finished"),
        Some("vtape") => None,
        _ if is_older_part(path) => Some("the older part of a tape, and read with it"),
        _ => (!Tape::is_run(path).unwrap_or(true)).then_some("no run"),
    }
}

/// The order in which `rank2` comes before `rank10`.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let (text, number);
        (text, number, one) = next_part(one);
        let (other_text, other_number);
        (other_text, other_number, other) = next_part(other);
        // Digits without leading zeros: the longer number is the larger.
        let order = text
            .cmp(other_text)
            .then(number.len().cmp(&other_number.len()))
            .then(number.cmp(other_number));
        if order.is_ne() || (one.is_empty() && other.is_empty()) {
            return order;
        }
    }
}

/// The text before the first number, that number without its leading zeros, and the rest.
fn next_part(text: &str) -> (&str, &str, &str) {
    let begin = text.find(|c: char| c.is_ascii_digit()).unwrap_or(text.len());
    let (before, rest) = text.split_at(begin);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (before, number.trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_by_their_value() {
        let mut names = vec!["rank10", "rank2", "rank", "rank02b", "rank1-3", "a9", "rank1-12"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["a9", "rank", "rank1-3", "rank1-12", "rank2", "rank02b", "rank10"]);
    }
}
