//! The payload of an events chunk: records by column, with dictionaries that hold for this chunk alone.

mod columns;
mod decode;
mod dictionary;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        event::{Event, Record},
        ids::{Addr, PoolId, StackId, Stream, ThreadId},
    };

    /// The bytes of the specification's worked example.
    fn example() -> Vec<u8> {
        let text = include_str!("../../../docs/trace-format.md");
        let block = text.split("**Worked example.**").nth(1).unwrap().split("```").nth(1).unwrap();
        let lines = block.lines().filter_map(|line| line.split("  ").next());
        let hex = lines.flat_map(str::split_whitespace);
        hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    #[test]
    fn the_worked_example_is_what_is_written_and_read() {
        let (addr, stream, pool) = (Addr(0x7f00_0000_0000), Stream(0), PoolId::DEFAULT);
        let (requested_bytes, size_bytes) = (1000, 1024);
        let record =
            |time_ns, event| Record { time_ns, thread: ThreadId(77), stack: StackId::NONE, event };
        let start_ns = 1_800_000_000_000_000_000;
        let alloc = Event::Alloc { addr, requested_bytes, size_bytes, stream, pool };
        let free = Event::Free { addr, requested_bytes, size_bytes, pending: false };
        let records = [record(start_ns, alloc), record(start_ns + 2000, free)];
        let mut encoder = EventsEncoder::new();
        for record in &records {
            encoder.push(record);
        }
        let mut payload = Vec::new();
        encoder.finish(&mut payload);
        assert_eq!(format!("{payload:02X?}"), format!("{:02X?}", example()));

        let mut decoder = EventsDecoder::default();
        *decoder.payload_mut() = payload;
        decoder.start(2, Defined::default()).unwrap();
        for record in records {
            assert_eq!(decoder.next().unwrap(), Some(record));
        }
        assert_eq!(decoder.next().unwrap(), None);
    }
}
