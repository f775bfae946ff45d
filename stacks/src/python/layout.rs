//! Where each CPython keeps its frames.

use super::api::{self, Api};
use super::debug_offsets;
use super::structs::{DEPTH_MAX, Structs, field};
use crate::fingerprint::CodePosition;

/// Offsets of fields, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// 3.9 and 3.10: frames are objects.
    Objects {
        /// Of the thread: its newest frame.
        frame: usize,
        back: usize,
        code: usize,
        lasti: usize,
        /// One step of `lasti`, in bytes.
        lasti_unit: u32,
    },
    /// 3.11 and later: frames are structs on a stack of the thread's.
    Structs(Structs),
}

impl Layout {
    /// That of the process's CPython; `None` where it is not known.
    pub(super) fn find(api: &Api) -> Option<Self> {
        let version = api.version();
        let version = version.split_whitespace().next()?;
        // Alphas and betas may still move things.
        if version.contains(['a', 'b']) {
            return None;
        }
        let minor = version.strip_prefix("3.")?.split('.').next()?;
        let minor: u8 = minor.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()?;
        if minor >= 13 {
            return debug_offsets::read(minor).map(Self::Structs);
        }
        // Builds that count references may also give every object two more words.
        if api::variable(c"_Py_NegativeRefcount").is_some() {
            return None;
        }
        let structs =
            Structs { frame: 56, through: Some(0), instruction: 56, ..Structs::default() };
        match minor {
            9 => Some(Self::Objects { frame: 24, back: 24, code: 32, lasti: 104, lasti_unit: 1 }),
            10 => Some(Self::Objects { frame: 24, back: 24, code: 32, lasti: 96, lasti_unit: 2 }),
            11 => Some(Self::Structs(Structs {
                through: Some(8),
                previous: 48,
                executable: 32,
                owner: 69,
                code_start: 184,
                ..structs
            })),
            12 => Some(Self::Structs(Structs {
                previous: 8,
                executable: 0,
                owner: 70,
                code_start: 192,
                ..structs
            })),
            _ => None,
        }
    }

    /// Hands out the frames of a thread, the innermost first.
    ///
    /// # Safety
    /// `thread` is the address of the calling thread's own state, the layout is that of its interpreter, and the
    /// interpreter does not end meanwhile.
    ///
    /// This thread runs our code and none of Python's: its frames do not change, so none of them can go away, whichever
    /// thread holds the interpreter's lock.
    #[inline]
    pub(super) unsafe fn walk(&self, thread: usize, take: impl FnMut(CodePosition)) {
        match *self {
            Self::Objects { frame, back, code, lasti, lasti_unit } => {
                // SAFETY: the caller promises a state of the calling thread, with frames of this layout, that stay as
                // they are meanwhile; these offsets are of the layout's objects.
                unsafe { walk_objects(thread, [frame, back, code, lasti], lasti_unit, take) };
            }
            // SAFETY: the caller promises a state of the calling thread, with frames of this layout, that stay as they
            // are meanwhile; these offsets are of the layout's structs.
            Self::Structs(structs) => unsafe { structs.walk(thread, take) },
        }
    }
}

/// [`Layout::walk`] where frames are objects.
///
/// # Safety
/// `thread` is the address of the calling thread's own state, the offsets are those of its interpreter's objects, and
/// the interpreter does not end meanwhile.
#[inline]
unsafe fn walk_objects(
    thread: usize,
    [frame, back, code, lasti]: [usize; 4],
    lasti_unit: u32,
    mut take: impl FnMut(CodePosition),
) {
    // SAFETY: `thread` is the state of this thread, which only this thread changes, and the offset that of its frame.
    let mut at: usize = unsafe { field(thread, frame) };
    for _ in 0..DEPTH_MAX {
        if at == 0 {
            return;
        }
        // SAFETY: `at` is the thread's newest frame or a caller of it. It is being executed, so it is alive and has a
        // code object; this thread does not run Python's code meanwhile, so nothing changes it.
        let code: usize = unsafe { field(at, code) };
        // SAFETY: the same frame has its position as an `int` there, and this thread does not advance it meanwhile.
        let lasti: i32 = unsafe { field(at, lasti) };
        // Negative before the first instruction.
        take(CodePosition { code, at: lasti.max(0) as u32 * lasti_unit });
        // SAFETY: the same frame has a pointer to its caller there, which is NULL for the outermost.
        at = unsafe { field(at, back) };
    }
}
