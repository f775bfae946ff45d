//! Whose call stacks are recorded: before any lock, as the thread that has Python's may be waiting for ours.

use std::ffi::c_int;
use std::num::NonZero;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use allocator::config::{StackMode, StackSettings};
use allocator::record::{NameTable, Ring};
use stacks::{Frames, Names, Stacks};
use trace_format::{Frame, FrameId, StackId};

use super::{DEVICES_MAX, slot_of};

/// Room in each ring's file where stacks are recorded: 100,000 distinct ones take 1 to 12 MiB, by how much they share.
const TEXT_BYTES: usize = 16 << 20;

/// A [`StackMode`].
static MODE: AtomicU8 = AtomicU8::new(OFF);
const OFF: u8 = 0;
const ALLOC: u8 = 1;
const ALL: u8 = 2;

static CAPTURE: OnceLock<Capture> = OnceLock::new();

static RINGS: [OnceLock<Arc<Ring>>; DEVICES_MAX] = [const { OnceLock::new() }; DEVICES_MAX];

struct Capture {
    stacks: Stacks,
    names: Shared,
    every_bytes: Option<NonZero<u64>>,
}

struct Shared(Arc<NameTable>);

impl Names for Shared {
    fn frame(&self, name: &str, filename: &str, line: u32) -> Option<FrameId> {
        let (name, filename) = (self.0.string(name)?, self.0.string(filename)?);
        self.0.frame(Frame { name, filename, line })
    }

    fn stack(&self, caller: StackId, frame: FrameId) -> Option<StackId> {
        self.0.stack(caller, frame)
    }
}

/// Stacks as the settings say, in the process's rings still to be made.
pub(super) fn start(settings: &StackSettings) {
    let mode = match settings.mode {
        StackMode::None => return,
        StackMode::Alloc => ALLOC,
        StackMode::All => ALL,
    };
    let frames = if settings.is_native { Frames::NativeAndPython } else { Frames::Python };
    let stacks = Stacks::new(frames);
    if !(stacks.has_python() || settings.is_native) {
        tracing::warn!("this process is no Python: stacks are recorded as none");
        return;
    }
    let (names, every_bytes) = (Shared(Arc::default()), settings.every_bytes);
    if CAPTURE.set(Capture { stacks, names, every_bytes }).is_ok() {
        MODE.store(mode, Ordering::Release);
    }
}

/// The names that the process's rings share, and the room that each needs for them; none where no stacks are recorded.
pub(super) fn names() -> Option<(Arc<NameTable>, usize)> {
    CAPTURE.get().map(|capture| (Arc::clone(&capture.names.0), TEXT_BYTES))
}

/// The device's stacks are told to the readers of this ring.
pub(super) fn tell(device: c_int, ring: &Arc<Ring>) {
    if let Ok(slot) = slot_of(&RINGS, device) {
        slot.get_or_init(|| Arc::clone(ring));
    }
}

/// Call in a forked child. One whose devices are its parent's records nothing.
pub(super) fn after_fork_child(is_recording: bool) {
    stacks::after_fork_child();
    if !is_recording {
        MODE.store(OFF, Ordering::Relaxed);
    }
}

/// The stack of a call that allocates.
#[inline]
pub(crate) fn of_allocation(device: c_int, size_bytes: usize) -> StackId {
    match MODE.load(Ordering::Relaxed) {
        OFF => StackId::NONE,
        _ => capture(device, Some(size_bytes)),
    }
}

/// The stack of a call that frees so many bytes.
#[inline]
pub(crate) fn of_free(device: c_int, size_bytes: usize) -> StackId {
    match MODE.load(Ordering::Relaxed) {
        ALL => capture(device, Some(size_bytes)),
        _ => StackId::NONE,
    }
}

/// The stack of a call that gives memory back to the device. There are few, and all are of interest.
pub(crate) fn of_release(device: c_int) -> StackId {
    match MODE.load(Ordering::Relaxed) {
        OFF => StackId::NONE,
        _ => capture(device, None),
    }
}

#[inline(never)]
fn capture(device: c_int, size_bytes: Option<usize>) -> StackId {
    let Some(Capture { stacks: seen, names, every_bytes }) = CAPTURE.get() else {
        return StackId::NONE;
    };
    let Some(ring) = slot_of(&RINGS, device).ok().and_then(OnceLock::get) else {
        return StackId::NONE;
    };
    if let (Some(every), Some(size)) = (every_bytes, size_bytes)
        && !stacks::is_sampled(*every, size as u64)
    {
        return StackId::NONE;
    }
    let id = seen.capture(names);
    ring.tell_stack(id);
    id
}
