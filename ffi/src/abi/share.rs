//! Memory of expandable segments between processes.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::slice;

use allocator::heap::SharedPages;
use device::ShareableHandle;

use super::done;
use super::memory::address_of;
use crate::error::Error;
use crate::process;
use crate::process::descriptors;

/// The pages that an allocation lies in, for another process to open.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VramtapeSharedPages {
    /// Size of each page.
    pub page_size: u64,
    /// How many.
    pub page_count: usize,
    /// Offset of the allocation in the first page.
    pub offset: usize,
    /// File descriptors of this process, one for each page. They are closed when the pages are
    /// unmapped.
    pub descriptors: *const c_int,
}

/// Calls `visit` with the pages of the expandable segment that the allocation at `ptr` lies in; not
/// at all for an allocation in a segment of another kind, which is shared as one piece from its
/// base on (`vramtape_base_alloc`).
///
/// An unknown pointer is an error, and so is a device that does not share its memory.
///
/// # Safety
///
/// `visit` is NULL, which is an error, or may be called with `user`; it must not throw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_share_pages(
    ptr: *mut c_void,
    visit: Option<unsafe extern "C" fn(pages: *const VramtapeSharedPages, user: *mut c_void)>,
    user: *mut c_void,
) -> c_int {
    done(|| {
        let visit = visit.ok_or_else(|| Error::value("the visitor of pages is NULL"))?;
        let addr = address_of(ptr)?;
        if let Some(shared) = process::owner(addr, |heap| heap.lock()?.share(addr))? {
            let descriptors = descriptors_of(&shared)?;
            let pages = VramtapeSharedPages {
                page_size: shared.page_bytes,
                page_count: descriptors.len(),
                offset: shared.offset_bytes as usize,
                descriptors: descriptors.as_ptr(),
            };
            // SAFETY: the caller vouches for the function; the descriptors live during the call.
            unsafe { visit(&raw const pages, user) };
        }
        Ok(())
    })
}

/// Maps pages that the process `pid` shares, and writes to `ptr` where they begin on `device`. They
/// stay until `vramtape_close_pages`, whatever the other process does.
///
/// The descriptors are taken from the other process, so it has to be there, of the same user, and
/// one that this process may look into (`pidfd_getfd` asks for the rights of a debugger).
///
/// # Safety
///
/// `descriptors` is NULL, which is an error, or points to `page_count` numbers; `ptr` is NULL, which
/// is an error, or points to one pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vramtape_open_pages(
    device: c_int,
    pid: c_int,
    page_size: u64,
    page_count: usize,
    descriptors: *const c_int,
    ptr: *mut *mut c_void,
) -> c_int {
    done(|| {
        let missing =
            || Error::value("shared pages need descriptors and a place for their address");
        let mut ptr = NonNull::new(ptr).ok_or_else(missing)?;
        if descriptors.is_null() || page_count == 0 {
            return Err(missing());
        }
        // SAFETY: not NULL, and the caller gives that many numbers for the time of the call.
        let numbers = unsafe { slice::from_raw_parts(descriptors, page_count) };
        let taken = descriptors::take(pid, numbers)?;
        let handles: Vec<_> = taken.iter().map(descriptors::as_handle).collect();
        let addr = process::heap(device)?.lock()?.open_shared(page_size, &handles)?;
        // SAFETY: the caller gives one pointer, for the time of the call.
        *unsafe { ptr.as_mut() } = ptr::with_exposed_provenance_mut(addr.0 as usize);
        Ok(())
    })
}

/// Gives back what `vramtape_open_pages` mapped at `ptr`. The work that used it has to be done.
#[unsafe(no_mangle)]
pub extern "C" fn vramtape_close_pages(device: c_int, ptr: *mut c_void) -> c_int {
    done(|| {
        let addr = address_of(ptr)?;
        Ok(process::heap(device)?.lock()?.close_shared(addr)?)
    })
}

fn descriptors_of(shared: &SharedPages) -> Result<Vec<c_int>, Error> {
    let descriptor = |handle: &ShareableHandle| match handle {
        ShareableHandle::PosixFd(descriptor) => Ok(*descriptor),
        ShareableHandle::Fabric(_) => {
            Err(Error::runtime("pages are shared as file descriptors only"))
        }
    };
    shared.handles.iter().map(descriptor).collect()
}
