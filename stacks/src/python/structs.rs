//! Frames that are structs on a stack of the thread's: CPython 3.11 and later.

use std::ptr;

use crate::fingerprint::CodePosition;

/// More frames than any sound program has: a chain that runs in a circle ends here.
pub(crate) const DEPTH_MAX: usize = 4096;

/// From this owner on a frame is the interpreter's own, between Python's and C's (3.12 and later).
const FIRST_INTERNAL_OWNER: u8 = 3;

/// The low bits of a reference from the interpreter's stack are marks (3.14 and later).
const TAG_BITS: usize = 7;

/// Offsets of fields, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Structs {
    /// Of the thread: its newest frame, or what points to that.
    pub(super) frame: usize,
    /// 3.11 and 3.12: of what points to the newest frame, that frame.
    pub(super) through: Option<usize>,
    pub(super) previous: usize,
    pub(super) executable: usize,
    pub(super) instruction: usize,
    pub(super) owner: usize,
    /// Of a code object: its instructions.
    pub(super) code_start: usize,
    /// Free-threaded 3.14 and later: threads run copies of the instructions. Of a frame: which, and of a code object:
    /// the array of copies.
    pub(super) copies: Option<(usize, usize)>,
}

impl Structs {
    /// Hands out the frames of a thread, the innermost first.
    ///
    /// # Safety
    /// `thread` is the address of the calling thread's own state, the offsets are those of its interpreter's structs,
    /// and the interpreter does not end meanwhile.
    #[inline]
    pub(super) unsafe fn walk(&self, thread: usize, mut take: impl FnMut(CodePosition)) {
        // SAFETY: `thread` is the state of this thread, which only this thread changes. At the offset is a pointer to
        // its newest frame, or to the struct that has that pointer.
        let mut at: usize = unsafe { field(thread, self.frame) };
        if let Some(through) = self.through {
            // SAFETY: in 3.11 and 3.12 the state of a thread always points to a struct of C's stack that has the newest
            // frame at this offset, and that lives until the C function which has it returns: below this one.
            at = unsafe { field(at, through) };
        }
        for _ in 0..DEPTH_MAX {
            if at == 0 {
                return;
            }
            // SAFETY: `at` is the thread's newest frame or a caller of it. It is being executed, so it is alive and has
            // an owner; this thread does not run Python's code meanwhile, so nothing changes it.
            let owner: u8 = unsafe { field(at, self.owner) };
            if owner < FIRST_INTERNAL_OWNER {
                // SAFETY: the same frame has a reference to its code object there, and is not the interpreter's own.
                let code = unsafe { field::<usize>(at, self.executable) } & !TAG_BITS;
                // SAFETY: the same frame has a pointer to its instruction there, which this thread does not advance.
                let instruction: usize = unsafe { field(at, self.instruction) };
                // SAFETY: the frame holds its code object alive, and executes it.
                let start = unsafe { self.start(at, code) };
                // Before the first instruction it points to one before the first.
                let offset = instruction.wrapping_sub(start) as isize;
                take(CodePosition { code, at: offset.max(0) as u32 });
            }
            // SAFETY: the same frame, also one of the interpreter's own, has a pointer to its caller there, which is
            // NULL for the outermost.
            at = unsafe { field(at, self.previous) };
        }
    }

    /// The address of the instructions that a frame executes.
    ///
    /// # Safety
    /// `frame` is one of this layout, and `code` its code object.
    #[inline]
    unsafe fn start(&self, frame: usize, code: usize) -> usize {
        let Some((index, copies)) = self.copies else { return code + self.code_start };
        // SAFETY: the caller promises a frame of this layout. It has the index of the copy that it executes there, an
        // `int32_t` that only its own thread changes.
        let index: i32 = unsafe { field(frame, index) };
        // SAFETY: the caller promises the frame's code object, which the frame keeps alive. It has a pointer to its
        // array of copies there. Another thread may replace it by one to a larger array; the load gives one of the two,
        // since a processor loads an aligned pointer whole.
        let copies: usize = unsafe { field(code, copies) };
        // SAFETY: the array has its length and then a pointer for each copy, this frame's among them, which stays while
        // the frame's thread lives. If it was replaced just now, CPython frees it later (`_PyMem_FreeDelayed`). That
        // delay waits only for attached threads, which this one may not be; it is far longer than one load.
        unsafe { field(copies, size_of::<usize>() * (1 + index as usize)) }
    }
}

/// Reads a field of an object of the interpreter.
///
/// # Safety
/// There is an initialised `T` at `offset` from `base`, which does not change meanwhile.
#[inline]
pub(super) unsafe fn field<T: Copy>(base: usize, offset: usize) -> T {
    let address = ptr::with_exposed_provenance::<T>(base.wrapping_add(offset));
    // SAFETY: the caller promises an initialised `T` at this address that does not change meanwhile. It is a field of a
    // struct of C's, so it is aligned.
    unsafe { address.read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets of the objects below, in words.
    const THREAD: usize = 0;
    const FRAMES: [usize; 3] = [8, 24, 40];
    const CODE: usize = 56;
    const COPIES: usize = 72;

    fn structs(copies: bool) -> Structs {
        Structs {
            frame: 8,
            through: None,
            previous: 8,
            executable: 0,
            instruction: 56,
            owner: 70,
            code_start: 80,
            // The index is the frame's word 4, the array the code object's word 2.
            copies: copies.then_some((32, 16)),
        }
    }

    /// Three frames of one code object, the second one the interpreter's own, the third not begun; a copy of the
    /// instructions at `copy`.
    fn memory(copy: usize) -> (Vec<usize>, usize) {
        let mut words = vec![0_usize; 96];
        let base = words.as_mut_ptr().expose_provenance();
        let address = |word: usize| base + word * 8;
        words[THREAD + 1] = address(FRAMES[0]);
        for (number, frame) in FRAMES.into_iter().enumerate() {
            words[frame] = address(CODE) | 1;
            words[frame + 1] = FRAMES.get(number + 1).map_or(0, |next| address(*next));
            words[frame + 4] = 1;
            words[frame + 7] = copy + 6;
            words[frame + 8] = if number == 1 { 3 << 48 } else { 0 };
        }
        words[FRAMES[2] + 7] = copy.wrapping_sub(2);
        words[CODE + 2] = address(COPIES);
        (words, base)
    }

    fn walk(structs: Structs, words: &mut [usize], start: usize) -> Vec<CodePosition> {
        let thread = words.as_mut_ptr().expose_provenance() + THREAD * 8;
        let mut places = Vec::new();
        // SAFETY: the words hold the fields of the layout, and nothing else has a reference to them.
        unsafe { structs.walk(thread, |place| places.push(place)) };
        let code = words.as_ptr().addr() + start;
        assert!(places.iter().all(|place| place.code == code));
        places
    }

    #[test]
    fn marks_of_references_and_frames_of_the_interpreter_are_left_out() {
        let (mut words, base) = memory(0);
        for (frame, offset) in [(FRAMES[0], 6), (FRAMES[1], 6)] {
            words[frame + 7] = base + CODE * 8 + 80 + offset;
        }
        words[FRAMES[2] + 7] = base + CODE * 8 + 80 - 2;
        let places = walk(structs(false), &mut words, CODE * 8);
        assert_eq!(places.iter().map(|place| place.at).collect::<Vec<_>>(), [6, 0]);
    }

    #[test]
    fn a_thread_that_runs_its_own_copy_of_the_instructions_is_in_the_same_place() {
        let copy = 0x5000_0000;
        let (mut words, _) = memory(copy);
        words[COPIES] = 2;
        words[COPIES + 2] = copy;
        let places = walk(structs(true), &mut words, CODE * 8);
        assert_eq!(places.iter().map(|place| place.at).collect::<Vec<_>>(), [6, 0]);
    }

    #[test]
    fn frames_in_a_circle_end() {
        let (mut words, base) = memory(0x5000_0000);
        words[FRAMES[2] + 1] = base + FRAMES[0] * 8;
        let places = walk(structs(false), &mut words, CODE * 8);
        let visible = (0..DEPTH_MAX).filter(|number| number % 3 != 1);
        assert_eq!(places.len(), visible.count());
    }
}
