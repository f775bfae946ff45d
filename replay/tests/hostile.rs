//! Malformed files: an error or a run, never a panic, a hang or much memory.
//!
//! The same function as the fuzz target, over the files in `tests/data` changed at random, always in the same way.
//! `VRAMTAPE_FUZZ_SECONDS=600 VRAMTAPE_FUZZ=rmm cargo test --release -p replay --test hostile -- --nocapture changed`
//! goes on for ten minutes with the files whose path contains `rmm`.

#[path = "../fuzz/exercise.rs"]
mod exercise;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use exercise::exercise;
use replay::import::{RunLimits, import_bytes};
use replay::source::{read_all, read_from};

/// Changed copies of each file; about three seconds unoptimised.
const ROUNDS: u64 = 300;

/// Tokens of the formats: opcodes with operands that matter, numbers at the edge, and words.
const TOKENS: [&[u8]; 40] = [
    b"\x80\x04",
    b"]",
    b"}",
    b"(",
    b"e",
    b"u",
    b"a",
    b"s",
    b"t",
    b".",
    b"0",
    b"1",
    b"2",
    b"N",
    b"\x94",
    b"h\x00",
    b"h\x01",
    b"j\xff\xff\xff\xff",
    b"r\xff\xff\xff\xff",
    b"K\xff",
    b"J\xff\xff\xff\xff",
    b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x8a\xff",
    b"\x8b\xff\xff\xff\x7f",
    b"X\xff\xff\xff\xff",
    b"\x8c\xff",
    b"cposix\nsystem\n",
    b"\x93",
    b"R",
    b"G\x7f\xf0\0\0\0\0\0\0",
    b"\x8c\x0bsegment_map",
    b"\x8c\x0dsegment_unmap",
    b"\x8c\x03oom",
    b"\n",
    b",",
    b"\"",
    b"-1",
    b"18446744073709551615",
    b"9223372036854775807",
    b"allocate failure",
];

/// A generator that gives the same numbers everywhere (xorshift64).
struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }

    /// Flips, overwrites, cuts out, repeats, moves or grows some of the bytes.
    fn change(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len());
            let end = bytes.len().min(at + self.roll(24));
            match self.roll(10) {
                0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << self.roll(8),
                2 => bytes[at..end].fill([0, 1, 0x7f, 0x80, 0xff][self.roll(5)]),
                3 => drop(bytes.drain(at..end)),
                4 => {
                    let part = bytes[at..end].to_vec();
                    let to = self.roll(bytes.len());
                    drop(bytes.splice(to..to, part.repeat(1 + self.roll(3))));
                }
                5 | 6 => drop(bytes.splice(at..end, TOKENS[self.roll(TOKENS.len())].to_vec())),
                7 => bytes.insert(at, TOKENS[self.roll(TOKENS.len())][0]),
                8 if !other.is_empty() => {
                    let from = self.roll(other.len());
                    let to = other.len().min(from + self.roll(200));
                    drop(bytes.splice(at..at, other[from..to].to_vec()));
                }
                // A number in text: another one.
                _ => {
                    let digit = bytes[at..].iter().position(u8::is_ascii_digit);
                    if let Some(digit) = digit.map(|digit| at + digit) {
                        bytes[digit] = b'0' + self.roll(10) as u8;
                    }
                }
            }
        }
    }
}

/// The files of `tests/data` that are small.
fn files() -> Vec<(PathBuf, Vec<u8>)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data");
    let mut found = Vec::new();
    for folder in ["logs", "snapshots", "pickles"] {
        for entry in fs::read_dir(data.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
    let own = data.join("traces/fragmentation_exercise-default.pickle.zst");
    found.push((own.clone(), fs::read(own).unwrap()));
    found.sort();
    assert!(found.len() > 15, "tests/data is here");
    found
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Where a file that was found lies, so that it can be tried again: `VRAMTAPE_FUZZ_FILE=PATH`.
#[test]
fn a_file_that_was_found_is_refused_or_imported() {
    if let Some(path) = std::env::var_os("VRAMTAPE_FUZZ_FILE") {
        exercise(&fs::read(path).unwrap());
    }
    for (_, bytes) in files() {
        exercise(&bytes);
    }
}

/// The inputs that the fuzzer found, one for each way through the code (`replay/fuzz/corpus.py` packs them).
#[test]
fn inputs_found_by_the_fuzzer_are_refused_or_imported() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/corpus");
    let mut inputs = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let packed = read_all(&entry.unwrap().path(), 1).unwrap();
        let mut rest = packed.bytes.as_slice();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let (input, after) = after.split_at(u32::from_le_bytes(*len) as usize);
            exercise(input);
            inputs += 1;
            rest = after;
        }
    }
    assert!(inputs > 1000, "{inputs}");
}

/// Earlier faults: a request of no bytes, invalid pages, a run of segments that was walked again and again.
#[test]
fn files_that_once_failed_are_refused_or_imported() {
    let log = "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00.1,allocate failure,0,0,0\n";
    exercise(log.as_bytes());
    let segment = |size: u64, large: &str| {
        format!(
            r#"{{"device": 0, "address": 2097152, "total_size": {size}, "stream": 0, "segment_type": "{large}",
            "is_expandable": true, "blocks": [{{"size": {size}, "state": "inactive"}}]}}"#
        )
    };
    let alloc = |size: u64| {
        format!(r#"{{"action": "alloc", "addr": 2097152, "size": {size}, "stream": 0}}"#)
    };
    let snapshot = |segment: String, event: String| {
        format!(
            r#"{{"segments": [{segment}], "device_traces": [[{event}]],
            "allocator_settings": {{"expandable_segments": true}}}}"#
        )
    };
    for (size, kind) in
        [(2_097_152, "small"), (2_097_153, "small"), (512, "small"), (2_097_152, "large")]
    {
        for request in [0, 1, 512, 3 << 20] {
            exercise(snapshot(segment(size, kind), alloc(request)).as_bytes());
        }
    }
    let map = r#"{"action": "segment_map", "addr": 2097152, "size": 2097152, "stream": 0}"#;
    let maps = vec![map; 30_000].join(",");
    exercise(snapshot(segment(2_097_152, "small"), maps).as_bytes());
}

/// 130 KB were 8.1 GB, 318 KB of JSON 12 GB: what a file unpacks to, its values and its rows count for its own size.
#[test]
fn a_small_file_with_huge_content_is_refused_with_a_remedy() {
    let import = |bytes: &[u8], factor| {
        let packed = zstd::bulk::compress(bytes, 1).unwrap();
        assert!(packed.len() < 200_000, "{} bytes", packed.len());
        let known = RunLimits { trust_factor: factor, ..RunLimits::default() };
        let input =
            read_from(packed.as_slice(), Path::new("a"), factor).map_err(|e| e.to_string())?;
        import_bytes(input, Path::new("a"), &known).map(drop).map_err(|e| e.to_string())
    };
    let lists = |count: usize| [b"{\"segments\":[".to_vec(), b"[],".repeat(count)].concat();
    let marks = [b"\x80\x04]".to_vec(), b"]".repeat(20 << 20)].concat();
    let event = b"\x80\x04}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](](}(X\x06\0\0\0action\
        X\x08\0\0\0snapshotX\x04\0\0\0sizeK\x01u\x94"
        .to_vec();
    let events = [event, b"h\0".repeat(5 << 19), b"eeu.".to_vec()].concat();
    let rows = [b"id,lower,upper,size\n".to_vec(), b"a,0,1,1\n".repeat(4 << 20)].concat();
    for (what, bytes) in [
        ("bytes", lists(30 << 20)),
        ("lists", lists(15 << 20)),
        ("marks", marks),
        ("events", events.clone()),
        ("rows", rows),
    ] {
        let error = import(&bytes, 1).expect_err(what);
        assert!(error.contains("--trust-factor"), "{what}: {error}");
    }
    assert_eq!(import(&events, 10), Ok(()));
}

#[test]
fn a_snapshot_with_a_block_smaller_than_its_request_is_refused() {
    let snapshot = |requested: u64| {
        format!(
            r#"{{"segments": [{{"device": 0, "address": 2097152, "total_size": 2097152, "stream": 0, "blocks":
            [{{"size": 2097152, "requested_size": {requested}, "state": "active_allocated"}}]}}],
            "device_traces": [[]]}}"#
        )
    };
    let import = |requested| {
        let bytes = snapshot(requested).into_bytes();
        import_bytes(bytes, Path::new("a.json"), &RunLimits::default())
            .map_err(|error| error.to_string())
    };
    assert!(import(2_097_152).is_ok());
    for requested in [2_097_153, u64::MAX] {
        let error = import(requested).expect_err("too much");
        assert!(error.contains("fewer than the") && error.contains("device 0"), "{error}");
    }
}

#[test]
fn changed_files_are_refused_or_imported() {
    let seconds = std::env::var("VRAMTAPE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let only = std::env::var("VRAMTAPE_FUZZ").unwrap_or_default();
    let mut files = files();
    files.retain(|(path, _)| path.to_string_lossy().contains(&only));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = if seconds.is_some() { now | 1 } else { 0x9e37_79b9_7f4a_7c15 };
    println!("seed {seed:#x}, {} files", files.len());
    let mut rng = Rng(seed);
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    let mut done = 0_u64;
    let mut slowest = Duration::ZERO;
    for round in 0.. {
        if round >= ROUNDS && Instant::now() >= end {
            break;
        }
        for at in 0..files.len() {
            let mut bytes = files[at].1.clone();
            let other = rng.roll(files.len());
            if round > 0 {
                rng.change(&mut bytes, &files[other].1);
            }
            if rng.roll(20) == 0 {
                bytes = gzip(&bytes);
            }
            let start = Instant::now();
            let outcome = std::panic::catch_unwind(|| exercise(&bytes));
            if outcome.is_err() {
                let kept = std::env::temp_dir().join(format!("hostile-{done}"));
                fs::write(&kept, &bytes).unwrap();
                panic!("{}: changed to {}", files[at].0.display(), kept.display());
            }
            slowest = slowest.max(start.elapsed());
            done += 1;
        }
    }
    println!("{done} files, the slowest took {slowest:?}");
}
