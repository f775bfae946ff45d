//! The frames of C++, C and Rust, by the unwinder that exceptions use.
//!
//! It looks a table up for each frame, which takes a tenth of a microsecond to one: on request only.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::ptr;

use crate::fingerprint::CodePosition;
use crate::python::PlaceText;

/// As many frames as are walked; a recursion that is deeper keeps its innermost.
const DEPTH_MAX: usize = 512;

const GO_ON: c_int = 0;
const STOP: c_int = 5;

/// The unwinder's own.
#[repr(C)]
struct Context {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        callback: extern "C" fn(*mut Context, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut Context) -> usize;
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
}

/// How native frames are walked in this process.
#[derive(Debug)]
pub(crate) struct Native {
    /// This library, whose frames are of no interest.
    own: Range<usize>,
    /// CPython's function that runs Python's frames: those are found in a better way. 0 where there is none.
    pub(crate) interpreter: usize,
}

struct Walk<'a, F> {
    native: &'a Native,
    left: usize,
    take: F,
}

impl Native {
    pub(crate) fn new(interpreter: usize) -> Self {
        Self { own: own_range(), interpreter }
    }

    /// Hands out the frames inside the innermost Python frame (without Python: all), the innermost first.
    pub(crate) fn walk(&self, take: impl FnMut(CodePosition)) {
        let mut walk = Walk { native: self, left: DEPTH_MAX, take };
        let callback = callback(&walk);
        // SAFETY: the unwinder calls the function that fits the argument, and only before it returns.
        unsafe { _Unwind_Backtrace(callback, (&raw mut walk).cast()) };
    }

    /// The function that a return address lies in, and where that is in its file, as `addr2line` takes it; `None` for
    /// the bridge to PyTorch, which is ours too.
    pub(crate) fn resolve(place: CodePosition) -> Option<PlaceText> {
        // The call is before the address it returns to.
        let address = place.code - 1;
        let found = object_of(address);
        let text = |text: *const libc::c_char| {
            // SAFETY: terminated, and it lives as long as the library, which the calling thread executes.
            (!text.is_null())
                .then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = text(found.dli_sname).map(|name| demangle(&name));
        let file = text(found.dli_fname).unwrap_or_default();
        if is_bridge(&file) {
            return None;
        }
        let filename = format!("{file}+{:#x}", address.wrapping_sub(found.dli_fbase.addr()));
        Some(PlaceText { name: name.unwrap_or_else(|| "??".to_owned()), filename, line: 0 })
    }
}

/// Whether a library is the bridge, by the name that the Python package gives to what it builds.
fn is_bridge(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.starts_with("torch-") && name.contains("-cxx11abi")
}

/// The function that calls `walk.take`.
fn callback<F: FnMut(CodePosition)>(
    _: &Walk<F>,
) -> extern "C" fn(*mut Context, *mut c_void) -> c_int {
    extern "C" fn each<F: FnMut(CodePosition)>(context: *mut Context, walk: *mut c_void) -> c_int {
        // SAFETY: it is what `Native::walk` passed, whose type chose this function; nothing else uses it meanwhile.
        let Walk { native, left, take } = unsafe { &mut *walk.cast::<Walk<F>>() };
        // SAFETY: the unwinder's context of this frame, which is valid until this function returns.
        let code = unsafe { _Unwind_GetIP(context) };
        if code == 0 || *left == 0 {
            return STOP;
        }
        if !native.own.contains(&code) {
            // SAFETY: the unwinder's context of this frame, which is valid until this function returns.
            let function = unsafe { _Unwind_GetRegionStart(context) };
            if native.interpreter != 0 && function == native.interpreter {
                return STOP;
            }
            *left -= 1;
            take(CodePosition { code, at: CodePosition::NATIVE });
        }
        GO_ON
    }
    each::<F>
}

/// The dynamic linker's information about an address.
fn object_of(address: usize) -> libc::Dl_info {
    let mut found = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // SAFETY: the address is only looked up, and the answer has room.
    unsafe { libc::dladdr(ptr::without_provenance(address), &raw mut found) };
    found
}

/// A symbol as it was written, if it is one of C++.
fn demangle(symbol: &str) -> String {
    let demangled =
        cpp_demangle::Symbol::new(symbol).ok().and_then(|symbol| symbol.demangle().ok());
    demangled.unwrap_or_else(|| symbol.to_owned())
}

/// Where this library's code is loaded.
fn own_range() -> Range<usize> {
    extern "C" fn each(info: *mut libc::dl_phdr_info, size: usize, range: *mut c_void) -> c_int {
        let _ = size;
        // SAFETY: the dynamic linker's description of an object, for the duration of this call.
        let info = unsafe { &*info };
        let own = own_range as *const () as usize;
        for number in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the object has so many program headers.
            let header = unsafe { &*info.dlpi_phdr.wrapping_add(number) };
            let start = (info.dlpi_addr + header.p_vaddr) as usize;
            let loaded = start..start + header.p_memsz as usize;
            if header.p_type == libc::PT_LOAD && loaded.contains(&own) {
                // SAFETY: what `own_range` passed.
                unsafe { range.cast::<Range<usize>>().write(loaded) };
                return 1;
            }
        }
        0
    }
    let mut range: Range<usize> = 0..0;
    // SAFETY: the function fits its argument, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut range).cast()) };
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpp_symbols_are_written_out_and_others_kept() {
        assert_eq!(demangle("_ZN3c106detail5raiseEi"), "c10::detail::raise(int)");
        assert_eq!(demangle("vramtape_malloc"), "vramtape_malloc");
    }

    #[test]
    fn the_bridge_is_known_by_its_name() {
        assert!(is_bridge("/c/bridge/torch-2.11.0+cu130-70d99e998b4d-abi5-cxx11abi1-6f01.so"));
        assert!(!is_bridge("/v/torch/lib/libtorch_cuda.so") && !is_bridge(""));
    }

    #[test]
    fn frames_outside_this_library_are_named_with_their_place() {
        // Here the library is a part of the test program, so all that is left is the C library that started it.
        let mut places = Vec::new();
        Native::new(0).walk(|place| places.push(place));
        let texts: Vec<PlaceText> = places.into_iter().filter_map(Native::resolve).collect();
        assert!(!texts.is_empty());
        for PlaceText { filename, line, .. } in texts {
            assert!(filename.contains("libc.so.6+0x") && line == 0, "{filename}");
        }
    }
}
