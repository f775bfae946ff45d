//! Entry points that PyTorch imports and that are not simulated: each returns "not supported" and prints that once.

mod list;

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use crate::abi::guarded;

/// Says once that `what` is not simulated.
pub(crate) fn not_simulated(what: &'static str) {
    static SAID: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(what) {
        eprintln!("simcuda: {what}: not simulated");
    }
}

/// The answer of an entry point that is not simulated; cuDNN's can be avoided, so its sentence says how.
fn refuse(name: &'static str, status: c_int) -> c_int {
    // A panic (no stderr) changes nothing: the answer is the status.
    let _ = guarded(|| {
        not_simulated(name);
        if name.starts_with("cudnn") {
            not_simulated("cuDNN (set torch.backends.cudnn.enabled = False)");
        }
        Ok(())
    });
    status
}

/// The "not supported" of each library.
mod status {
    pub(super) const DRIVER: i32 = 801;
    pub(super) const CUDART: i32 = 801;
    pub(super) const CUBLAS: i32 = 15;
    pub(super) const CUDNN: i32 = 3000;
    pub(super) const CUFFT: i32 = 16;
    pub(super) const CUSOLVER: i32 = 9;
    pub(super) const CUSPARSE: i32 = 10;
}

/// Defines entry points of one library that are not simulated. They take no notice of their arguments.
macro_rules! answers {
    (driver: $($name:ident)*) => { answers!(@ DRIVER: $($name)*); };
    (cudart: $($name:ident)*) => { answers!(@ CUDART: $($name)*); };
    (cublas: $($name:ident)*) => { answers!(@ CUBLAS: $($name)*); };
    (cudnn: $($name:ident)*) => { answers!(@ CUDNN: $($name)*); };
    (cufft: $($name:ident)*) => { answers!(@ CUFFT: $($name)*); };
    (cusolver: $($name:ident)*) => { answers!(@ CUSOLVER: $($name)*); };
    (cusparse: $($name:ident)*) => { answers!(@ CUSPARSE: $($name)*); };
    (@ $status:ident: $($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ::std::ffi::c_int {
            super::refuse(stringify!($name), super::status::$status)
        }
    )*};
}
use answers;
