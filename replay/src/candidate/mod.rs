//! Candidates for the settings of runs: a line of settings, and its score over the runs that are replayed under it.

pub(crate) mod line;
pub(crate) mod score;

use settings::{Compat, Config};

use crate::driver::{DriveError, Follow, Result};
use crate::report::Report;
use crate::run::{Addresses, DeviceTape, Options, run};

/// One of the runs that are tuned together: a rank, or a run of its own.
#[derive(Clone)]
pub struct Member<'t> {
    /// Its tape.
    pub tape: DeviceTape<'t>,
    /// The settings it was recorded with.
    pub settings: String,
    /// The whole configuration, where it was recorded under `stitch`: settings do not name it.
    pub stitched: Option<Config>,
    /// Memory of its device; `None` is no limit.
    pub capacity_bytes: Option<u64>,
    /// Which of its inputs count.
    pub follow: Follow,
}

/// Why nothing can be tuned.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// There is no run.
    #[error("no run to tune; name at least one")]
    Empty,
    /// The runs have other settings besides those that are turned.
    #[error(
        "the runs were recorded under settings that differ in more than what is tuned (`{one}` and `{other}`): tune \
         them apart"
    )]
    Different {
        /// The first run's.
        one: String,
        /// Another's.
        other: String,
    },
    /// Recorded settings that PyTorch would not take.
    #[error(
        "the recorded settings `{text}` cannot be replayed; try `vramtape replay RUN` for the reason"
    )]
    Settings {
        /// The settings.
        text: String,
    },
    /// A run that cannot be replayed.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

impl Member<'_> {
    /// The configuration that it was recorded with.
    pub(crate) fn recorded_config(&self, compat: Compat) -> std::result::Result<Config, TuneError> {
        if let Some(config) = &self.stitched {
            return Ok(config.clone());
        }
        let unreadable = |_| TuneError::Settings { text: self.settings.clone() };
        Ok(Config::parse(&self.settings, compat).map_err(unreadable)?.config)
    }

    /// Replays the run under a configuration, on its own device. `progress` is called afterwards.
    pub(crate) fn replay(
        &self,
        config: &Config,
        follow: Follow,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Report> {
        let options = Options {
            strategy: config.clone().into(),
            capacity_bytes: self.capacity_bytes,
            memory_fraction: None,
            addresses: Addresses::Lowest,
            follow,
        };
        let report = run(self.tape, &options, &mut |_| {});
        progress();
        report
    }
}
