//! The one folder that holds what is downloaded.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// `$VRAMTAPE_CACHE`, else `$XDG_CACHE_HOME/vramtape`, else `~/.cache/vramtape`.
pub(crate) fn folder() -> Result<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("VRAMTAPE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("vramtape")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/vramtape")))
        .context("no place for downloads: set VRAMTAPE_CACHE to a folder with 20 GB free")?;
    std::path::absolute(&folder).with_context(|| format!("cannot resolve {}", folder.display()))
}

/// Fails if the file system of `folder` (which must exist) has less than `gib` GiB free.
pub(crate) fn require_space(folder: &Path, gib: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot ask for the free space of {}", folder.display()))?;
    let free_gib = stat.f_bavail.saturating_mul(stat.f_frsize) >> 30;
    if free_gib < gib {
        bail!(
            "{} has {free_gib} GiB free and {gib} GiB are needed: free some space, or set \
             VRAMTAPE_CACHE to a folder on a larger disk",
            folder.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_space_says_what_to_do() {
        let error = require_space(Path::new("/"), u64::MAX >> 30).unwrap_err().to_string();
        assert!(error.contains("VRAMTAPE_CACHE"), "{error}");
        require_space(Path::new("/"), 0).unwrap();
    }
}
