//! Tools of the tests: the project's files, a browser, pages, and the snapshot contract.
#![forbid(unsafe_code)]

pub mod browser;
pub mod page;
pub mod snapshot_contract;

use std::fs;
use std::path::{Path, PathBuf};

/// The project's root folder.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().expect("the checkout has not moved since it was built")
}

/// Folders whose contents are made, not written.
const MADE: [&str; 5] = ["target", ".git", "demo-output", "__pycache__", "node_modules"];

/// Every file of the project below `folder` whose name ends in one of `extensions`, sorted.
pub fn files(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a readable folder") {
            let entry = entry.expect("a readable entry");
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().expect("a file type").is_dir() {
                if !MADE.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if extensions.iter().any(|extension| name.ends_with(extension)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
