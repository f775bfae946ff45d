//! CPython's C API, found by name in the running process: nothing links to it.

use std::ffi::{CStr, c_char, c_int, c_void};

use libloading::os::unix::Library;

/// Any Python object, thread state or frame. What is not ours to look into.
pub(super) type Object = *mut c_void;

/// Declares the functions that are needed, and finds them all or none.
macro_rules! functions {
    ($($name:ident: $kind:ty,)*) => {
        /// Functions of the process's CPython, by their own names.
        #[derive(Debug)]
        #[allow(non_snake_case)]
        pub(super) struct Api {
            $(pub(super) $name: $kind,)*
        }

        impl Api {
            fn load(library: &Library) -> Option<Self> {
                Some(Self {
                    // SAFETY: the function has had this type in all CPythons from 3.9 on.
                    $($name: *unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }.ok()?,)*
                })
            }
        }
    };
}

functions! {
    Py_GetVersion: unsafe extern "C" fn() -> *const c_char,
    Py_BuildValue: unsafe extern "C" fn(*const c_char, ...) -> Object,
    Py_IncRef: unsafe extern "C" fn(Object),
    Py_DecRef: unsafe extern "C" fn(Object),
    PyCFunction_NewEx: unsafe extern "C" fn(*mut Method, Object, Object) -> Object,
    PyCode_Addr2Line: unsafe extern "C" fn(Object, c_int) -> c_int,
    PyErr_Clear: unsafe extern "C" fn(),
    PyErr_Fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    PyErr_Restore: unsafe extern "C" fn(Object, Object, Object),
    PyEval_RestoreThread: unsafe extern "C" fn(Object),
    PyEval_SaveThread: unsafe extern "C" fn() -> Object,
    PyFrame_GetBack: unsafe extern "C" fn(Object) -> Object,
    PyFrame_GetCode: unsafe extern "C" fn(Object) -> Object,
    PyFrame_GetLineNumber: unsafe extern "C" fn(Object) -> c_int,
    PyGILState_Ensure: unsafe extern "C" fn() -> c_int,
    PyGILState_GetThisThreadState: unsafe extern "C" fn() -> Object,
    PyGILState_Release: unsafe extern "C" fn(c_int),
    PyImport_ImportModule: unsafe extern "C" fn(*const c_char) -> Object,
    PyObject_CallMethod: unsafe extern "C" fn(Object, *const c_char, *const c_char, ...) -> Object,
    PyObject_GetAttrString: unsafe extern "C" fn(Object, *const c_char) -> Object,
    PyThreadState_GetFrame: unsafe extern "C" fn(Object) -> Object,
    PyUnicode_AsUTF8AndSize: unsafe extern "C" fn(Object, *mut isize) -> *const c_char,
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
