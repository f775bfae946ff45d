//! Entry points that PyTorch imports and that are not simulated: each returns "not supported", prints that once, and is
//! counted.

mod list;

use std::collections::BTreeMap;
use std::env;
use std::ffi::{c_char, c_int};
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::abi::{Out, driver, guarded};

/// The calls that are not simulated, by name.
static CALLS: Mutex<BTreeMap<&str, u64>> = Mutex::new(BTreeMap::new());

/// Counts a call of `what`, and prints at the first that it is not simulated.
pub(crate) fn not_simulated(what: &'static str) {
    let mut calls = CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let count = calls.entry(what).or_default();
    *count += 1;
    if *count == 1 {
        eprintln!("simcuda: {what}: not simulated");
        note(what);
    }
}

/// Names a file to which each process of a job adds the calls that are not simulated, a line for each name: at the
/// first call, as a process may end at any time.
const LIST: &str = "VRAMTAPE_SIM_NOT_SIMULATED";

fn note(what: &str) {
    let Some(path) = env::var_os(LIST) else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    // One short write, which those of other processes do not divide.
    if let Err(error) = file.and_then(|mut file| file.write_all(format!("{what}\n").as_bytes())) {
        eprintln!("simcuda: {LIST}: {error}; the list lacks {what}");
    }
}

driver! {
    /// Writes the calls of this process that are not simulated: a line with the count, a space and the name for each
    /// name. The text is cut to `room` bytes.
    fn simcuda_not_simulated(out: Out<c_char>, room: c_int) {
        out.text(&lines(&CALLS.lock().unwrap_or_else(PoisonError::into_inner)), room)
    }
}

fn lines(calls: &BTreeMap<&str, u64>) -> String {
    calls.iter().fold(String::new(), |text, (what, count)| text + &format!("{count} {what}\n"))
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
    /// `ncclInvalidUsage`.
    pub(super) const NCCL: i32 = 5;
}

/// Defines entry points of one library that are not simulated. They take no notice of their arguments.
macro_rules! answers {
    (driver: $($name:ident)*) => { answers!(@ DRIVER: $($name)*); };
    (cudart: $($name:ident)*) => { answers!(@ CUDART: $($name)*); };
    (cublas: $($name:ident)*) => { answers!(@ CUBLAS: $($name)*); };
    (cudnn: $($name:ident)*) => { answers!(@ CUDNN: $($name)*); };
    (nccl: $($name:ident)*) => { answers!(@ NCCL: $($name)*); };
    (@ $status:ident: $($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> ::std::ffi::c_int {
            super::refuse(stringify!($name), super::status::$status)
        }
    )*};
}
use answers;
