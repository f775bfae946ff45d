//! Any bytes as a file to import: an error or a run, never a panic, never much memory.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::exercise(bytes));
