//! Malformed tapes: an error or items, never a panic, a hang or much memory.
//!
//! The same function as the fuzz target, over the golden tape's chunks changed at random, always in the same way.

#[path = "../../fuzz/exercise.rs"]
mod exercise;

use std::path::PathBuf;

use exercise::{chunk, exercise, file_header, read, tape_with};
use trace_format::{
    Addr, DeviceId, Event, FIRST_VERSION, Item, Malformed, Meta, PoolId, ReadCause, Reader, Record,
    StackId, Stream, ThreadId, TooMuch, VERSION, Writer,
};

/// Rounds over all chunks of the golden tape; about three seconds unoptimised.
const ROUNDS: u64 = 1500;

fn golden() -> Vec<u8> {
    let name = format!("tests/golden/v{VERSION}.vtape");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read(path).unwrap()
}

/// The chunks of a tape as `(items, unpacked payload)`, found by the specification's byte map.
fn payloads(tape: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut found = Vec::new();
    let mut at = 16;
    while at < tape.len() {
        let word =
            |place: usize| u32::from_le_bytes(*tape[at + place..].first_chunk::<4>().unwrap());
        let stored = &tape[at + 32..at + 32 + word(12) as usize];
        let payload = match tape[at + 5] {
            0 => stored.to_vec(),
            _ => zstd::bulk::decompress(stored, word(16) as usize).unwrap(),
        };
        found.push((word(20), payload));
        at += 32 + stored.len();
    }
    found
}

/// A generator that gives the same numbers everywhere (xorshift64).
struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }

    /// Flips, overwrites, cuts out, repeats or grows some of the bytes.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(3) {
            let at = self.roll(bytes.len());
            let end = bytes.len().min(at + self.roll(8));
            match self.roll(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                1 => bytes[at..end].fill([0, 1, 0x7f, 0x80, 0xff][self.roll(5)]),
                2 => drop(bytes.drain(at..end)),
                3 => bytes.extend_from_within(at..end),
                // The largest varint, for sums that overflow.
                4 => drop(bytes.splice(at..end, [[0xff; 9].as_slice(), &[1]].concat())),
                _ => bytes.insert(at, self.roll(256) as u8),
            }
        }
    }
}

#[test]
fn changed_payloads_behind_right_checksums_are_refused_or_read() {
    let golden = golden();
    for (seed, (items, payload)) in (1..).zip(payloads(&golden)) {
        let mut rng = Rng(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        for round in 0..ROUNDS {
            let mut bytes = (items as u16).to_le_bytes().to_vec();
            bytes.extend(&payload);
            if round > 0 {
                rng.change(&mut bytes);
            }
            exercise(&bytes);
        }
    }
}

#[test]
fn changed_tapes_are_refused_or_read() {
    let golden = golden();
    let mut rng = Rng(0x0123_4567_89ab_cdef);
    for _ in 0..ROUNDS {
        let mut bytes = golden.clone();
        rng.change(&mut bytes);
        read(&bytes);
    }
}

/// The reader's answer to a tape of these bytes.
fn cause_of(tape: &[u8]) -> ReadCause {
    let mut reader = match Reader::new(tape, "hostile bytes") {
        Ok(reader) => reader,
        Err(error) => return error.cause,
    };
    reader.find_map(Result::err).expect("an error").cause
}

#[test]
fn lengths_are_not_trusted() {
    // Claims of 4 MiB over nothing, as events, strings and a base: refused when the bytes do not come.
    for kind in [2, 4, 5] {
        let mut tape = tape_with(9, 0, b"");
        tape.extend(chunk(kind, 1, 4, 4 << 20, 1 << 20, b"\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00"));
        assert!(matches!(cause_of(&tape), ReadCause::Unpack), "kind {kind}");
    }
    // Counts inside a payload, far beyond its bytes.
    for (kind, before) in [(2, &b"\0"[..]), (3, b"\0"), (4, b"\x05\x01"), (5, b"\x05")] {
        let payload = [before, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"].concat();
        let cause = cause_of(&tape_with(kind, 65535, &payload));
        assert!(matches!(cause, ReadCause::Malformed(Malformed::Short)), "kind {kind}: {cause}");
    }
}

/// A tape of this many records that are all the same, and so of next to no size.
fn monotone(records: u32) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "a bomb", &Meta::default()).unwrap();
    let (time_ns, thread, stack) = (1, ThreadId(1), StackId::NONE);
    for _ in 0..records {
        let record = Record { time_ns, thread, stack, event: Event::ResetPeak };
        writer.push(DeviceId(0), &record).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn more_records_than_a_file_of_its_size_has_are_refused_unless_it_is_trusted() {
    let tape = monotone(3 << 20);
    assert!(tape.len() < 50_000, "{} bytes", tape.len());
    let cause = cause_of(&tape);
    assert!(matches!(cause, ReadCause::TooMuch(TooMuch { what: "records", .. })), "{cause}");
    let trusted = Reader::with_limits(&tape[..], "a trusted tape", 10).unwrap();
    assert_eq!(trusted.filter(|item| matches!(item, Ok(Item::Event(..)))).count(), 3 << 20);
    let short =
        Reader::new(&monotone(1 << 20)[..], "a short one").unwrap().all(|item| item.is_ok());
    assert!(short, "a short tape is read whatever it compresses to");
}

/// A tape of this many allocations, each on a stream of its own.
fn streams(count: u64) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "many streams", &Meta::default()).unwrap();
    let (time_ns, thread, stack) = (1, ThreadId(1), StackId::NONE);
    for stream in 0..count {
        let event = Event::Alloc {
            addr: Addr(0),
            requested_bytes: 512,
            size_bytes: 512,
            stream: Stream(stream),
            pool: PoolId::DEFAULT,
        };
        writer.push(DeviceId(0), &Record { time_ns, thread, stack, event }).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn more_streams_than_a_file_of_its_size_has_are_refused_unless_it_is_trusted() {
    let tape = streams(60_000);
    assert!(tape.len() < 500_000, "{} bytes", tape.len());
    let cause = cause_of(&tape);
    assert!(matches!(cause, ReadCause::TooMuch(TooMuch { held: 60_000, .. })), "{cause}");
    let trusted = Reader::with_limits(&tape[..], "a trusted tape", 10).unwrap();
    assert_eq!(trusted.filter(|item| matches!(item, Ok(Item::Event(..)))).count(), 60_000);
    assert!(Reader::new(&streams(8_000)[..], "a short one").unwrap().all(|item| item.is_ok()));
}

#[test]
fn a_chunk_that_unpacks_to_much_is_refused_before_it_is_unpacked() {
    // Dictionaries of 60 million entries in two kilobytes.
    let payload = [&[0][..], b"\x80\x80\x80\x1e", &vec![0; 63 << 20]].concat();
    let stored = zstd::bulk::compress(&payload, 3).unwrap();
    assert!(stored.len() < 10_000, "{} bytes", stored.len());
    for kind in [2, 3, 4, 5] {
        let mut tape = tape_with(9, 0, b"");
        tape.extend(chunk(kind, 1, 4, payload.len() as u32, 1, &stored));
        let cause = cause_of(&tape);
        assert!(matches!(cause, ReadCause::TooMuch(_)), "kind {kind}: {cause}");
    }
}

#[test]
fn chunks_of_later_versions_are_skipped_and_counted() {
    let mut tape = tape_with(99, 12, b"who knows");
    tape.extend(chunk(200, 7, 4, 1 << 20, 0, b"packed in a way of its own"));
    tape.extend(chunk(2, 0, 5, 3, 1, b"\x05\x01f"));
    let mut reader = Reader::new(&tape[..], "a later version's tape").unwrap();
    assert!(reader.next().is_none());
    assert_eq!(reader.tables().strings_len(), 6);
    let report = reader.recovered().to_string();
    assert_eq!(
        report,
        "not finished; all that was written was read; 2 chunks of a later version were skipped"
    );
}

#[test]
fn each_fault_has_its_own_error_with_a_remedy() {
    let whole = golden();
    let of_version = |version: u32| {
        let mut tape = whole.clone();
        tape[8] = version as u8;
        let crc = crc32fast::hash(&tape[..12]).to_le_bytes();
        tape[12..16].copy_from_slice(&crc);
        tape
    };
    let (earlier, later) = (of_version(FIRST_VERSION - 1), of_version(VERSION + 1));
    let mut header = whole.clone();
    header[9] = 1;
    let mut text = whole.clone();
    text.remove(4);
    let mut middle = whole.clone();
    middle[60] ^= 1;
    let mut second = whole.clone();
    let after_meta = 16 + 32 + payload_bytes(&whole);
    second[after_meta + 40] ^= 1;
    let mut gap = file_header();
    gap.extend(chunk(1, 0, 0, 2, 1, b"{}"));
    gap.extend(chunk(2, 0, 2, 2, 1, b"\0\x01a"));
    let version = |found| {
        format!(
            "has version {found}, and this program reads versions {FIRST_VERSION} to {VERSION};"
        )
    };
    let too_old = version(FIRST_VERSION - 1) + " no release wrote it: record again";
    let too_new = version(VERSION + 1) + " use a newer vramtape";
    let packed = [tape_with(9, 0, b""), chunk(4, 9, 4, 1, 1, b"x")].concat();
    let cases: [(&[u8], &str); 12] = [
        (b"", "ended before its first chunk was written; nothing can be recovered"),
        (&whole[..30], "ended before its first chunk was written"),
        (b"PK\x03\x04 is some archive", "no vramtape tape; give a .vtape file"),
        (&text, "copied as text, which destroyed it; copy it again in binary mode"),
        (&header, "file header is damaged; take another copy"),
        (&earlier, &too_old),
        (&later, &too_new),
        (&middle, "chunk 0 at byte 16: the chunk is damaged, although more follow"),
        (&second, "keep the part before it: head -c"),
        (&gap, "this is chunk 2: chunks are missing or out of order"),
        (&packed, "packed in a way that this program does not know; use a newer vramtape"),
        (&tape_with(4, 1, b"\x01"), "makes no sense: it ends in the middle of a value"),
    ];
    for (tape, says) in cases {
        let error = match Reader::new(tape, "bad.vtape") {
            Ok(mut reader) => reader.find_map(Result::err).expect(says),
            Err(error) => error,
        };
        let error = error.to_string();
        assert!(error.contains(says) && error.contains("bad.vtape"), "{says:?}: {error}");
    }
}

fn payload_bytes(tape: &[u8]) -> usize {
    u32::from_le_bytes(*tape[28..].first_chunk::<4>().unwrap()) as usize
}

#[test]
fn bytes_behind_the_end_are_reported() {
    let tape = [golden(), golden()].concat();
    let mut reader = Reader::new(&tape[..], "two tapes").unwrap();
    assert!(reader.by_ref().all(|item| item.is_ok()));
    let report = reader.recovered().to_string();
    let half = tape.len() / 2;
    assert_eq!(report, format!("complete; {half} bytes behind its end at byte {half} ignored"));
}

/// Address, size, and the blocks by their sizes and what was requested of them.
type Segment<'s> = (u64, u64, &'s [(u64, u64)]);

/// The reader's answer to a tape with a base of these segments.
fn base_of(segments: &[Segment<'_>]) -> Option<String> {
    let put = |out: &mut Vec<u8>, mut value: u64| {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    };
    let mut payload = vec![0; 7]; // Time, settings, fraction, statistics, pools, scopes and captures: none.
    put(&mut payload, segments.len() as u64);
    let mut last = 0u64;
    for &(addr, size_bytes, blocks) in segments {
        let step = addr.wrapping_sub(last);
        put(&mut payload, step << 1 ^ (step as i64 >> 63) as u64);
        put(&mut payload, size_bytes);
        payload.extend([0; 5]); // Stream, pool, flags and stack.
        put(&mut payload, blocks.len() as u64);
        for &(size_bytes, requested_bytes) in blocks {
            put(&mut payload, size_bytes);
            put(&mut payload, requested_bytes);
            payload.extend([1, 0]); // Allocated, without a stack.
        }
        last = addr;
    }
    let tape = tape_with(5, 1, &payload);
    let error = Reader::new(&tape[..], "a state").unwrap().find_map(Result::err)?;
    assert!(matches!(error.cause, ReadCause::Contradiction(_)), "{error}");
    Some(error.to_string())
}

#[test]
fn a_state_that_no_allocator_can_be_in_is_refused() {
    let good: [Segment<'_>; 2] = [(4096, 1024, &[(512, 512), (512, 1)]), (5120, 512, &[(512, 0)])];
    assert_eq!(base_of(&good), None);
    let cases: [(&[Segment<'_>], &str); 6] = [
        (&[(4096, 512, &[(512, 513)])], "has 512 bytes, fewer than the 513 requested"),
        (&[(4096, 512, &[(1024, 1)])], "no segment holds 1024 bytes"),
        (&[(4096, 1024, &[(512, 1)])], "do not tile it"),
        (&[(4096, 0, &[])], "no range of memory"),
        (&[(4096, u64::MAX, &[(512, 1)])], "no range of memory"),
        (&[(4096, 512, &[(512, 1)]), (4500, 512, &[(512, 1)])], "overlap the segment"),
    ];
    for (segments, says) in cases {
        let error = base_of(segments).expect(says);
        assert!(error.contains(says) && error.contains("a state: chunk"), "{says}: {error}");
    }
}
