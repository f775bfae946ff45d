//! An `atexit` function, which runs before the interpreter's end begins.

use std::ptr;

use super::api::{Api, Method, Object};
use super::gil::Gil;
use crate::gate;

const METH_NOARGS: i32 = 4;

struct Hook(Method);

// SAFETY: it points to terminated strings and a function, none of which ever change; CPython only reads it.
unsafe impl Sync for Hook {}

static HOOK: Hook = Hook(Method {
    name: c"vramtape_at_exit".as_ptr(),
    function: at_exit,
    flags: METH_NOARGS,
    doc: ptr::null(),
});

/// Registers with Python's `atexit`; false where that fails, or where `atexit` may not call it any more.
pub(super) fn register(api: &Api, gil: &Gil<'_>) -> bool {
    let hook = (&raw const HOOK.0).cast_mut();
    // SAFETY: with the lock; the definition lives for ever.
    let function = unsafe { (api.PyCFunction_NewEx)(hook, ptr::null_mut(), ptr::null_mut()) };
    // SAFETY: with the lock.
    let module = unsafe { (api.PyImport_ImportModule)(c"atexit".as_ptr()) };
    let mut result = ptr::null_mut();
    if !function.is_null() && !module.is_null() {
        let (name, format) = (c"register".as_ptr(), c"O".as_ptr());
        // SAFETY: with the lock; the format says that one object follows.
        result = unsafe { (api.PyObject_CallMethod)(module, name, format, function) };
    }
    for object in [function, module, result] {
        gil.drop_ref(object);
    }
    if result.is_null() {
        // SAFETY: with the lock.
        unsafe { (api.PyErr_Clear)() };
    }
    !result.is_null() && !is_late(api, gil)
}

/// Whether Python's threads are being shut down, which precedes `atexit`.
fn is_late(api: &Api, gil: &Gil<'_>) -> bool {
    // SAFETY: with the lock; borrowed.
    let modules = unsafe { (api.PyImport_GetModuleDict)() };
    // SAFETY: with the lock; borrowed, or NULL where nothing imported it. An import here would take this thread for
    // the main one.
    let threading = unsafe { (api.PyDict_GetItemString)(modules, c"threading".as_ptr()) };
    if threading.is_null() {
        return false;
    }
    // SAFETY: a live object and a terminated name; a new reference or NULL.
    let flag = unsafe { (api.PyObject_GetAttrString)(threading, c"_SHUTTING_DOWN".as_ptr()) };
    if flag.is_null() {
        // SAFETY: with the lock.
        unsafe { (api.PyErr_Clear)() };
        return true;
    }
    // SAFETY: a live object.
    let is_late = unsafe { (api.PyObject_IsTrue)(flag) } != 0;
    gil.drop_ref(flag);
    is_late
}

/// Closes the gate, and lets those inside out, who may be waiting for the interpreter's lock.
extern "C" fn at_exit(_module: Object, _arguments: Object) -> Object {
    gate::close();
    let Some(api) = super::api() else { return ptr::null_mut() };
    // SAFETY: Python calls this with the lock.
    let thread = unsafe { (api.PyEval_SaveThread)() };
    gate::wait_until_empty();
    // SAFETY: the state that gave the lock up.
    unsafe { (api.PyEval_RestoreThread)(thread) };
    // SAFETY: with the lock; an empty format makes `None` and takes no argument.
    unsafe { (api.Py_BuildValue)(c"".as_ptr()) }
}
