//! The real cuDNN of this process, which PyTorch loads: its functions that need no GPU.

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::abi::{Answer, Status};

/// What a `cudnnBackendDescriptor_t` points to is cuDNN's.
pub(super) type Descriptor = *mut c_void;

type Create = unsafe extern "C" fn(c_int, *mut Descriptor) -> c_int;
type OfDescriptor = unsafe extern "C" fn(Descriptor) -> c_int;
type Set = unsafe extern "C" fn(Descriptor, c_int, c_int, i64, *const c_void) -> c_int;
type Get = unsafe extern "C" fn(Descriptor, c_int, c_int, i64, *mut i64, *mut c_void) -> c_int;
type GetTensor = unsafe extern "C" fn(
    Descriptor,
    c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
    *mut c_int,
) -> c_int;
type GetCtc =
    unsafe extern "C" fn(Descriptor, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
type SetTensor =
    unsafe extern "C" fn(Descriptor, c_int, c_int, *const c_int, *const c_int) -> c_int;

/// The backend interface, and descriptors of the legacy one that this library reads.
#[derive(Clone, Copy)]
pub(super) struct Library {
    create: Create,
    destroy: OfDescriptor,
    finalize: OfDescriptor,
    set: Set,
    get: Get,
    get_tensor: GetTensor,
    set_tensor: SetTensor,
    get_ctc: GetCtc,
}

/// The library. It is loaded before its first call, because PyTorch links it.
pub(super) fn library() -> Answer<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY.get_or_init(load).as_ref().ok_or(Status::NOT_SUPPORTED)
}

fn load() -> Option<Library> {
    let flags = libc::RTLD_NOW | libc::RTLD_NOLOAD;
    // SAFETY: a text with an end mark; nothing is loaded that was not loaded.
    let handle = unsafe { libc::dlopen(c"libcudnn.so.9".as_ptr(), flags) };
    if handle.is_null() {
        return None;
    }
    let symbol = |name: &CStr| {
        // SAFETY: a handle that is never closed, and a text with an end mark.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    };
    macro_rules! function {
        ($name:literal as $type:ty) => {{
            let address = symbol($name)?;
            // SAFETY: cuDNN's function of this name, with the signature of its header.
            unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
        }};
    }
    Some(Library {
        create: function!(c"cudnnBackendCreateDescriptor" as Create),
        destroy: function!(c"cudnnBackendDestroyDescriptor" as OfDescriptor),
        finalize: function!(c"cudnnBackendFinalize" as OfDescriptor),
        set: function!(c"cudnnBackendSetAttribute" as Set),
        get: function!(c"cudnnBackendGetAttribute" as Get),
        get_tensor: function!(c"cudnnGetTensorNdDescriptor" as GetTensor),
        set_tensor: function!(c"cudnnSetTensorNdDescriptor" as SetTensor),
        get_ctc: function!(c"cudnnGetCTCLossDescriptor_v9" as GetCtc),
    })
}

/// The answer of the real library.
fn answer(code: c_int) -> Answer {
    if code == 0 { Ok(()) } else { Err(Status(code as u32)) }
}

/// The most dimensions of a tensor (`CUDNN_DIM_MAX`).
const DIMENSIONS_MAX: usize = 8;

/// A tensor of the legacy interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    /// `cudnnDataType_t`.
    pub(super) kind: c_int,
    pub(super) dimensions: usize,
    pub(super) sizes: [c_int; DIMENSIONS_MAX],
    pub(super) strides: [c_int; DIMENSIONS_MAX],
}

impl Library {
    /// `cudnnBackendCreateDescriptor`.
    pub(super) fn create(&self, kind: c_int) -> Answer<Descriptor> {
        let mut made = std::ptr::null_mut();
        // SAFETY: a place for the descriptor.
        answer(unsafe { (self.create)(kind, &raw mut made) })?;
        Ok(made)
    }

    /// `cudnnBackendDestroyDescriptor`.
    pub(super) fn destroy(&self, descriptor: Descriptor) -> Answer {
        // SAFETY: the caller's own descriptor, as cuDNN's contract says.
        answer(unsafe { (self.destroy)(descriptor) })
    }

    /// `cudnnBackendFinalize`.
    pub(super) fn finalize(&self, descriptor: Descriptor) -> Answer {
        // SAFETY: the caller's own descriptor, as cuDNN's contract says.
        answer(unsafe { (self.finalize)(descriptor) })
    }

    /// `cudnnBackendSetAttribute`.
    pub(super) fn set(
        &self,
        descriptor: Descriptor,
        name: c_int,
        kind: c_int,
        count: i64,
        values: *const c_void,
    ) -> Answer {
        // SAFETY: the caller's own descriptor and as many values as it says, as cuDNN's contract says.
        answer(unsafe { (self.set)(descriptor, name, kind, count, values) })
    }

    /// `cudnnBackendGetAttribute`.
    pub(super) fn get(
        &self,
        descriptor: Descriptor,
        name: c_int,
        kind: c_int,
        room: i64,
        count: *mut i64,
        values: *mut c_void,
    ) -> Answer {
        // SAFETY: the caller's own descriptor and places, as cuDNN's contract says.
        answer(unsafe { (self.get)(descriptor, name, kind, room, count, values) })
    }

    /// `cudnnGetTensorNdDescriptor`.
    pub(super) fn tensor(&self, descriptor: Descriptor) -> Answer<Tensor> {
        let mut found = Tensor {
            kind: 0,
            dimensions: 0,
            sizes: [0; DIMENSIONS_MAX],
            strides: [0; DIMENSIONS_MAX],
        };
        let mut dimensions = 0;
        let (sizes, strides) = (found.sizes.as_mut_ptr(), found.strides.as_mut_ptr());
        let (room, kind) = (DIMENSIONS_MAX as c_int, &raw mut found.kind);
        // SAFETY: the caller's own descriptor, and places for as many dimensions as a tensor has at most.
        answer(unsafe {
            (self.get_tensor)(descriptor, room, kind, &raw mut dimensions, sizes, strides)
        })?;
        found.dimensions = usize::try_from(dimensions).unwrap_or(0).min(DIMENSIONS_MAX);
        Ok(found)
    }

    /// The longest label that a descriptor of CTC allows, from `cudnnGetCTCLossDescriptor_v9`.
    pub(super) fn max_label_length(&self, descriptor: Descriptor) -> Answer<c_int> {
        let (mut kind, mut norm, mut gradient, mut length) = (0, 0, 0, 0);
        // SAFETY: the caller's own descriptor, and four places.
        answer(unsafe {
            (self.get_ctc)(
                descriptor,
                &raw mut kind,
                &raw mut norm,
                &raw mut gradient,
                &raw mut length,
            )
        })?;
        Ok(length)
    }

    /// `cudnnSetTensorNdDescriptor`, for a tensor without gaps.
    pub(super) fn set_tensor(
        &self,
        descriptor: Descriptor,
        kind: c_int,
        sizes: [c_int; 3],
    ) -> Answer {
        let [_, rows, columns] = sizes;
        let strides = [rows * columns, columns, 1];
        // SAFETY: the caller's own descriptor, and three sizes and strides.
        answer(unsafe { (self.set_tensor)(descriptor, kind, 3, sizes.as_ptr(), strides.as_ptr()) })
    }
}
