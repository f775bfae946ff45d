//! Finding a driver function by name.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::abi::{Answer, In, Out, Status, driver};

/// `CUdriverProcAddressQueryResult`.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;

/// The newest version of a function is under its highest suffix, as in `cuda.h`.
const SUFFIXES: [&str; 3] = ["_v3", "_v2", ""];

/// Fills in the function's address, or null and the answer "not found".
pub(crate) fn find(name: &str, out: Out<usize>, found: Out<c_int>) -> Answer {
    let address = SUFFIXES.iter().find_map(|suffix| exported(&format!("{name}{suffix}")));
    found.set_if_wanted(if address.is_some() { FOUND } else { NOT_FOUND });
    out.set(address.unwrap_or(0))
}

/// The address of what this library exports under a name.
fn exported(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: a handle of this library, which is never closed, and a text with an end mark.
    let address = unsafe { libc::dlsym(*own_handle() as *mut c_void, name.as_ptr()) };
    (!address.is_null()).then(|| address.expose_provenance())
}

/// A handle of this library, wherever it was loaded from; 0, which means the whole process, where that fails.
fn own_handle() -> &'static usize {
    static HANDLE: OnceLock<usize> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let mut place = libc::Dl_info {
            dli_fname: ptr::null(),
            dli_fbase: ptr::null_mut(),
            dli_sname: ptr::null(),
            dli_saddr: ptr::null_mut(),
        };
        let inside = ptr::from_ref(&FOUND).cast();
        // SAFETY: an address inside this library and a place for the answer.
        let known = unsafe { libc::dladdr(inside, &raw mut place) };
        if known == 0 {
            return 0;
        }
        // SAFETY: the path that the loader itself keeps for this library, which is loaded.
        unsafe { libc::dlopen(place.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD) }
            .expose_provenance()
    })
}

driver! {
    fn cuGetProcAddress_v2(
        name: In<c_char>, out: Out<usize>, _version: c_int, _flags: u64, found: Out<c_int>,
    ) {
        find(&name.text()?, out, found)
    }

    /// CUPTI asks for tables of functions that no header has. There are none, and without the answer it would call what
    /// lies at no address.
    fn cuGetExportTable(out: Out<usize>, _table: In<[u8; 16]>) {
        out.set(0)?;
        Err(Status::NOT_FOUND)
    }

    fn cuGetProcAddress(name: In<c_char>, out: Out<usize>, _version: c_int, _flags: u64) {
        find(&name.text()?, out, Out::unwanted())
    }
}
