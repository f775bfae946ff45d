//! How an event can contradict the state.

use crate::ids::{Addr, PageNumber, Stream};

/// An event that cannot have happened in this state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot {} {event}: {problem}; records before it are missing or the source is damaged: start from the \
     next base state",
    if *undoing { "undo" } else { "apply" }
)]
pub struct StateError {
    /// The event's name ([`Event::name`](crate::Event::name)), or `snapshot` for a list of segments.
    pub event: &'static str,
    /// Whether it was being undone.
    pub undoing: bool,
    /// The fault.
    pub problem: Problem,
}

/// The fault of an event, or of a list of segments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The range is empty or reaches past the end of the address space.
    #[error("{size_bytes} bytes at {addr} are no range of memory")]
    NoRange {
        /// Where it starts.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
    },
    /// No mapped range holds the block.
    #[error("no segment holds {size_bytes} bytes at {addr}")]
    NotMapped {
        /// Where it starts.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
    },
    /// Something is mapped there already.
    #[error("{size_bytes} bytes at {addr} overlap the segment at {segment}")]
    AlreadyMapped {
        /// Where it starts.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
        /// The segment in the way.
        segment: Addr,
    },
    /// The mapping there differs from the one that the event names.
    #[error(
        "the segment at {segment} differs from the event's {size_bytes} bytes at {addr} in size, kind, stream or pool"
    )]
    OtherSegment {
        /// Where the event's range starts.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
        /// The segment in the state.
        segment: Addr,
    },
    /// Live blocks stand in the way.
    #[error("{size_bytes} bytes at {addr} overlap the live block at {block}")]
    Live {
        /// Where the event's range starts.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
        /// A live block in it.
        block: Addr,
    },
    /// No live block starts there.
    #[error("no live block starts at {addr}")]
    NotLive {
        /// Where one should start.
        addr: Addr,
    },
    /// The block is pending where it should be allocated, or the reverse.
    #[error("the block at {addr} is {}", if *pending { "already freed and pending" } else { "not pending" })]
    Pending {
        /// The block.
        addr: Addr,
        /// Whether it is pending.
        pending: bool,
    },
    /// The block's sizes differ from the event's.
    #[error(
        "the block at {addr} has {size_bytes} bytes for {requested_bytes} requested, not {event_size_bytes} for \
         {event_requested_bytes}"
    )]
    OtherSize {
        /// The block.
        addr: Addr,
        /// Its size in the state.
        size_bytes: u64,
        /// Bytes requested, in the state.
        requested_bytes: u64,
        /// Its size in the event.
        event_size_bytes: u64,
        /// Bytes requested, in the event.
        event_requested_bytes: u64,
    },
    /// The block lies in a segment of another stream.
    #[error("the block at {addr} is for stream {event} but its segment serves stream {state}")]
    OtherStream {
        /// The block.
        addr: Addr,
        /// The event's stream.
        event: Stream,
        /// The segment's stream.
        state: Stream,
    },
    /// A block is smaller than the request that it serves.
    #[error(
        "the block at {addr} has {size_bytes} bytes, fewer than the {requested_bytes} requested of it"
    )]
    TooSmall {
        /// The block.
        addr: Addr,
        /// Its size.
        size_bytes: u64,
        /// Bytes requested.
        requested_bytes: u64,
    },
    /// A page is mapped there already.
    #[error("page {mapped} is mapped at {addr}, where page {page} should be mapped")]
    PageMapped {
        /// Where.
        addr: Addr,
        /// The event's page.
        page: PageNumber,
        /// The page in the state.
        mapped: PageNumber,
    },
    /// The page is not mapped there.
    #[error("page {page} is not mapped at {addr}")]
    PageNotMapped {
        /// Where it should be mapped.
        addr: Addr,
        /// The page.
        page: PageNumber,
    },
    /// The blocks of a segment do not tile it.
    #[error(
        "the blocks of the segment at {segment} do not tile it: expected one at {expected}, found {found}"
    )]
    NotTiled {
        /// The segment.
        segment: Addr,
        /// Where the next block, or the segment's end, should be.
        expected: Addr,
        /// Where it is.
        found: Addr,
    },
}
