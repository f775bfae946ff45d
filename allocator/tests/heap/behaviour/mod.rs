//! One behaviour a test, each named by the sentence that it protects.

mod best_fit;
mod capture;
mod checkpoint;
mod expandable;
mod garbage;
mod misuse;
mod oom;
mod pools;
pub(crate) mod restore;
mod retry;
mod share;
mod statistics;
mod streams;
