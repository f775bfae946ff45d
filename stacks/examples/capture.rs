//! A library that captures its caller's stack, for tests in any Python.
//!
//! ```python
//! library = ctypes.CDLL("libcapture.so")
//! library.capture_text(buffer, len(buffer))  # name, file and line of each frame, innermost first
//! library.capture_ns(1000)                   # nanoseconds for each of 1000 captures
//! ```

use std::ffi::c_char;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use stacks::{Frames, Names, Stacks};
use trace_format::{FrameId, StackId};

#[derive(Default)]
struct Table {
    frames: Mutex<Vec<String>>,
    stacks: Mutex<Vec<(StackId, FrameId)>>,
}

impl Names for Table {
    fn frame(&self, name: &str, filename: &str, line: u32) -> Option<FrameId> {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.push(format!("{name}\t{filename}\t{line}"));
        Some(FrameId(frames.len() as u32 - 1))
    }

    fn stack(&self, caller: StackId, frame: FrameId) -> Option<StackId> {
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        stacks.push((caller, frame));
        Some(StackId(stacks.len() as u32))
    }
}

impl Table {
    fn text(&self, mut id: StackId) -> String {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        while id != StackId::NONE {
            let (caller, frame) = stacks[id.0 as usize - 1];
            text.push_str(&frames[frame.0 as usize]);
            text.push('\n');
            id = caller;
        }
        text
    }
}

/// Set in the environment: `under_lock` reads every stack under Python's lock, `native` adds native frames.
const VARIABLE: &str = "CAPTURE";

static STACKS: LazyLock<Stacks> = LazyLock::new(|| {
    Stacks::new(match std::env::var(VARIABLE).as_deref() {
        Ok("under_lock") => Frames::PythonUnderLock,
        Ok("native") => Frames::NativeAndPython,
        _ => Frames::Python,
    })
});
static TABLE: LazyLock<Table> = LazyLock::new(Table::default);

/// The caller's Python stack as text, as much as fits, without an end mark; returns its whole length.
///
/// # Safety
/// There is room for `size` bytes at `buffer`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn capture_text(buffer: *mut c_char, size: usize) -> usize {
    let text = TABLE.text(STACKS.capture(&*TABLE));
    let copied = text.len().min(size);
    // SAFETY: so much fits, as the caller vouches, and both are different memory.
    unsafe { buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), copied) };
    text.len()
}

/// The number of the caller's Python stack.
#[unsafe(no_mangle)]
pub extern "C" fn capture_id() -> u32 {
    STACKS.capture(&*TABLE).0
}

/// Nanoseconds that a capture takes, on average over `times` of them.
#[unsafe(no_mangle)]
pub extern "C" fn capture_ns(times: u32) -> f64 {
    STACKS.capture(&*TABLE);
    let start = Instant::now();
    for _ in 0..times {
        std::hint::black_box(STACKS.capture(&*TABLE));
    }
    start.elapsed().as_nanos() as f64 / f64::from(times.max(1))
}
