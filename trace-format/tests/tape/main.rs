//! Tapes as they are written and read. One program: each would compile the reader and the writer once more.

mod common;
mod crash;
mod files;
mod golden;
mod hostile;
mod round_trip;
mod state;
mod torn;
