//! Tapes as files: finished ones appear whole, live ones are readable while written, full disks are reported.

use std::{
    fs,
    io::{self, Write},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use trace_format::{
    Addr, BaseState, BlockState, BlockStatus, DeviceId, Event, Frame, Item, Meta, PoolId, Reader,
    Record, SegmentState, StackId, Stream, StringId, ThreadId, WriteCause, Writer,
};

const GPU: DeviceId = DeviceId(0);

fn record(n: u64) -> Record {
    let event = Event::Alloc {
        addr: Addr(n << 20),
        requested_bytes: n,
        size_bytes: 512,
        stream: Stream(0),
        pool: PoolId::DEFAULT,
    };
    Record { time_ns: n * n, thread: ThreadId(1), stack: StackId::NONE, event }
}

#[test]
fn a_finished_tape_appears_whole_and_an_abandoned_one_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    fs::write(&path, "an older tape").unwrap();
    let mut writer = Writer::create(&path, &Meta::default()).unwrap();
    writer.push(GPU, &record(1)).unwrap();
    writer.flush().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"an older tape");
    drop(writer);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the temporary file is gone");
    assert_eq!(fs::read(&path).unwrap(), b"an older tape");

    let mut writer = Writer::create(&path, &Meta::default()).unwrap();
    writer.push(GPU, &record(1)).unwrap();
    writer.finish().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), Item::Event(GPU, record(1)));
    assert!(reader.next().is_none() && reader.recovered().finished);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_live_tape_is_read_while_written_and_survives_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.vtape");
    let mut writer = Writer::create_live(&path, &Meta::default()).unwrap();
    for n in 0..100_000 {
        writer.push(GPU, &record(n)).unwrap();
    }
    let seen = || {
        let mut reader = Reader::open(&path).unwrap();
        let records = reader.by_ref().flatten().count();
        (records, reader.recovered().to_string())
    };
    let unfinished = "not finished; all that was written was read".to_owned();
    assert_eq!(seen(), (1 << 16, unfinished.clone()), "a full chunk is written at once");
    writer.flush().unwrap();
    assert_eq!(seen(), (100_000, unfinished.clone()));
    // A process that is killed runs no destructor.
    std::mem::forget(writer);
    assert_eq!(seen(), (100_000, unfinished));
}

/// Where the child of the test below writes its tape; without it, it is no child and does nothing.
const CHILD_TAPE: &str = "TRACE_FORMAT_CHILD_TAPE";

#[test]
fn a_writer_that_is_killed_leaves_every_chunk_it_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("killed.vtape");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::the_child_that_is_killed"])
        .env(CHILD_TAPE, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while fs::metadata(&path).map_or(0, |file| file.len()) < 100_000 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the child writes nothing");
        assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut next = 0;
    for item in reader.by_ref() {
        assert_eq!(item.unwrap(), Item::Event(GPU, record(next)));
        next += 1;
    }
    assert!(next > 1000, "{next} records");
    let recovery = reader.recovered();
    assert!(!recovery.finished);
}

/// Runs in a process of its own, until that is killed.
#[test]
fn the_child_that_is_killed() {
    let Some(path) = std::env::var_os(CHILD_TAPE) else { return };
    let mut writer = Writer::create_live(path, &Meta::default()).unwrap();
    for n in 0.. {
        writer.push(GPU, &record(n)).unwrap();
        if n % 50 == 0 {
            writer.flush().unwrap();
        }
    }
}

/// A disk with room for so many bytes.
struct SmallDisk {
    written: Vec<u8>,
    room: usize,
}

impl Write for &mut SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.room);
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= count;
        self.written.extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_tape_that_cannot_be_created_is_an_error_that_suggests_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let (nowhere, meta) = (folder.path().join("none/run.vtape"), Meta::default());
    for path in [nowhere.as_path(), folder.path()] {
        let created = Writer::create(path, &meta).map(drop);
        for error in [created, Writer::create_live(path, &meta).map(drop)].map(Result::unwrap_err) {
            let text = error.to_string();
            let begin = format!("cannot write {}: ", path.display());
            assert!(text.starts_with(&begin) && text.ends_with("you may write to"), "{text}");
        }
    }
}

#[test]
fn after_a_full_disk_nothing_is_written_behind_the_torn_chunk() {
    let mut disk = SmallDisk { written: Vec::new(), room: 500 };
    let mut writer = Writer::new(&mut disk, "small.vtape", &Meta::default()).unwrap();
    let mut flushed = 0;
    let error = loop {
        writer.push(GPU, &record(flushed)).unwrap();
        match writer.flush() {
            Ok(()) => flushed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error.cause, WriteCause::Io(_)), "{error}");
    assert!(error.to_string().starts_with("cannot write small.vtape: "), "{error}");
    writer.push(GPU, &record(0)).unwrap();
    let error = writer.flush().unwrap_err();
    assert!(matches!(error.cause, WriteCause::Stopped), "{error}");
    assert!(writer.finish().is_err());
    let mut reader = Reader::new(&disk.written[..], "small.vtape").unwrap();
    assert!(flushed > 0);
    assert_eq!(reader.by_ref().flatten().count() as u64, flushed);
    assert!(reader.recovered().torn.is_some());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_an_error_that_names_it() {
    let error = Writer::create_live("/dev/full", &Meta::default()).err().unwrap().to_string();
    assert!(error.starts_with("cannot write /dev/full: No space left"), "{error}");
    let error = Writer::create("/nowhere/at/all.vtape", &Meta::default()).err().unwrap();
    assert!(error.to_string().starts_with("cannot write /nowhere/at/all.vtape: No such file"));
}

#[test]
fn ids_that_the_tape_does_not_define_are_refused() {
    let mut writer = Writer::new(Vec::new(), "t", &Meta::default()).unwrap();
    let mut stranger = record(1);
    stranger.stack = StackId(1);
    let error = writer.push(GPU, &stranger).unwrap_err().to_string();
    assert!(error.contains("stack 1 was not interned by this writer"), "{error}");
    stranger = Record { event: Event::Settings { text: StringId(1) }, ..record(1) };
    assert!(writer.push(GPU, &stranger).unwrap_err().to_string().contains("string 1"));
    let frame = Frame { name: StringId(1), ..Frame::default() };
    assert!(writer.stack(&[frame]).is_err());
    let hostname = Some("x".repeat(1 << 20));
    let error = writer.meta(&Meta { hostname, ..Meta::default() }).unwrap_err().to_string();
    assert!(error.contains("a description of 104"), "{error}");
    let stats = format!("\"{}\"", "x".repeat(1 << 20));
    let error = writer.base(GPU, &BaseState { stats, ..BaseState::default() }).unwrap_err();
    assert!(error.to_string().contains("a state's statistics of 104857"), "{error}");
    let base = BaseState { stats: "{ooms: 3}".to_owned(), ..BaseState::default() };
    let error = writer.base(GPU, &base).unwrap_err().to_string();
    assert!(error.contains("a state's statistics are not JSON"), "{error}");
    let block = BlockState {
        addr: Addr(512),
        size_bytes: 512,
        requested_bytes: 1,
        status: BlockStatus::Allocated,
        stack: StackId::NONE,
    };
    let segment = SegmentState {
        addr: Addr(512),
        size_bytes: 1024,
        stream: Stream(0),
        pool: PoolId::DEFAULT,
        is_large: false,
        is_expandable: false,
        stack: StackId::NONE,
        blocks: vec![block],
    };
    let base = BaseState { segments: vec![segment], ..BaseState::default() };
    let error = writer.base(GPU, &base).unwrap_err().to_string();
    assert!(error.contains("do not tile it"), "{error}");
    let tape = writer.finish().unwrap();
    assert_eq!(Reader::new(&tape[..], "t").unwrap().count(), 0, "nothing of it was written");
}
