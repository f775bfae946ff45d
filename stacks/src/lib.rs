//! Call stacks of the program that allocates, each identified by a number.
//!
//! A known stack costs its walk and one table lookup: no lock, and no waiting for Python. A new one
//! is resolved to names and lines at once, for which Python's lock is needed if one of its frames is new.
//!
//! Arguments for the safety of reading another program's memory are at the reads; they rest on three things: a thread
//! that is inside us does not change its own frames, the layout of frames was compared with CPython's own view of them,
//! and the [`gate`] keeps the interpreter from ending during a read.

mod fingerprint;
mod gate;
mod native;
mod python;
mod sample;
mod seen;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use trace_format::{FrameId, StackId};

use fingerprint::{CodePosition, Fingerprint};
pub use gate::after_fork_child;
use native::Native;
use python::{PlaceText, Python, Thread};
pub use python::{call_program, hold_end_for_calls};
pub use sample::is_sampled;
use seen::Seen;

/// Gives numbers to what is new. Called without any lock of this crate's or Python's; `None` where there is no room.
pub trait Names {
    /// The number of a line of a function.
    fn frame(&self, name: &str, filename: &str, line: u32) -> Option<FrameId>;
    /// The number of the stack that is `caller` with one more frame inside.
    fn stack(&self, caller: StackId, frame: FrameId) -> Option<StackId>;
}

/// Which frames a stack has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Python's, walked without its lock where that is possible.
    Python,
    /// Python's, read by CPython's own functions under its lock: what [`Frames::Python`] does where it does not know
    /// the frames of the Python that runs.
    PythonUnderLock,
    /// The native ones inside Python's innermost, and Python's.
    NativeAndPython,
}

/// The stacks that were captured so far, in one process with one [`Names`].
#[derive(Debug)]
pub struct Stacks {
    python: Option<Python>,
    native: Option<Native>,
    seen: Seen,
    frames: Mutex<FxHashMap<CodePosition, FrameId>>,
    is_full: AtomicBool,
}

impl Stacks {
    /// Looks for an interpreter in this process.
    pub fn new(frames: Frames) -> Self {
        let native = frames == Frames::NativeAndPython;
        Self {
            python: Python::find(frames == Frames::PythonUnderLock),
            native: native.then(|| Native::new(Python::interpreter())),
            seen: Seen::new(),
            frames: Mutex::default(),
            is_full: AtomicBool::new(false),
        }
    }

    /// Whether there is an interpreter whose stacks can be captured.
    pub fn has_python(&self) -> bool {
        self.python.is_some()
    }

    /// The number of the calling thread's stack; [`StackId::NONE`] where it has none, or there is no room for another.
    /// To be called without any lock that a thread with Python's may wait for.
    #[inline]
    pub fn capture(&self, names: &impl Names) -> StackId {
        if self.native.is_some() {
            return self.capture_native(names);
        }
        let Some(python) = &self.python else { return StackId::NONE };
        let Some(_inside) = gate::enter() else { return StackId::NONE };
        let Some(thread) = python.thread() else { return StackId::NONE };
        let print = python.fingerprint(thread, Fingerprint::EMPTY);
        match print.and_then(|print| self.seen.get(print)) {
            Some(id) => id,
            None => self.learn(Some((python, thread)), names),
        }
    }

    /// The stack of a thread that [runs no Python](Self::is_without_frames): one frame, the thread's name in the file
    /// [`THREAD_FILE`](trace_format::THREAD_FILE).
    #[cold]
    pub fn of_thread(&self, names: &impl Names) -> StackId {
        thread::stack(names).unwrap_or(StackId::NONE)
    }

    /// Whether the calling thread runs no Python; `false` where that cannot be seen.
    pub fn is_without_frames(&self) -> bool {
        let Some(python) = &self.python else { return false };
        let Some(_inside) = gate::enter() else { return false };
        match python.thread() {
            None => true,
            Some(thread) => {
                python.fingerprint(thread, Fingerprint::EMPTY) == Some(Fingerprint::EMPTY)
            }
        }
    }

    #[cold]
    fn capture_native(&self, names: &impl Names) -> StackId {
        let inside = gate::enter();
        let mut print = Fingerprint::EMPTY;
        if let Some(native) = &self.native {
            native.walk(|place| print.add(place));
        }
        let python = self.python.as_ref().filter(|_| inside.is_some());
        let python = python.and_then(|python| Some((python, python.thread()?)));
        let print = match python {
            Some((python, thread)) => python.fingerprint(thread, print),
            None => Some(print),
        };
        match print.and_then(|print| self.seen.get(print)) {
            Some(id) => id,
            None => self.learn(python, names),
        }
    }

    #[cold]
    fn learn(&self, python: Option<(&Python, Thread)>, names: &impl Names) -> StackId {
        if self.is_full.load(Ordering::Relaxed) {
            return StackId::NONE;
        }
        let mut places = Vec::new();
        if let Some(native) = &self.native {
            native.walk(|place| places.push(place));
        }
        if let Some((python, thread)) = python {
            places.append(&mut python.places(thread));
        }
        let mut print = Fingerprint::EMPTY;
        for place in &places {
            print.add(*place);
        }
        if let Some(id) = self.seen.get(print) {
            return id;
        }
        let id = self.number(python.map(|(python, _)| python), &places, names);
        let is_kept = id.is_some_and(|id| self.seen.insert(print, id));
        if !is_kept && !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the table of call stacks is full: new ones are recorded as none from here on; stacks_every:1MiB in \
                 VRAMTAPE_CONF samples them"
            );
        }
        id.unwrap_or(StackId::NONE)
    }

    fn number(
        &self,
        python: Option<&Python>,
        places: &[CodePosition],
        names: &impl Names,
    ) -> Option<StackId> {
        let unknown: Vec<CodePosition> = {
            let frames = self.frames();
            places.iter().filter(|place| !frames.contains_key(place)).copied().collect()
        };
        let (native, interpreted): (Vec<_>, Vec<_>) =
            unknown.into_iter().partition(|place| place.at == CodePosition::NATIVE);
        for place in native {
            // A frame that has no number is left out of the stack.
            if let Some(text) = Native::resolve(place) {
                self.name(place, &text, names)?;
            }
        }
        if let Some(python) = python
            && !interpreted.is_empty()
        {
            let Some(texts) = python.resolve(&interpreted) else { return Some(StackId::NONE) };
            for (place, text) in interpreted.into_iter().zip(texts) {
                self.name(place, &text, names)?;
            }
        }
        let frames: Vec<FrameId> = {
            let frames = self.frames();
            places.iter().filter_map(|place| frames.get(place).copied()).collect()
        };
        frames.iter().rev().try_fold(StackId::NONE, |caller, frame| names.stack(caller, *frame))
    }

    fn name(&self, place: CodePosition, text: &PlaceText, names: &impl Names) -> Option<()> {
        let id = names.frame(&text.name, &text.filename, text.line)?;
        self.frames().insert(place, id);
        Some(())
    }

    /// Bytes that the tables here take.
    pub fn size_bytes(&self) -> usize {
        let frames = self.frames().capacity() * (size_of::<(CodePosition, FrameId)>() + 1);
        self.seen.size_bytes() + frames
    }

    fn frames(&self) -> MutexGuard<'_, FxHashMap<CodePosition, FrameId>> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
