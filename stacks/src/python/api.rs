//! CPython's C API, found by name in the running process: nothing links to it.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::Library;

/// Any Python object, thread state or frame. What is not ours to look into.
pub(super) type Object = *mut c_void;

/// Declares the functions that are needed, and finds them all or none. Those that are `C-unwind` may wait for the
/// interpreter's lock, where CPython may end the thread ([`end`](super::end)).
macro_rules! functions {
    ($($name:ident: $kind:ty,)*) => {
        /// Functions of the process's CPython, by their own names.
        #[derive(Debug)]
        #[allow(non_snake_case)]
        pub(super) struct Api {
            $(pub(super) $name: $kind,)*
            finalizing: Option<unsafe extern "C" fn() -> c_int>,
        }

        impl Api {
            fn load(library: &Library) -> Option<Self> {
                Some(Self {
                    // SAFETY: the function has had this type in all CPythons from 3.9 on.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.ok()?,)*
                    finalizing: [c"Py_IsFinalizing", c"_Py_IsFinalizing"].iter().find_map(|name| {
                        // SAFETY: so named from 3.13 on and before, each with this type.
                        let found = unsafe { library.get(name.to_bytes_with_nul()) };
                        found.ok().map(|found| *found)
                    }),
                })
            }
        }
    };
}

functions! {
    Py_GetVersion: unsafe extern "C" fn() -> *const c_char,
    Py_BuildValue: unsafe extern "C-unwind" fn(*const c_char, ...) -> Object,
    Py_IncRef: unsafe extern "C" fn(Object),
    Py_DecRef: unsafe extern "C-unwind" fn(Object),
    Py_IsInitialized: unsafe extern "C" fn() -> c_int,
    PyCFunction_NewEx: unsafe extern "C-unwind" fn(*mut Method, Object, Object) -> Object,
    PyCode_Addr2Line: unsafe extern "C-unwind" fn(Object, c_int) -> c_int,
    PyDict_GetItemString: unsafe extern "C-unwind" fn(Object, *const c_char) -> Object,
    PyErr_Clear: unsafe extern "C-unwind" fn(),
    PyErr_Fetch: unsafe extern "C-unwind" fn(*mut Object, *mut Object, *mut Object),
    PyErr_Restore: unsafe extern "C-unwind" fn(Object, Object, Object),
    PyEval_RestoreThread: unsafe extern "C-unwind" fn(Object),
    PyEval_SaveThread: unsafe extern "C" fn() -> Object,
    PyFrame_GetBack: unsafe extern "C-unwind" fn(Object) -> Object,
    PyFrame_GetCode: unsafe extern "C-unwind" fn(Object) -> Object,
    PyFrame_GetLineNumber: unsafe extern "C-unwind" fn(Object) -> c_int,
    PyGILState_Ensure: unsafe extern "C-unwind" fn() -> c_int,
    PyGILState_GetThisThreadState: unsafe extern "C" fn() -> Object,
    PyGILState_Release: unsafe extern "C" fn(c_int),
    PyImport_GetModuleDict: unsafe extern "C" fn() -> Object,
    PyImport_ImportModule: unsafe extern "C-unwind" fn(*const c_char) -> Object,
    PyObject_CallMethod: unsafe extern "C-unwind" fn(Object, *const c_char, *const c_char, ...) -> Object,
    PyObject_GetAttrString: unsafe extern "C-unwind" fn(Object, *const c_char) -> Object,
    PyObject_IsTrue: unsafe extern "C-unwind" fn(Object) -> c_int,
    PyThreadState_GetFrame: unsafe extern "C-unwind" fn(Object) -> Object,
    PyUnicode_AsUTF8AndSize: unsafe extern "C-unwind" fn(Object, *mut isize) -> *const c_char,
}

/// `PyMethodDef`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: *const c_char,
    pub(super) function: extern "C" fn(Object, Object) -> Object,
    /// `METH_NOARGS`.
    pub(super) flags: c_int,
    pub(super) doc: *const c_char,
}

impl Api {
    /// The process's CPython, if it is one.
    pub(super) fn find() -> Option<Self> {
        Self::load(&Library::this())
    }

    /// Whether the interpreter began to end, after Python's `atexit`.
    pub(super) fn is_finalizing(&self) -> bool {
        // SAFETY: may be called at any time, by any thread.
        self.finalizing.is_some_and(|function| unsafe { function() } != 0)
    }

    /// Its version, such as `3.13.0`.
    pub(super) fn version(&self) -> String {
        // SAFETY: may be called at any time.
        let version = unsafe { (self.Py_GetVersion)() };
        // SAFETY: a terminated string that is never freed.
        let version = unsafe { CStr::from_ptr(version) }.to_string_lossy();
        // The compiler and the day of the build follow.
        version.split(' ').next().unwrap_or_default().to_owned()
    }
}

/// The address of a variable of the process's CPython.
pub(super) fn variable(name: &CStr) -> Option<*const u64> {
    // SAFETY: the address is only asked for here.
    let symbol = unsafe { Library::this().get::<*const u64>(name.to_bytes_with_nul()) };
    symbol.ok().map(|symbol| *symbol)
}
