//! Python's frames.
//!
//! The thread that allocates is inside us and not inside Python: its frames hold still. They are walked without the
//! interpreter's lock where the layout of frames is known and was checked against CPython's own functions, once. Where
//! it is not, those functions are used, under the lock.

mod api;
mod at_exit;
mod debug_offsets;
mod end;
mod gil;
mod layout;
mod structs;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::fingerprint::{CodePosition, Fingerprint};
use api::{Api, Object};
pub use end::call_program;
use gil::Gil;
pub(crate) use gil::PlaceText;
use layout::Layout;

/// The process's CPython, and how its frames are read.
#[derive(Debug)]
pub(crate) struct Python {
    api: &'static Api,
    layout: Option<Layout>,
    trust: AtomicU8,
}

/// Whether Python's `atexit` closes the gate: frames are walked without the lock only where it does.
static EXIT_HOOK: AtomicU8 = AtomicU8::new(UNSET);
const UNSET: u8 = 0;
/// A thread is registering it, or could not.
const TRIED: u8 = 1;
const SET: u8 = 2;

/// The layout agreed with CPython's own functions.
const TRUSTED: u8 = u8::MAX;
/// So often it may disagree before it is given up: a frame that is just being made counts for one and not the other.
const DISAGREEMENTS_MAX: u8 = 8;

/// The functions of the process's CPython; `None` where there is none. Looked for once.
fn api() -> Option<&'static Api> {
    static API: OnceLock<Option<Api>> = OnceLock::new();
    API.get_or_init(Api::find).as_ref()
}

/// Registers with Python's `atexit`, once in a process. Other threads do not wait for it: Python may change threads in
/// there, for ever if it is ending.
fn set_exit_hook(api: &Api, gil: &Gil<'_>) {
    if EXIT_HOOK.compare_exchange(UNSET, TRIED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        && at_exit::register(api, gil)
    {
        EXIT_HOOK.store(SET, Ordering::Release);
    }
}

/// Has the interpreter's end wait for the calls of [`call_program`] that are in progress then. Waits for Python's lock.
pub fn hold_end_for_calls() {
    if let Some(api) = api() {
        // SAFETY: a thread without a state gets one for the call.
        unsafe { Gil::with(api, |gil| set_exit_hook(api, gil)) };
    }
}

/// The calling thread's state, which exists as long as the gate is open.
#[derive(Clone, Copy)]
pub(crate) struct Thread(Object);

impl Python {
    /// The process's CPython, if it is one. With `is_lock_taken` as if its frames were not known.
    pub(crate) fn find(is_lock_taken: bool) -> Option<Self> {
        let api = api()?;
        let layout = Layout::find(api).filter(|_| !is_lock_taken);
        if layout.is_none() && !is_lock_taken {
            tracing::warn!(
                "the frame layout of Python {} is not known: its stacks are read under its lock, which takes longer; \
                 Python 3.9 to 3.15 are known",
                api.version()
            );
        }
        Some(Self { api, layout, trust: AtomicU8::new(0) })
    }

    /// The calling thread's state, if Python has one of it. The gate has to be passed first.
    #[inline]
    pub(crate) fn thread(&self) -> Option<Thread> {
        // SAFETY: may be called from any thread at any time; it waits for nothing.
        let thread = unsafe { (self.api.PyGILState_GetThisThreadState)() };
        (!thread.is_null()).then_some(Thread(thread))
    }

    /// The fingerprint of the thread's stack added to that of the frames inside it, without any lock; `None` where
    /// the stack cannot be read (yet).
    #[inline]
    pub(crate) fn fingerprint(&self, thread: Thread, inside: Fingerprint) -> Option<Fingerprint> {
        if self.trust.load(Ordering::Relaxed) != TRUSTED {
            return None;
        }
        let mut print = inside;
        // SAFETY: the state is this thread's, the layout was checked, and the gate is open.
        unsafe { self.layout.as_ref()?.walk(thread.0.addr(), |place| print.add(place)) };
        Some(print)
    }

    /// The address of the function that runs Python's frames; 0 where it is unknown.
    pub(crate) fn interpreter() -> usize {
        api::variable(c"_PyEval_EvalFrameDefault").map_or(0, <*const u64>::addr)
    }

    /// The places of the thread's stack, innermost first.
    pub(crate) fn places(&self, thread: Thread) -> Vec<CodePosition> {
        if self.trust.load(Ordering::Relaxed) == TRUSTED {
            return self.places_without_lock(thread);
        }
        let under_lock = |gil: &Gil<'_>| {
            set_exit_hook(self.api, gil);
            // SAFETY: it is this thread's.
            let places = unsafe { gil.walk(thread.0) };
            let disagreements = self.trust.load(Ordering::Relaxed);
            let is_open = self.layout.is_some() && EXIT_HOOK.load(Ordering::Acquire) == SET;
            if is_open && disagreements < DISAGREEMENTS_MAX && !places.is_empty() {
                self.check(gil, thread, &places);
            }
            places
        };
        // SAFETY: the thread has a state.
        unsafe { Gil::with(self.api, under_lock) }.unwrap_or_default()
    }

    fn places_without_lock(&self, thread: Thread) -> Vec<CodePosition> {
        let mut places = Vec::new();
        if let Some(layout) = &self.layout {
            // SAFETY: the state is this thread's, the layout was checked or is being checked, and the gate is open.
            unsafe { layout.walk(thread.0.addr(), |place| places.push(place)) };
        }
        places
    }

    /// Compares the layout's walk with CPython's.
    fn check(&self, gil: &Gil<'_>, thread: Thread, expected: &[CodePosition]) {
        let found = self.places_without_lock(thread);
        let agrees = |(found, expected): (&CodePosition, &CodePosition)| {
            found.code == expected.code && {
                // SAFETY: its code is that of a frame of this thread, as CPython says too.
                let line = unsafe { gil.line(*found) };
                CodePosition::LINE | line == expected.at
            }
        };
        if found.len() == expected.len() && found.iter().zip(expected).all(agrees) {
            self.trust.store(TRUSTED, Ordering::Relaxed);
        } else if self.trust.fetch_add(1, Ordering::Relaxed) + 1 == DISAGREEMENTS_MAX {
            tracing::warn!(
                "the frames of Python {} are not where they should be: its stacks are read under its lock, which takes \
                 longer; please report it",
                self.api.version()
            );
        }
    }

    /// Names the places of the thread's stack, and keeps their code alive; `None` where the interpreter is ending.
    /// Waits for the interpreter's lock; to be called without any lock of ours.
    pub(crate) fn resolve(&self, places: &[CodePosition]) -> Option<Vec<PlaceText>> {
        let under_lock = |gil: &Gil<'_>| {
            // SAFETY: the caller is where it was when it took the places.
            places.iter().map(|place| unsafe { gil.resolve(*place) }).collect()
        };
        // SAFETY: a thread with Python's places has a state.
        unsafe { Gil::with(self.api, under_lock) }
    }
}
