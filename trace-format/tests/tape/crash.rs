//! A machine that crashes, or a disk that is full or fails, at any write of a tape: what the file has then is read as
//! the chunks up to some point, never as anything that was not written.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use crate::common::{Step, read, steps, take};
use proptest::prelude::*;
use trace_format::{
    DeviceId, EndKind, Event, Item, Medium, Meta, ProgramEnd, ReadCause, Record, StackId, ThreadId,
    WriteCause, WriteError, Writer,
};

/// The size of a disk's block; smaller than real ones, so that a short tape has many.
const BLOCK_BYTES: usize = 128;
const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// A file that remembers what it held after each operation.
#[derive(Default)]
struct File {
    /// The content after each write and cut since the last sync; the first is on the disk.
    versions: Vec<Vec<u8>>,
    /// How many bytes find room.
    capacity_bytes: Option<usize>,
    /// How many operations succeed before one fails, with what error; the disk works again after it.
    fails_after: Option<(usize, i32)>,
    operations: usize,
    syncs: usize,
}

#[derive(Clone, Default)]
struct Disk(Rc<RefCell<File>>);

impl File {
    fn now(&self) -> Vec<u8> {
        self.versions.last().cloned().unwrap_or_default()
    }

    /// Whether this operation fails.
    fn count(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.fails_after {
            Some((after, error)) if self.operations == after + 1 => {
                Err(io::Error::from_raw_os_error(error))
            }
            _ => Ok(()),
        }
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.0.borrow_mut();
        let mut now = file.now();
        let room = file.capacity_bytes.map_or(usize::MAX, |capacity| capacity - now.len());
        let fails = file.count();
        // An error may come after a part was written.
        let part = if fails.is_err() { bytes.len() / 2 } else { bytes.len() }.min(room);
        now.extend_from_slice(&bytes[..part]);
        if file.versions.is_empty() {
            file.versions.push(Vec::new());
        }
        file.versions.push(now);
        fails?;
        if part == 0 { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(part) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for Disk {
    fn cut(&mut self, size_bytes: u64) -> io::Result<()> {
        let mut file = self.0.borrow_mut();
        file.count()?;
        let mut now = file.now();
        now.resize(size_bytes as usize, 0);
        file.versions.push(now);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut file = self.0.borrow_mut();
        file.count()?;
        file.versions = vec![file.now()];
        file.syncs += 1;
        Ok(())
    }
}

/// The items of an image, which may end anywhere; what cannot be opened has none.
fn items_of(image: &[u8]) -> (Vec<Item>, Option<ReadCause>) {
    match read(image) {
        Ok(outcome) => (outcome.items, outcome.error.map(|error| error.cause)),
        Err(error) => (Vec::new(), Some(error.cause)),
    }
}

/// A random number generator whose seed a failure prints.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// A possible content of the file after a crash: each block, and the length, as of some moment since the last sync.
fn image(versions: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let longest = versions.iter().map(Vec::len).max().unwrap_or(0);
    let shortest = versions.iter().map(Vec::len).min().unwrap_or(0);
    let size_bytes = match random.below(3) {
        0 => versions[random.below(versions.len())].len(),
        1 => longest,
        _ => shortest + random.below(longest - shortest + 1),
    };
    let mut image = vec![0; size_bytes];
    // Few or many of the blocks are late.
    let late = 1 + random.below(8);
    for (at, block) in image.chunks_mut(BLOCK_BYTES).enumerate() {
        let newest = versions.len() - 1;
        let from = if random.below(late) == 0 { random.below(versions.len()) } else { newest };
        let old = versions[from].get(at * BLOCK_BYTES..).unwrap_or_default();
        let count = old.len().min(block.len());
        block[..count].copy_from_slice(&old[..count]);
    }
    image
}

fn lost() -> Record {
    let (time_ns, thread, stack) = (1, ThreadId(0), StackId::NONE);
    Record { time_ns, thread, stack, event: Event::Lost { count: 7 } }
}

fn failed() -> Meta {
    let end = ProgramEnd { kind: EndKind::TapeFailed, ..ProgramEnd::default() };
    Meta { end: Some(end), ..Meta::default() }
}

/// Writes as the tape's thread does: where a write fails, the tape is finished short.
fn write(disk: &Disk, steps: &[Step]) -> (Result<(), WriteError>, bool) {
    let written = Writer::new(disk.clone(), "run.vtape", &Meta::default()).and_then(
        |mut writer| match take(&mut writer, steps).and_then(|()| writer.flush()) {
            Ok(()) => writer.finish_on_disk().map(|_| None),
            Err(error) => {
                let again = writer.push(DeviceId(0), &lost()).and_then(|()| writer.flush());
                let is_stopped =
                    matches!(again, Err(WriteError { cause: WriteCause::Stopped, .. }));
                assert!(is_stopped, "nothing is written behind a torn chunk");
                let lost = [(DeviceId(0), lost())];
                let is_short = writer.finish_short(&failed(), &lost).is_ok();
                Ok(Some((error, is_short)))
            }
        },
    );
    match written {
        Ok(None) => (Ok(()), true),
        Ok(Some((error, is_short))) => (Err(error), is_short),
        Err(error) => (Err(error), false),
    }
}

/// Without the account of a loss, of which there may be a part only.
fn without_end(mut items: &[Item]) -> &[Item] {
    let (loss, end) = (Item::Event(DeviceId(0), lost()), Item::Meta(Box::new(failed())));
    for part in [end, loss] {
        items = items.strip_suffix(&[part]).unwrap_or(items);
    }
    items
}

/// Crashes at every operation, with blocks of any age since the last sync, and `with_torn` with every length of the
/// last write.
fn crash(disk: &Disk, random: &mut Random, with_torn: bool) {
    let file = disk.0.borrow();
    let versions = &file.versions;
    let known: Vec<_> = versions.iter().map(|version| items_of(version).0).collect();
    for (at, version) in versions.iter().enumerate().skip(1) {
        let before = versions[at - 1].len().min(version.len());
        for end in (before..=version.len()).filter(|_| with_torn) {
            let (items, cause) = items_of(&version[..end]);
            assert!(cause.is_none_or(|cause| matches!(cause, ReadCause::Empty)), "torn at {end}");
            assert!(items == known[at] || items == known[at - 1], "torn at {end}");
        }
        for _ in 0..if with_torn { 16 } else { 1 } {
            let (items, _) = items_of(&image(&versions[..=at], random));
            let is_part = known[..=at].iter().any(|version| version.starts_with(&items));
            assert!(is_part, "operation {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn a_crash_leaves_chunks_up_to_some_point(steps in steps(150), seed in 1..u64::MAX) {
        let disk = Disk::default();
        // A tape is synced once, at its end: before that nothing is on the disk for sure.
        let mut writer = Writer::new(disk.clone(), "run.vtape", &Meta::default()).unwrap();
        take(&mut writer, &steps).unwrap();
        writer.finish().unwrap();
        crash(&disk, &mut Random(seed), true);
    }

    #[test]
    fn any_failing_operation_is_an_error_with_the_name_and_earlier_chunks_are_read(
        steps in steps(60),
        seed in 1..u64::MAX,
    ) {
        let whole = Disk::default();
        prop_assert!(write(&whole, &steps).0.is_ok());
        let (all, _) = items_of(&whole.0.borrow().now());
        for error in [ENOSPC, EIO] {
            for after in 0..whole.0.borrow().operations {
                let disk = Disk::default();
                disk.0.borrow_mut().fails_after = Some((after, error));
                let (written, is_short) = write(&disk, &steps);
                let failure = written.unwrap_err();
                prop_assert!(failure.to_string().contains("run.vtape"), "{}", failure);
                let is_sync = after + 1 == whole.0.borrow().operations;
                let (items, cause) = items_of(&disk.0.borrow().now());
                prop_assert!(cause.is_none_or(|cause| matches!(cause, ReadCause::Empty)));
                if is_sync {
                    prop_assert_eq!(&items, &all, "the index was written before the sync");
                    prop_assert_eq!(disk.0.borrow().syncs, 0);
                } else if is_short {
                    let [kept @ .., Item::Event(_, last), Item::Meta(end)] = &items[..] else {
                        return Err(TestCaseError::fail("no account of the loss"));
                    };
                    prop_assert_eq!((last, &**end), (&lost(), &failed()));
                    prop_assert!(all.starts_with(kept));
                } else {
                    prop_assert!(all.starts_with(without_end(&items)));
                }
                crash(&disk, &mut Random(seed), false);
            }
        }
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_leaves_a_tape_that_is_read(steps in steps(60)) {
        let whole = Disk::default();
        prop_assert!(write(&whole, &steps).0.is_ok());
        let content = whole.0.borrow().now();
        let (all, _) = items_of(&content);
        for capacity_bytes in (0..content.len()).step_by(7) {
            let disk = Disk::default();
            disk.0.borrow_mut().capacity_bytes = Some(capacity_bytes);
            let (written, is_short) = write(&disk, &steps);
            let error = written.unwrap_err();
            prop_assert!(matches!(error.cause, WriteCause::Io(_)), "{}", error);
            let (items, cause) = items_of(&disk.0.borrow().now());
            prop_assert!(cause.is_none_or(|cause| matches!(cause, ReadCause::Empty)));
            prop_assert!(!is_short || items.len() >= 2);
            prop_assert!(all.starts_with(without_end(&items)), "room for {} bytes", capacity_bytes);
        }
    }
}

#[test]
fn a_synced_tape_survives_any_crash_whole() {
    let disk = Disk::default();
    assert!(write(&disk, &[]).0.is_ok());
    let file = disk.0.borrow();
    assert_eq!((file.versions.len(), file.syncs), (1, 1), "the sync is the last operation");
    assert!(read(&file.versions[0]).unwrap().recovery.finished);
}
