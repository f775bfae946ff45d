//! Capture of call stacks: before any lock, as the thread that has Python's may be waiting for ours.
//!
//! Stacks have two readers, the tape (`stacks` in `VRAMTAPE_CONF`) and PyTorch's memory history. A call has one stack:
//! while there is a history, it is the one that the history asks for, and the tape has it too.

use std::ffi::c_int;
use std::num::NonZero;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use recorder::{Interner, Ring};
use settings::{StackMode, StackSettings};
use stacks::{Frames, Names, Stacks};
use trace_format::{Frame, FrameId, StackId};

use super::{DEVICES_MAX, autograd, slot_of};

/// Room in each ring's file where stacks are recorded: 100,000 distinct ones take 1 to 12 MiB, by how much they share.
const TEXT_BYTES: usize = 16 << 20;

/// Calls whose stacks are captured: those that the tape or the history wants.
static WANTED: AtomicU8 = AtomicU8::new(NONE);
const NONE: u8 = 0;
const ALLOC: u8 = 1;
const FREE: u8 = 2;
const RELEASE: u8 = 4;

/// Calls that the tape wants, and how they are captured; set once, when the process begins.
static TAPE: OnceLock<Tape> = OnceLock::new();

/// Calls that the history wants, as above, and [`NATIVE`].
static HISTORY: AtomicU8 = AtomicU8::new(NONE);
const NATIVE: u8 = 8;
static HISTORY_PYTHON: LazyLock<Stacks> = LazyLock::new(|| Stacks::new(Frames::Python));
static HISTORY_NATIVE: LazyLock<Stacks> = LazyLock::new(|| Stacks::new(Frames::NativeAndPython));

static NAMES: LazyLock<Arc<Interner>> = LazyLock::new(Arc::default);

static RINGS: [OnceLock<Arc<Ring>>; DEVICES_MAX] = [const { OnceLock::new() }; DEVICES_MAX];

struct Tape {
    stacks: Stacks,
    wanted: u8,
    every_bytes: Option<NonZero<u64>>,
}

/// Calls whose stacks are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Calls {
    None,
    Allocations,
    All,
}

struct Shared;

impl Names for Shared {
    fn frame(&self, name: &str, filename: &str, line: u32) -> Option<FrameId> {
        let (name, filename) = (NAMES.string(name)?, NAMES.string(filename)?);
        NAMES.frame(Frame { name, filename, line })
    }

    fn stack(&self, caller: StackId, frame: FrameId) -> Option<StackId> {
        NAMES.stack(caller, frame)
    }
}

/// Stacks as the settings say, in the process's rings still to be made.
pub(super) fn start(settings: &StackSettings) {
    let wanted = match settings.mode {
        StackMode::None => return,
        StackMode::Alloc => ALLOC | RELEASE,
        StackMode::All => ALLOC | FREE | RELEASE,
    };
    let frames = if settings.is_native { Frames::NativeAndPython } else { Frames::Python };
    let stacks = Stacks::new(frames);
    if !(stacks.has_python() || settings.is_native) {
        tracing::warn!(
            "this process is not a Python: no stacks are recorded; set stacks:none, or stacks_native:True for C++ \
             frames, in \
             VRAMTAPE_CONF"
        );
        return;
    }
    let every_bytes = settings.every_bytes;
    if TAPE.set(Tape { stacks, wanted, every_bytes }).is_ok() {
        WANTED.fetch_or(wanted, Ordering::Release);
    }
}

/// Stacks as a memory history wants them from here on, with the native frames or without.
pub(super) fn want_for_history(calls: Calls, is_native: bool) {
    let wanted = match calls {
        Calls::None => NONE,
        Calls::Allocations => ALLOC,
        Calls::All => ALLOC | FREE | RELEASE,
    };
    let native = if is_native && wanted != NONE { NATIVE } else { NONE };
    HISTORY.store(wanted | native, Ordering::Release);
    let by_tape = TAPE.get().map_or(NONE, |tape| tape.wanted);
    WANTED.store(wanted | by_tape, Ordering::Release);
}

/// Which calls' stacks the settings want.
pub(crate) fn wanted_by_tape() -> Calls {
    match TAPE.get().map_or(NONE, |tape| tape.wanted) {
        NONE => Calls::None,
        wanted if wanted & FREE == NONE => Calls::Allocations,
        _ => Calls::All,
    }
}

/// The names that the process's rings and histories share.
pub(crate) fn names() -> &'static Arc<Interner> {
    &NAMES
}

/// The room that each ring needs for stacks; none where no stacks are recorded.
pub(super) fn text_bytes() -> Option<usize> {
    TAPE.get().map(|_| TEXT_BYTES)
}

/// Sets the ring that the device's stacks are written to, where stacks are recorded.
pub(super) fn attach_ring(device: c_int, ring: &Arc<Ring>) {
    if TAPE.get().is_some()
        && let Ok(slot) = slot_of(&RINGS, device)
    {
        slot.get_or_init(|| Arc::clone(ring));
    }
}

/// Call in a forked child. One whose devices are its parent's records nothing.
pub(super) fn after_fork_child(is_recording: bool) {
    stacks::after_fork_child();
    if !is_recording {
        WANTED.store(NONE, Ordering::Relaxed);
    }
}

/// The stack of a call that allocates.
#[inline]
pub(crate) fn of_allocation(device: c_int, size_bytes: usize) -> StackId {
    match WANTED.load(Ordering::Relaxed) {
        NONE => StackId::NONE,
        wanted => capture(wanted & ALLOC, device, Some(size_bytes)),
    }
}

/// The stack of a call that frees so many bytes.
#[inline]
pub(crate) fn of_free(device: c_int, size_bytes: usize) -> StackId {
    match WANTED.load(Ordering::Relaxed) {
        NONE => StackId::NONE,
        wanted => capture(wanted & FREE, device, Some(size_bytes)),
    }
}

/// The stack of a call that returns memory to the device. There are few, so sampling skips none.
pub(crate) fn of_release(device: c_int) -> StackId {
    capture(WANTED.load(Ordering::Relaxed) & RELEASE, device, None)
}

#[inline(never)]
fn capture(wanted: u8, device: c_int, size_bytes: Option<usize>) -> StackId {
    if wanted == NONE {
        return StackId::NONE;
    }
    let history = HISTORY.load(Ordering::Acquire);
    if history & wanted != NONE {
        let stacks = if history & NATIVE == NONE { &HISTORY_PYTHON } else { &HISTORY_NATIVE };
        let id = stacks.capture(&Shared);
        if let Some(ring) = ring(device) {
            ring.tell_stack(id);
        }
        return id;
    }
    let (Some(tape), Some(ring)) = (TAPE.get(), ring(device)) else { return StackId::NONE };
    if let (Some(every), Some(size)) = (tape.every_bytes, size_bytes)
        && !stacks::is_sampled(every, size as u64)
    {
        return StackId::NONE;
    }
    let id = of_tape(tape, wanted == ALLOC);
    ring.tell_stack(id);
    id
}

/// The stack as the tape has it: a thread that runs no Python has the forward call whose backward pass it runs, or its
/// own name.
fn of_tape(tape: &Tape, is_allocation: bool) -> StackId {
    match tape.stacks.capture(&Shared) {
        StackId::NONE if tape.stacks.is_without_frames() => {
            autograd::of_backward(&Shared).unwrap_or_else(|| tape.stacks.of_thread(&Shared))
        }
        StackId::NONE => StackId::NONE,
        id => {
            if is_allocation {
                autograd::note_forward(id);
            }
            id
        }
    }
}

/// The stack of a call of PyTorch's own allocator, before PyTorch's lock: no ring has it before [`write_observed`].
pub(crate) fn of_observed() -> StackId {
    match TAPE.get() {
        Some(tape) if WANTED.load(Ordering::Relaxed) != NONE => of_tape(tape, true),
        _ => StackId::NONE,
    }
}

/// The stack if the settings' sampling takes a call of this size, which PyTorch does not say before it is captured.
pub(super) fn sampled(id: StackId, size_bytes: u64) -> StackId {
    let every_bytes = TAPE.get().and_then(|tape| tape.every_bytes);
    let is_taken = every_bytes.is_none_or(|every| stacks::is_sampled(every, size_bytes));
    if is_taken { id } else { StackId::NONE }
}

/// Writes a stack to the device's ring before an entry is recorded with it.
pub(super) fn write_observed(device: c_int, id: StackId) {
    if id != StackId::NONE
        && let Some(ring) = ring(device)
    {
        ring.tell_stack(id);
    }
}

fn ring(device: c_int) -> Option<&'static Arc<Ring>> {
    slot_of(&RINGS, device).ok()?.get()
}
