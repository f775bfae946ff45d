//! `vramtape clean`: removes the rings of processes that died.

use std::path::{Path, PathBuf};

use allocator::record::{RING_DIR, remove_dead_rings};
use anyhow::{Context, Result};
use serde::Serialize;

use crate::{Verdict, output};

/// The flags.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The folder with the rings
    #[arg(long, value_name = "FOLDER", default_value = RING_DIR, hide = true)]
    folder: PathBuf,
}

#[derive(Serialize)]
struct Report {
    removed: Vec<PathBuf>,
}

/// Removes them and says which.
pub(crate) fn run(options: &Options) -> Result<Verdict> {
    let report = Report { removed: remove(&options.folder)? };
    if options.json {
        output::print_json(&report)?;
    } else if report.removed.is_empty() {
        output::print("no ring of a dead process\n")?;
    } else {
        for path in &report.removed {
            output::print(&format!("removed {}\n", path.display()))?;
        }
    }
    Ok(Verdict::Good)
}

fn remove(folder: &Path) -> Result<Vec<PathBuf>> {
    remove_dead_rings(folder).with_context(|| {
        format!("cannot remove rings from {}: is it there, and are they yours?", folder.display())
    })
}
