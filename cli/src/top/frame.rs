//! The content of one frame: plain data, for the screen and for `--json`.

use serde::Serialize;
use trace_format::HostReading;

/// A process at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Frame {
    pub(crate) pid: u32,
    pub(crate) command: Option<String>,
    /// Whether the process lives; what is shown of a dead one is its end.
    pub(crate) is_live: bool,
    pub(crate) devices: Vec<DeviceFrame>,
}

/// A device of it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct DeviceFrame {
    pub(crate) device: u16,
    pub(crate) name: String,
    /// Whether the state of memory is known; if not, all that follows from it is zero.
    pub(crate) is_known: bool,
    /// The process's limit: the device's memory, or the fraction of it that was set.
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) reserved_bytes: u64,
    /// Held by the program.
    pub(crate) allocated_bytes: u64,
    /// Held, or still in use by another stream.
    pub(crate) active_bytes: u64,
    /// Reserved and not active.
    pub(crate) waste_bytes: u64,
    /// The most that one request could get without the device.
    pub(crate) largest_free_bytes: u64,
    /// Memory that can still be reserved if no other process uses the device.
    pub(crate) to_oom_bytes: Option<u64>,
    /// Since this view began.
    pub(crate) peak_allocated_bytes: u64,
    /// Since this view began.
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) live_blocks: u64,
    pub(crate) events_per_second: f64,
    /// Records that this view missed.
    pub(crate) lost: u64,
    /// Records that the process's own tape missed.
    pub(crate) lost_by_tape: u64,
    /// Live blocks that did not fit the ring's tables.
    pub(crate) missing_blocks: u64,
    /// Segments, and private pools and scopes, likewise.
    pub(crate) missing_segments: u64,
    pub(crate) missing_pools: u64,
    /// Name of the newest step mark.
    pub(crate) step: Option<String>,
    /// The process's pinned host memory at its last mark; `None` where it has none.
    pub(crate) host_memory: Option<HostReading>,
    pub(crate) pools: Vec<PoolFrame>,
    /// The call stacks that hold most, largest first.
    pub(crate) stacks: Vec<StackFrame>,
    /// Events that changed segments, newest last.
    pub(crate) last_events: Vec<EventFrame>,
}

/// The segments of one pool, stream and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PoolFrame {
    /// `default`, or the two numbers of a private pool.
    pub(crate) pool: String,
    pub(crate) stream: String,
    /// `small` or `large`.
    pub(crate) kind: &'static str,
    pub(crate) segments: u64,
    pub(crate) reserved_bytes: u64,
    pub(crate) allocated_bytes: u64,
    /// Given back, still in use by another stream.
    pub(crate) pending_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) largest_free_bytes: u64,
}

/// The memory of one call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct StackFrame {
    pub(crate) live_bytes: u64,
    pub(crate) blocks: u64,
    /// Innermost first; empty where none was recorded.
    pub(crate) frames: Vec<String>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct EventFrame {
    /// Nanoseconds since the Unix epoch.
    pub(crate) time_ns: u64,
    pub(crate) what: String,
}
