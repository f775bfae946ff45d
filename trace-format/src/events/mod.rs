//! The payload of an events chunk: records by column, with dictionaries that hold for this chunk alone.

mod decode;
mod encode;
mod kinds;

pub(crate) use decode::{Defined, EventsDecoder};
pub(crate) use encode::EventsEncoder;
pub(crate) use kinds::{filter_code, filter_of};

/// Columns with a length of their own; the tags, one byte to a record, need none.
const COLUMNS: usize = 7;
const TIMES: usize = 0;
const THREADS: usize = 1;
const PLACES: usize = 2;
const STACKS: usize = 3;
const ADDRS: usize = 4;
const SIZES: usize = 5;
const ARGS: usize = 6;
