//! The system's malloc.

use std::alloc::System;

#[global_allocator]
static ALLOCATOR: System = System;

fn main() {
    peers::main("glibc malloc");
}
