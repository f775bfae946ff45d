//! The heap from outside: against a naive reference, under faults, under threads, and behaviour by behaviour.

mod behaviour;
mod faults;
mod model;
mod observe;
mod rebuilt;
mod stitch;
mod storm;
mod support;
