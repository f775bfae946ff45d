//! A folder for the rings of a group of tests, so that rings left by one group do not affect another.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

/// Removed when this is dropped.
pub(super) struct Rings(Option<TempDir>);

impl Rings {
    /// On tmpfs, as rings should be; where this machine has none, rings go to their default folder.
    pub(super) fn new() -> Result<Self> {
        let tmpfs = Path::new("/dev/shm");
        let folder = || tempfile::Builder::new().prefix("test-rings-").tempdir_in(tmpfs);
        let folder = tmpfs.is_dir().then(folder).transpose();
        Ok(Self(folder.with_context(|| format!("no folder for rings in {}", tmpfs.display()))?))
    }

    /// Makes a program and its children use the folder.
    pub(super) fn announce(&self, command: &mut Command) {
        if let Some(folder) = &self.0 {
            command.env("VRAMTAPE_RINGS", folder.path());
        }
    }
}
