//! The stack of a thread that runs no Python, such as autograd's: its name, so that a reader can distinguish it from
//! a call whose stack was not recorded.

use std::cell::Cell;
use std::ffi::CStr;

use trace_format::{StackId, THREAD_FILE};

use crate::Names;

/// Room for a thread's name on Linux, its end included.
const NAME_BYTES: usize = 16;

/// The stack of the calling thread; `None` where there is no room for another. A thread's name is read once.
pub(crate) fn stack(names: &impl Names) -> Option<StackId> {
    thread_local! {
        static OWN: Cell<Option<StackId>> = const { Cell::new(None) };
    }
    if let Some(id) = OWN.get() {
        return Some(id);
    }
    let frame = names.frame(&name(), THREAD_FILE, 0)?;
    let id = names.stack(StackId::NONE, frame)?;
    OWN.set(Some(id));
    Some(id)
}

fn name() -> String {
    let mut name = [0_u8; NAME_BYTES];
    // SAFETY: the call writes at most 16 bytes, the terminator included.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    let text = CStr::from_bytes_until_nul(&name).ok().filter(|_| !failed);
    text.map_or_else(|| "?".to_owned(), |text| text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use trace_format::FrameId;

    use super::*;

    #[derive(Default)]
    struct Seen(Mutex<Vec<(String, String)>>);

    impl Names for Seen {
        fn frame(&self, name: &str, filename: &str, _: u32) -> Option<FrameId> {
            self.0.lock().unwrap().push((name.to_owned(), filename.to_owned()));
            Some(FrameId(4))
        }

        fn stack(&self, _: StackId, frame: FrameId) -> Option<StackId> {
            Some(StackId(frame.0 + 1))
        }
    }

    #[test]
    fn a_thread_is_named_once() {
        let thread = std::thread::Builder::new().name("pt_autograd_0".to_owned());
        let work = || {
            let seen = Seen::default();
            assert_eq!((stack(&seen), stack(&seen)), (Some(StackId(5)), Some(StackId(5))));
            seen.0.into_inner().unwrap()
        };
        let seen = thread.spawn(work).unwrap().join().unwrap();
        assert_eq!(seen, [("pt_autograd_0".to_owned(), "<thread>".to_owned())]);
    }
}
