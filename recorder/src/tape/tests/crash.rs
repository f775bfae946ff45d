//! A process that is killed, a machine that crashes, and a disk that fails, at any step of the turn from one part of a
//! tape to the next. `trace-format/tests/tape/crash.rs` does the same for one file.

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use trace_format::{
    BaseState, DeviceId, EndKind, Event, Item, Medium, Meta, ProgramEnd, Reader, Record, StackId,
    ThreadId, WriteError,
};

use crate::cast;
use crate::tape::TapeError;
use crate::tape::rotation::{Folder, Names, Parts};

const DEVICE: DeviceId = DeviceId(0);
const PARTS: u64 = 4;
/// What a disk writes at once; smaller than a real one's, so that a short tape has many.
const BLOCK_BYTES: usize = 64;

/// What the system shows at some moment.
#[derive(Clone, Default)]
struct State {
    /// The files of the tape's name and of the older part's. File `n` is part `n + 1`.
    names: [Option<usize>; 2],
    files: Vec<Rc<Vec<u8>>>,
}

/// A folder that remembers what it showed after each operation.
#[derive(Default)]
struct Disk {
    states: Vec<State>,
    /// The operation that fails, and how; the disk works again after it.
    fails_at: Option<(usize, i32)>,
}

#[derive(Clone, Default)]
struct SimFolder(Rc<RefCell<Disk>>);

struct SimFile(SimFolder, usize);

impl SimFolder {
    fn states(&self) -> Vec<State> {
        self.0.borrow().states.clone()
    }

    fn now(&self) -> State {
        self.states().pop().unwrap_or_default()
    }

    /// Makes `whole` the state now; where this operation fails, `part`, or the state before.
    fn operate(&self, whole: State, part: Option<State>) -> io::Result<()> {
        let (before, mut disk) = (self.now(), self.0.borrow_mut());
        let at = disk.states.len();
        let failure = disk.fails_at.filter(|(fails_at, _)| *fails_at == at);
        disk.states.push(match failure {
            Some(_) => part.unwrap_or(before),
            None => whole,
        });
        failure.map_or(Ok(()), |(_, error)| Err(io::Error::from_raw_os_error(error)))
    }
}

impl Names for SimFolder {
    type File = SimFile;

    fn make_older(&mut self, path: &Path) -> Result<(), TapeError> {
        let before = self.now();
        let renamed = State { names: [None, before.names[0]], ..before };
        Ok(self.operate(renamed, None).map_err(|error| WriteError::create(path, error))?)
    }

    fn make_newest(&mut self, _: &Path) -> io::Result<()> {
        let before = self.now();
        assert!(before.names[0].is_none(), "it replaces no file");
        self.operate(State { names: [before.names[1], None], ..before }, None)
    }

    fn create(&mut self, path: &Path) -> Result<SimFile, TapeError> {
        let mut now = self.now();
        now.names[0] = Some(now.files.len());
        now.files.push(Rc::default());
        let file = SimFile(self.clone(), now.files.len() - 1);
        self.operate(now, None).map_err(|error| WriteError::create(path, error))?;
        Ok(file)
    }

    fn remove(&mut self, _: &Path) -> io::Result<()> {
        let before = self.now();
        self.operate(State { names: [None, before.names[1]], ..before }, None)
    }
}

impl SimFile {
    /// The state with another content of this file.
    fn with(&self, change: impl FnOnce(&mut Vec<u8>)) -> State {
        let mut state = self.0.now();
        change(Rc::make_mut(&mut state.files[self.1]));
        state
    }
}

impl Write for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let add = |bytes: &[u8]| self.with(|content| content.extend_from_slice(bytes));
        // An error may come after a part was written.
        self.0.operate(add(bytes), Some(add(&bytes[..bytes.len() / 2])))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Medium for SimFile {
    fn cut(&mut self, size_bytes: u64) -> io::Result<()> {
        self.0.operate(self.with(|content| content.resize(cast::index(size_bytes), 0)), None)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.operate(self.0.now(), None)
    }
}

/// The description of a part and its items, as far as they can be read.
fn read(content: &[u8]) -> (Meta, Vec<Item>) {
    let Ok(mut reader) = Reader::new(content, "run.vtape") else { return Default::default() };
    let items = reader.by_ref().map_while(Result::ok).collect();
    (reader.meta().clone(), items)
}

fn items(state: &State, file: usize) -> Vec<Item> {
    read(&state.files[file]).1
}

fn records(items: &[Item]) -> u64 {
    items.iter().filter(|item| matches!(item, Item::Event(..))).count() as u64
}

fn record(time_ns: u64, event: Event) -> Record {
    Record { time_ns, thread: ThreadId(0), stack: StackId::NONE, event }
}

/// Writes a tape of some parts, and finishes it short where a step fails, as the tape's thread does. Returns the
/// number of records before the failure, if there was one.
fn write(folder: &SimFolder) -> Result<(), u64> {
    let path = PathBuf::from("run.vtape");
    let end = ProgramEnd { kind: EndKind::TapeFailed, ..ProgramEnd::default() };
    let mut time_ns = 0;
    let file = folder.clone().create(&path).map_err(|_| 0_u64)?;
    let begun = Parts::begin_in(folder.clone(), path, file, Meta::default(), Some(1 << 20));
    let mut parts = begun.map_err(|_| 0_u64)?;
    let written: Result<(), TapeError> = (0..PARTS).try_for_each(|part| {
        for chunk in 0..3 {
            for _ in 0..=part + chunk {
                time_ns += 1;
                parts.writer().push(DEVICE, &record(time_ns, Event::ResetPeak))?;
            }
            parts.writer().flush()?;
        }
        if part + 1 < PARTS {
            parts.turn(6 + 3 * part)?;
            parts.base(DEVICE, &BaseState { time_ns, ..BaseState::default() })?;
        }
        Ok(())
    });
    if written.is_ok() {
        return parts.finish(None).map(drop).map_err(|_| time_ns);
    }
    let lost = [(DEVICE, record(time_ns, Event::Lost { count: 1 }))];
    parts.finish_short(end, &lost).expect("the disk works again");
    Err(time_ns)
}

/// The states of a tape that is written without a failure, and the items of each part.
fn whole() -> (Vec<State>, Vec<Vec<Item>>) {
    let folder = SimFolder::default();
    write(&folder).expect("no step fails");
    let (states, last) = (folder.states(), folder.now());
    let known: Vec<_> = (0..last.files.len()).map(|file| items(&last, file)).collect();
    assert_eq!(known.len() as u64, PARTS);
    assert_eq!(records(&known[1]), 9, "with those that `turn` is called with");
    (states, known)
}

/// The older part is the one before the newest.
fn expect_neighbours(names: [Option<usize>; 2]) {
    match names {
        [Some(newest), Some(older)] => assert_eq!(older + 1, newest),
        [Some(newest), None] => assert_eq!(newest, 0, "a part is lost"),
        [None, older] => assert!(older.is_some(), "both parts are lost"),
    }
}

#[test]
fn a_process_killed_at_any_step_leaves_the_part_before_whole() {
    let (states, known) = whole();
    for (at, state) in states.iter().enumerate() {
        expect_neighbours(state.names);
        let [newest, older] = state.names;
        if let Some(newest) = newest {
            assert!(known[newest].starts_with(&items(state, newest)), "step {at}");
        }
        if let Some(older) = older {
            assert_eq!(items(state, older), known[older], "step {at}");
        }
    }
}

/// A random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        cast::index(self.0 % end.max(1) as u64)
    }
}

/// What a file may hold after a crash: each block, and its length, of some moment.
fn image(versions: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut image = vec![0; versions[random.below(versions.len())].len()];
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

/// Names reach the disk in order, and contents in any order: nothing is synced before the end.
#[test]
fn a_machine_that_crashes_at_any_step_leaves_parts_that_say_nothing_untrue() {
    let seed = 20_261_123;
    println!("seed {seed}");
    let mut random = Random(seed);
    let (states, known) = whole();
    for at in 0..states.len() {
        for _ in 0..40 {
            let names = states[random.below(at + 1)].names;
            expect_neighbours(names);
            for file in names.into_iter().flatten() {
                let versions = states[..=at].iter().filter_map(|state| state.files.get(file));
                let versions: Vec<_> = versions.map(|content| &content[..]).collect();
                let (_, items) = read(&image(&versions, &mut random));
                assert!(known[file].starts_with(&items), "step {at}, part {}", file + 1);
            }
        }
    }
}

#[test]
fn a_step_that_fails_ends_the_tape_in_parts_that_fit_each_other() {
    const ENOSPC: i32 = 28;
    const EIO: i32 = 5;
    let (states, known) = whole();
    for (at, error) in (0..states.len()).flat_map(|at| [(at, ENOSPC), (at, EIO)]) {
        let folder = SimFolder::default();
        folder.0.borrow_mut().fails_at = Some((at, error));
        let pushed = write(&folder).expect_err("a step fails");
        let state = folder.now();
        let Some(newest) = state.names[0] else {
            assert_eq!(pushed, 0, "step {at}: no file has the tape's name");
            continue;
        };
        if pushed == 0 {
            continue; // The tape did not begin.
        }
        let (meta, read) = read(&state.files[newest]);
        assert_eq!(meta.part, Some(cast::count_of(newest) + 1), "step {at}");
        let before = match state.names[1] {
            Some(older) => {
                assert_eq!(older + 1, newest, "step {at}");
                assert_eq!(items(&state, older), known[older], "step {at}");
                records(&known[older])
            }
            None => 0,
        };
        let is_at_end = at + 1 == states.len();
        let ended = meta.end.is_some_and(|end| end.kind == EndKind::TapeFailed);
        assert_eq!(ended, !is_at_end && at + 2 != states.len(), "step {at}");
        // What is not on the parts is counted, but for the chunk that the failure tore and the account of it.
        let on_tape = meta.dropped_records + before + records(&read);
        assert!(on_tape <= pushed + 1, "step {at}: {on_tape} records of {pushed}");
        assert!(on_tape + 4 + PARTS >= pushed, "step {at}: {on_tape} records of {pushed}");
    }
}

#[test]
fn a_part_that_gets_its_name_back_replaces_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (path, older) = (folder.path().join("run.vtape"), folder.path().join("run.vtape.1"));
    std::fs::write(&older, "a part").unwrap();
    std::fs::write(&path, "another file").unwrap();
    let error = Folder.make_newest(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::read(&path).unwrap(), b"another file");
    Folder.remove(&path).unwrap();
    Folder.make_newest(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"a part");
    assert!(!older.exists());
}
