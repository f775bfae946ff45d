//! How a tape ended: finished, early, or not at all.

use std::io;
use std::path::PathBuf;

use trace_format::{WriteCause, WriteError, utc};

/// Why and when a tape ended before its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeFailure {
    /// The system's words, or ours.
    pub reason: String,
    /// When, in nanoseconds since the Unix epoch.
    pub time_ns: u64,
}

/// What is on a finished tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapeSummary {
    /// The file.
    pub path: PathBuf,
    /// Records on it, those included that are gone with parts of it
    /// ([`start_limited`](super::TapeRecorder::start_limited)).
    pub records: u64,
    /// Records that are not, because they were overwritten before they could be read.
    pub lost: u64,
}

/// Why a tape could not be started or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapeError {
    /// The file could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The state of memory leaves no room for records.
    #[error(
        "{}: a state of memory takes {base_bytes} bytes of a tape that may have {max_bytes}; \
         set tape_max in VRAMTAPE_CONF higher",
        path.display()
    )]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// What the state takes.
        base_bytes: u64,
        /// What the tape may have.
        max_bytes: u64,
    },
    /// The tape ended before its program.
    #[error(
        "{} ended early, at {}: {}; {lost} records after that are not on it",
        path.display(),
        utc(*time_ns),
        cause.reason()
    )]
    Ended {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: Box<TapeError>,
        /// When, in nanoseconds since the Unix epoch.
        time_ns: u64,
        /// Records that are missing on it, those included that were overwritten before.
        lost: u64,
    },
    /// Another tape is being written there.
    #[error(
        "{} is being written by another process: put {{pid}} or {{rank}} into the tape path",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Something else is there, which a tape does not replace.
    #[error(
        "cannot write a tape to {}: {reason}, and a tape replaces only a tape of this user or an empty file; name \
         another path (`vramtape run -o`, or tape: in VRAMTAPE_CONF), or remove it",
        path.display()
    )]
    Refused {
        /// The file.
        path: PathBuf,
        /// What it is.
        reason: String,
    },
    /// The drainer's thread could not be started.
    #[error("cannot start the tape's thread: {0}")]
    Thread(io::Error),
    /// The drainer's thread panicked, which is a mistake of ours.
    #[error("the tape's thread panicked; {} is readable up to there", path.display())]
    Panicked {
        /// The file.
        path: PathBuf,
    },
    /// This process was forked from the one that records.
    #[error("this process was forked from the one that writes the tape; stop it there")]
    Forked,
}

impl TapeError {
    /// Why a tape could not be written, without its name.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Write(WriteError { cause: WriteCause::Io(error), .. }) => {
                // Without the number behind it.
                let text = error.to_string();
                text.split(" (os error").next().unwrap_or_default().to_owned()
            }
            Self::Write(error) => error.cause.to_string(),
            other => other.to_string(),
        }
    }

    /// What to do about it, where the reason does not say it.
    pub(super) fn way_out(&self) -> &'static str {
        match self {
            Self::Write(WriteError { cause: WriteCause::Io(_), .. }) => {
                ". Make room there, write it to another disk (`vramtape run -o`, or tape: in VRAMTAPE_CONF), or limit \
                 its size (tape_max:2GiB)"
            }
            _ => "",
        }
    }
}
