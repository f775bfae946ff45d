//! Why a replay ended before its tape.

use allocator::heap::AllocError;
use device::DeviceError;
use settings::ConfigError;
use trace_format::TooMuch;

/// The answer of a replay; of something else where the error is named.
pub type Result<T, E = DriveError> = std::result::Result<T, E>;

/// A tape that a strategy cannot follow.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// An event contradicts what came before it.
    #[error("record {index}: {reason}; the tape is damaged or was edited, try `vramtape info`")]
    Contradiction {
        /// Number of the record on its device, from 0.
        index: u64,
        /// The contradiction.
        reason: String,
    },
    /// Recorded settings that do not parse.
    #[error("record {index}: settings: {source}")]
    Settings {
        /// Number of the record on its device, from 0.
        index: u64,
        /// The fault of the settings.
        source: ConfigError,
    },
    /// The state the tape starts from does not fit the device.
    #[error("the recorded start does not fit: {0}; try a larger --capacity")]
    Base(AllocError),
    /// The same, for a strategy with segments of its own.
    #[error(
        "the recorded start does not fit: no room for a block of {size_bytes} bytes; try a larger --capacity"
    )]
    NoRoom {
        /// The block.
        size_bytes: u64,
    },
    /// The strategy's settings do not work on this device.
    #[error("{strategy} cannot start: {reason}")]
    Start {
        /// The strategy.
        strategy: &'static str,
        /// Why, and what to set.
        reason: String,
    },
    /// The operation requires the live allocator, and the strategy is a model.
    #[error(
        "{strategy} is a model: its replay is counted, but not kept; choose native, expandable or stitch"
    )]
    OnlyNative {
        /// The strategy.
        strategy: &'static str,
    },
    /// The replay moves memory over and over.
    #[error("record {index}: {error}")]
    TooMuch {
        /// Number of the record on its device, from 0.
        index: u64,
        /// The driver calls so far, and the limit.
        error: TooMuch,
    },
    /// The simulated device failed other than by being full.
    #[error("the simulated device failed: {0}")]
    Device(#[from] DeviceError),
}
