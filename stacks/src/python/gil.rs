//! Operations that need the interpreter's lock: naming new frames, and the walk through CPython's own functions.

use std::ffi::{CStr, c_int};
use std::{mem, ptr, slice, thread};

use super::api::{Api, Object};
use super::end;
use super::structs::DEPTH_MAX;
use crate::fingerprint::CodePosition;

/// The calling thread has the interpreter's lock while this lives (in a free-threaded build: is attached). Whatever
/// exception was on its way is put aside.
///
/// To be taken without any lock of ours: who has the interpreter's may be waiting for it.
pub(super) struct Gil<'a> {
    api: &'a Api,
    state: c_int,
    exception: [Object; 3],
}

/// The name, file and line of a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlaceText {
    pub(crate) name: String,
    pub(crate) filename: String,
    pub(crate) line: u32,
}

impl<'a> Gil<'a> {
    /// Runs `body` with the lock; `None` where the interpreter is ending.
    ///
    /// A thread that CPython ends in there never comes back.
    ///
    /// # Safety
    /// The thread's state, which it gets here if it has none, is one of the main interpreter.
    pub(super) unsafe fn with<T>(api: &'static Api, body: impl FnOnce(&Self) -> T) -> Option<T> {
        if end::is_ending(api) {
            return None;
        }
        end::park_if_ended(api, || {
            // SAFETY: the caller promises that the thread's state, or the one that it gets here, is one of the main
            // interpreter, which exists: it was not ending. If it ends now, CPython ends the thread or lets it sleep.
            let gil = unsafe { Self::take(api) };
            let answer = body(&gil);
            gil.give_back();
            mem::forget(gil);
            Some(answer)
        })
    }

    /// # Safety
    /// The interpreter exists, and the thread's state, which it gets here if it has none, is one of the main one.
    unsafe fn take(api: &'a Api) -> Self {
        // SAFETY: any thread may call it while the interpreter exists. The caller promises that the thread's state is
        // one of the main interpreter, the only one for which the function works.
        let state = unsafe { (api.PyGILState_Ensure)() };
        let mut exception = [ptr::null_mut(); 3];
        let [kind, value, traceback] = &mut exception;
        // SAFETY: with the lock; the references are ours until they are given back.
        unsafe { (api.PyErr_Fetch)(kind, value, traceback) };
        Self { api, state, exception }
    }

    /// The frames of a thread by CPython's own functions, as lines.
    ///
    /// # Safety
    /// `thread` is the calling thread's state.
    pub(super) unsafe fn walk(&self, thread: Object) -> Vec<CodePosition> {
        let mut places = Vec::new();
        // SAFETY: with the lock; a new reference or NULL.
        let mut frame = unsafe { (self.api.PyThreadState_GetFrame)(thread) };
        while !frame.is_null() && places.len() < DEPTH_MAX {
            // SAFETY: a frame; a new reference.
            let code = unsafe { (self.api.PyFrame_GetCode)(frame) };
            // SAFETY: a frame.
            let line = unsafe { (self.api.PyFrame_GetLineNumber)(frame) };
            places.push(CodePosition {
                code: code.expose_provenance(),
                at: CodePosition::LINE | line.max(0) as u32,
            });
            // The frame keeps it alive as long as we need it.
            self.drop_ref(code);
            // SAFETY: a frame; a new reference or NULL.
            let back = unsafe { (self.api.PyFrame_GetBack)(frame) };
            self.drop_ref(frame);
            frame = back;
        }
        self.drop_ref(frame);
        places
    }

    /// The line of a place.
    ///
    /// # Safety
    /// The place is one of a frame of the calling thread.
    pub(super) unsafe fn line(&self, place: CodePosition) -> u32 {
        if place.at & CodePosition::LINE != 0 {
            return place.at & !CodePosition::LINE;
        }
        let code = ptr::with_exposed_provenance_mut(place.code);
        // SAFETY: a code object that its frame keeps alive.
        let line = unsafe { (self.api.PyCode_Addr2Line)(code, place.at as c_int) };
        line.max(0) as u32
    }

    /// The name, file and line of a place, whose code is kept alive from here on: its address stands for it.
    ///
    /// # Safety
    /// The place is one of a frame of the calling thread.
    pub(super) unsafe fn resolve(&self, place: CodePosition) -> PlaceText {
        let code = ptr::with_exposed_provenance_mut(place.code);
        // SAFETY: a code object that its frame keeps alive.
        unsafe { (self.api.Py_IncRef)(code) };
        // SAFETY: the caller promises a place of a frame of the calling thread.
        let line = unsafe { self.line(place) };
        // 3.11 and later know the class that a function is in.
        let name = self.text(code, c"co_qualname").or_else(|| self.text(code, c"co_name"));
        let filename = self.text(code, c"co_filename");
        PlaceText { name: name.unwrap_or_default(), filename: filename.unwrap_or_default(), line }
    }

    /// An attribute that is a string.
    fn text(&self, object: Object, attribute: &CStr) -> Option<String> {
        // SAFETY: a live object and a terminated name; a new reference or NULL.
        let value = unsafe { (self.api.PyObject_GetAttrString)(object, attribute.as_ptr()) };
        let text = (!value.is_null()).then(|| self.utf8(value)).flatten();
        self.drop_ref(value);
        if text.is_none() {
            // SAFETY: with the lock.
            unsafe { (self.api.PyErr_Clear)() };
        }
        text
    }

    fn utf8(&self, value: Object) -> Option<String> {
        let mut size = 0;
        // SAFETY: a live object, of which it says itself whether it is a string.
        let start = unsafe { (self.api.PyUnicode_AsUTF8AndSize)(value, &raw mut size) };
        if start.is_null() {
            return None;
        }
        // SAFETY: so many bytes, which live as long as the string.
        let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), size as usize) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    fn give_back(&self) {
        let [kind, value, traceback] = self.exception;
        // SAFETY: with the lock; it takes our references.
        unsafe { (self.api.PyErr_Restore)(kind, value, traceback) };
        // SAFETY: the state is what taking it returned.
        unsafe { (self.api.PyGILState_Release)(self.state) };
    }

    /// Gives a reference back; NULL is none.
    pub(super) fn drop_ref(&self, object: Object) {
        // SAFETY: with the lock; the reference was ours.
        unsafe { (self.api.Py_DecRef)(object) };
    }
}

impl Drop for Gil<'_> {
    /// After a panic. A thread that CPython ends does not have the lock, and gives nothing back.
    fn drop(&mut self) {
        if thread::panicking() {
            self.give_back();
        }
    }
}
