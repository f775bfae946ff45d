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
    use crate::{Addr, Event, PoolId, Record, StackId, Stream, ThreadId};

    /// The bytes of the specification's worked example.
    fn example() -> Vec<u8> {
        let text = include_str!("../../../docs/trace-format.md");
        let block = text.split("**Worked example.**").nth(1).unwrap().split("```").nth(1).unwrap();
        let lines = block.lines().filter_map(|line| line.split("  ").next());
        let hex = lines.flat_map(str::split_whitespace);
        hex.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    }

    /// One record of a kind whose row in the specification has these cells, all its values zero.
    fn zeros(kind: u8, cells: &[&str]) -> Vec<u8> {
        let [addr, sizes, place] = [1, 2, 3].map(|cell: usize| u8::from(cells[cell] == "yes"));
        let arguments = cells[4].split(", ").filter(|one| !one.is_empty());
        let arguments: u8 = arguments.map(|one| if one == "pool" { 2 } else { 1 }).sum();
        let (time, thread, stack) = (1, 1, 0);
        let lengths = [time, thread, place, stack, addr, sizes, arguments];
        // Time and unit; dictionaries of one thread, place, pair of sizes and address.
        let mut payload = vec![0, 1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0];
        payload.extend(lengths);
        payload.push(kind | 0x40 | (place << 7));
        payload.extend(vec![0; lengths.iter().sum::<u8>().into()]);
        payload
    }

    #[test]
    fn kinds_match_the_specification() {
        let text = include_str!("../../../docs/trace-format.md");
        let table = text.split("| kind | event |").nth(1).unwrap().split("\n\n").next().unwrap();
        for (kind, row) in (0..31).zip(table.lines().skip(2)) {
            let cells: Vec<&str> = row.split('|').skip(1).map(str::trim).collect();
            assert_eq!(cells[0], kind.to_string());
            let mut decoder = EventsDecoder::default();
            *decoder.payload_mut() = zeros(kind, &cells[1..]);
            decoder.start(1, Defined::default()).unwrap();
            let record = decoder.next().unwrap_or_else(|e| panic!("kind {kind}: {e}")).unwrap();
            assert_eq!(cells[1].split('`').nth(1), Some(record.event.name()), "kind {kind}");
        }
        assert_eq!(table.lines().skip(2).count(), 31);
    }

    #[test]
    fn the_worked_example_is_written_and_read_as_documented() {
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
