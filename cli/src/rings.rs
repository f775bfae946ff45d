//! Where verbs look for rings.

use std::env;
use std::path::PathBuf;

use recorder::{RING_DIR_VARIABLE, ring_dir};

/// The folder with the rings: for all but tests, the one where processes of this environment make theirs.
#[derive(clap::Args)]
pub(crate) struct RingFolder {
    /// The folder with the rings
    #[arg(long = "folder", value_name = "FOLDER", hide = true)]
    named: Option<PathBuf>,
}

impl RingFolder {
    /// The folder, which need not exist.
    pub(crate) fn path(&self) -> PathBuf {
        self.named.clone().unwrap_or_else(|| ring_dir(env::var_os(RING_DIR_VARIABLE)))
    }
}
