//! Helpers for the C ABI: pointers that may be null, status codes, and panics that must not cross it.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use device::DeviceError;
use sim_device::code;

use crate::timing;

/// A `CUresult` other than success. `cudaError_t` has the same numbers for all that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) u32);

impl Status {
    pub(crate) const INVALID_VALUE: Self = Self(code::INVALID_VALUE);
    pub(crate) const OUT_OF_MEMORY: Self = Self(2);
    /// `CUDA_ERROR_NOT_INITIALIZED`, here: the settings are wrong.
    pub(crate) const NOT_INITIALIZED: Self = Self(3);
    pub(crate) const NO_DEVICE: Self = Self(100);
    pub(crate) const INVALID_DEVICE: Self = Self(code::INVALID_DEVICE);
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    pub(crate) const INVALID_HANDLE: Self = Self(code::INVALID_HANDLE);
    pub(crate) const NOT_FOUND: Self = Self(500);
    pub(crate) const NOT_READY: Self = Self(600);
    pub(crate) const ILLEGAL_ADDRESS: Self = Self(700);
    /// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`.
    pub(crate) const PEER_ENABLED: Self = Self(704);
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    pub(crate) const CAPTURE_UNSUPPORTED: Self = Self(code::CAPTURE_UNSUPPORTED);
    pub(crate) const CAPTURE_ISOLATION: Self = Self(code::CAPTURE_ISOLATION);
    /// `CUDA_ERROR_UNKNOWN`, here: a panic was caught.
    pub(crate) const UNKNOWN: Self = Self(999);
}

impl From<DeviceError> for Status {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfMemory { .. } => Self::OUT_OF_MEMORY,
            DeviceError::Driver { code, .. } => Self(code),
            _ => Self::NOT_SUPPORTED,
        }
    }
}

/// The result of an entry point.
pub(crate) type Answer<T = ()> = Result<T, Status>;

/// Runs an entry point's body; a panic becomes [`Status::UNKNOWN`].
pub(crate) fn guarded(body: impl FnOnce() -> Answer) -> Answer {
    let _timer = timing::start();
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Status::UNKNOWN))
}

/// The number that C sees.
pub(crate) fn number(answer: Answer) -> c_int {
    answer.map_or_else(|status| status.0 as c_int, |()| 0)
}

/// The numbers of a library for what can fail here.
#[derive(Clone, Copy)]
pub(crate) struct Codes {
    pub(crate) invalid: c_int,
    pub(crate) failed: c_int,
    pub(crate) internal: c_int,
}

impl Codes {
    /// The number of an entry point's answer.
    pub(crate) fn of(self, body: impl FnOnce() -> Answer) -> c_int {
        match guarded(body) {
            Ok(()) => 0,
            Err(Status::INVALID_VALUE) => self.invalid,
            Err(Status::UNKNOWN) => self.internal,
            Err(_) => self.failed,
        }
    }
}

/// Defines entry points of the library whose numbers are the module's `CODES`. Those of one list of names have the same
/// arguments and the same body.
macro_rules! entry_points {
    (@ $name:ident ($($arg:ident: $type:ty),* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            CODES.of(|| $body)
        }
    };
    ($($($name:ident)* => $args:tt $body:block)*) => {
        $($($crate::abi::entry_points! { @ $name $args $body })*)*
    };
}
pub(crate) use entry_points;

/// Defines computations of such a library: whatever the other arguments, an operation on the stream of the handle that
/// comes first.
macro_rules! operations {
    ($($name:ident)*) => {
        $crate::abi::entry_points! { $($name)* => (handle: u64) { $crate::handle::operation(handle) } }
    };
}
pub(crate) use operations;

/// Defines driver entry points: the body's [`Answer`] becomes the `CUresult`.
macro_rules! driver {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::abi::number($crate::abi::guarded(|| $body))
        }
    )*};
}
pub(crate) use driver;

/// Defines entry points that are one function of this library: the driver's before the bar, the runtime's after it.
/// What C passes behind these arguments has no meaning here.
macro_rules! forward {
    (@ $kind:ident $name:ident $module:ident $target:ident ($($arg:ident: $type:ty),*)) => {
        $kind! { fn $name($($arg: $type),*) { $module::$target($($arg),*) } }
    };
    ($($($driver:ident)* | $($runtime:ident)* => $module:ident::$target:ident $args:tt;)*) => {$(
        $($crate::abi::forward! { @ driver $driver $module $target $args })*
        $($crate::abi::forward! { @ runtime $runtime $module $target $args })*
    )*};
}
pub(crate) use forward;

/// Defines entry points that accept whatever C passes and change nothing here.
macro_rules! accepted {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ::std::ffi::c_int {
            0
        }
    )*};
}
pub(crate) use accepted;

/// A place that the caller wants filled. C promises that it is writable or null.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Refuses null, before anything is made that could not be handed out.
    pub(crate) fn wanted(&self) -> Answer {
        if self.0.is_null() { Err(Status::INVALID_VALUE) } else { Ok(()) }
    }

    /// Fills the place; null is an invalid value.
    pub(crate) fn set(self, value: T) -> Answer {
        self.wanted()?;
        self.set_if_wanted(value);
        Ok(())
    }

    /// Fills the place unless it is null.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: not null, and the entry point's contract says that it is then writable and of this type.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    /// The place of an argument whose type another one says.
    pub(crate) fn at(place: *mut std::ffi::c_void) -> Self {
        Self(place.cast())
    }

    /// No place: nothing is wanted.
    pub(crate) fn unwanted() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The same place for a value of another type; for entry points whose argument says which.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Fills as many of the `room` places from here as there are values.
    pub(crate) fn fill(self, values: &[T], room: usize)
    where
        T: Copy,
    {
        if self.0.is_null() {
            return;
        }
        let count = values.len().min(room);
        // SAFETY: not null, and the contract says that `room` places are writable; `count` values exist.
        unsafe { self.0.copy_from_nonoverlapping(values.as_ptr(), count) };
    }
}

impl Out<u64> {
    /// CUDA's way to hand out a list: `count` says how much room there is and then how many values there are; without
    /// a list only the number is said.
    pub(crate) fn list(self, count: InOut<usize>, values: &[u64]) -> Answer {
        if !self.0.is_null() {
            self.fill(values, count.get()?);
        }
        count.set(values.len())
    }
}

impl Out<c_char> {
    /// Writes a text with its end mark, cut to the room.
    pub(crate) fn text(self, text: &str, room: c_int) -> Answer {
        let room = usize::try_from(room).map_err(|_| Status::INVALID_VALUE)?;
        let room = room.checked_sub(1).ok_or(Status::INVALID_VALUE)?;
        let mut bytes: Vec<c_char> = text.bytes().take(room).map(|byte| byte as c_char).collect();
        bytes.push(0);
        self.fill(&bytes, room + 1);
        Ok(())
    }
}

/// A place that the caller has filled. C promises that it is readable or null.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// The place of an argument whose type another one says.
    pub(crate) fn at(place: *const std::ffi::c_void) -> Self {
        Self(place.cast())
    }

    pub(crate) fn get(&self) -> Answer<T> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, and the entry point's contract says that it is then readable and of this type.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The `count` values from here.
    pub(crate) fn list(&self, count: usize) -> Answer<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, and the contract says that `count` values of this type lie there.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) }.to_vec())
    }
}

/// A place that the caller has filled and wants filled anew. C promises that it is readable and writable, or null.
#[repr(transparent)]
pub(crate) struct InOut<T>(*mut T);

impl<T: Copy> InOut<T> {
    pub(crate) fn get(&self) -> Answer<T> {
        In(self.0.cast_const()).get()
    }

    pub(crate) fn set(self, value: T) -> Answer {
        Out(self.0).set(value)
    }
}

impl In<c_char> {
    /// The text that the caller passed.
    pub(crate) fn text(&self) -> Answer<String> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: not null, and the contract says that it is then a text with an end mark.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Status::INVALID_VALUE)
    }
}
