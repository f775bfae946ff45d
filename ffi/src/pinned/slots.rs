//! Redirection of a function's calls: the slots through which the loaded libraries call it.
//!
//! A library calls a function of another one by a pointer in its own table, which the dynamic linker fills in
//! (System V ABI, "Procedure Linkage Table"). Libraries that are loaded later are not redirected.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{ptr, slice};

use libc::{Elf64_Phdr, Elf64_Rela, Elf64_Sym, dl_phdr_info};

/// A function's name, and the address of the one to call in its place.
pub(super) type Redirect = (&'static CStr, usize);

type Visit<'v> = &'v mut dyn FnMut(&dl_phdr_info);

// Tags of the dynamic section, and the kind of a relocation that fills in a slot.
const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_JMPREL: i64 = 23;
#[cfg(target_arch = "x86_64")]
const JUMP_SLOT: u64 = 7;
#[cfg(target_arch = "aarch64")]
const JUMP_SLOT: u64 = 1026;

/// An entry of the dynamic section, which libc does not declare.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: u64,
}

/// Redirects the functions in every library that is loaded now. Returns the number of slots.
pub(super) fn redirect(redirects: &[Redirect]) -> usize {
    let mut slots = 0;
    each_library(&mut |library| {
        // SAFETY: the linker's description, of a library that stays loaded during the visit.
        slots += unsafe { redirect_in(library, redirects) };
    });
    slots
}

/// The path of the first loaded library whose file's name begins so.
pub(super) fn loaded(prefix: &str) -> Option<CString> {
    let mut found = None;
    each_library(&mut |library| {
        // SAFETY: the linker passes a terminated path.
        let path = unsafe { CStr::from_ptr(library.dlpi_name) };
        let file = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if found.is_none() && file.starts_with(prefix.as_bytes()) {
            found = Some(path.to_owned());
        }
    });
    found
}

fn each_library(mut visit: Visit<'_>) {
    unsafe extern "C" fn visited(info: *mut dl_phdr_info, _: usize, work: *mut c_void) -> c_int {
        // SAFETY: what `each_library` passed.
        let visit = unsafe { &mut *work.cast::<Visit<'_>>() };
        // SAFETY: the linker passes a valid description.
        visit(unsafe { &*info });
        0
    }
    // SAFETY: `visited` takes the pointer for what it is, during the call.
    unsafe { libc::dl_iterate_phdr(Some(visited), (&raw mut visit).cast()) };
}

/// Redirects the functions in one library.
///
/// # Safety
///
/// `library` describes a library that stays loaded.
unsafe fn redirect_in(library: &dl_phdr_info, redirects: &[Redirect]) -> usize {
    // SAFETY: the linker's table of so many program headers.
    let headers = unsafe { slice::from_raw_parts(library.dlpi_phdr, library.dlpi_phnum.into()) };
    let base = library.dlpi_addr;
    let Some(dynamic) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else {
        return 0;
    };
    let [mut symbols, mut names, mut slots, mut size_bytes] = [0; 4];
    let mut entry = (base + dynamic.p_vaddr) as *const Dynamic;
    loop {
        // SAFETY: the dynamic section is a list that ends with tag 0.
        let Dynamic { tag, value } = unsafe { entry.read() };
        match tag {
            0 => break,
            DT_SYMTAB => symbols = value,
            DT_STRTAB => names = value,
            DT_JMPREL => slots = value,
            DT_PLTRELSZ => size_bytes = value,
            _ => {}
        }
        // SAFETY: there is a further entry until tag 0.
        entry = unsafe { entry.add(1) };
    }
    // The linker has made addresses of these, except in the kernel's own library, which calls nothing.
    if [symbols, names, slots].iter().any(|address| *address < base || *address == 0) {
        return 0;
    }
    let count = size_bytes as usize / size_of::<Elf64_Rela>();
    // SAFETY: the library's table of so many relocations.
    let relocations = unsafe { slice::from_raw_parts(slots as *const Elf64_Rela, count) };
    let mut redirected = 0;
    for relocation in relocations.iter().filter(|one| one.r_info & 0xffff_ffff == JUMP_SLOT) {
        let symbol = (symbols as *const Elf64_Sym).wrapping_add((relocation.r_info >> 32) as usize);
        // SAFETY: a relocation's symbol is in the library's table.
        let name = (names as *const c_char).wrapping_add(unsafe { (*symbol).st_name } as usize);
        // SAFETY: a symbol's name is among the library's terminated names.
        let name = unsafe { CStr::from_ptr(name) };
        if let Some((_, to)) = redirects.iter().find(|(wanted, _)| *wanted == name) {
            // SAFETY: the slot of a function that has the type of `to`, by its name.
            let is_set = unsafe { set(base + relocation.r_offset, *to, base, headers) };
            redirected += usize::from(is_set);
        }
    }
    redirected
}

/// Sets a slot; returns whether it could. Other threads call by the old value or by the new one.
///
/// # Safety
///
/// `slot` is the address of a slot of the library with this base and these headers.
unsafe fn set(slot: u64, to: usize, base: u64, headers: &[Elf64_Phdr]) -> bool {
    // SAFETY: reads a constant of the system.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    // The linker leaves a last page that is not wholly in the range writable, and so must this.
    let is_read_only = headers.iter().any(|header| {
        let start = base + header.p_vaddr;
        let end = (start + header.p_memsz) / page_bytes * page_bytes;
        header.p_type == libc::PT_GNU_RELRO && (start..end).contains(&slot)
    });
    let page = ptr::without_provenance_mut((slot / page_bytes * page_bytes) as usize);
    let protect = |protection| {
        // SAFETY: a page of the library's table, which stays readable.
        unsafe { libc::mprotect(page, page_bytes as usize, protection) == 0 }
    };
    if is_read_only && !protect(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    // SAFETY: an aligned word of the library's table, which the linker reads and writes as a whole.
    unsafe { AtomicUsize::from_ptr(slot as *mut usize) }.store(to, Ordering::Release);
    if is_read_only {
        protect(libc::PROT_READ);
    }
    true
}
