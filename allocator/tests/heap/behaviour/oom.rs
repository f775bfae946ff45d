//! What a refusal says.

use allocator::config::Config;
use allocator::heap::AllocError;
use allocator::size::MAX_REQUEST_BYTES;

use crate::support::{Calls, MIB, heap};

/// PyTorch 2.11.0 said this after a batch size too many, on a device of 4000 MiB.
const RECORDED: &str = "CUDA out of memory. Tried to allocate 98.00 MiB. GPU 0 has a total \
    capacity of 3.91 GiB of which 18.00 MiB is free. Of the allocated memory 3.84 GiB is \
    allocated by PyTorch, and 49.48 MiB is reserved by PyTorch but unallocated. If reserved but \
    unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to \
    avoid fragmentation.  See documentation for Memory Management  \
    (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";

#[test]
fn a_refusal_says_what_pytorch_says() {
    let mut heap = heap(4000 * MIB, Config::default());
    let segment = heap.take(100 * MIB);
    heap.give(segment);
    heap.take(52_974_080);
    heap.take(3882 * MIB);
    let refusal = heap.try_take(97 * MIB).expect_err("full");
    assert_eq!(refusal.to_string(), RECORDED);
}

#[test]
fn a_refusal_names_the_fraction_and_what_private_pools_cache() {
    let mut heap = heap(1024 * MIB, Config::default());
    heap.set_memory_fraction(0.25).expect("a fraction");
    let pool = trace_format::PoolId(0, 1);
    let everywhere = std::sync::Arc::new(|_| true);
    heap.begin_pool(pool, trace_format::ScopeFilter::Thread, everywhere).expect("a new pool");
    let cached = heap.take(40 * MIB);
    heap.give(cached);
    heap.end_pool(pool).expect("open");
    heap.take(16 * MIB);
    let refusal = heap.try_take(230 * MIB).expect_err("over the fraction").to_string();
    let middle = "256.00 MiB allowed; Of the allocated memory 56.00 MiB is allocated by PyTorch, \
        with 40.00 MiB allocated in private pools (e.g., CUDA Graphs), and 0 bytes is reserved";
    assert!(refusal.contains(middle), "{refusal}");
}

#[test]
fn a_refusal_leaves_the_heap_usable() {
    let mut heap = heap(100 * MIB, Config::default());
    for _ in 0..3 {
        assert!(matches!(heap.try_take(101 * MIB), Err(AllocError::OutOfMemory(_))));
    }
    let addr = heap.take(100 * MIB);
    heap.give(addr);
    heap.flush();
    assert_eq!(heap.device_mut().check_empty(), Ok(()));
    assert_eq!(heap.stats().num_ooms, 3);
}

#[test]
fn an_exbibyte_is_refused_without_a_trace() {
    let mut heap = heap(100 * MIB, Config::default());
    let refusal = heap.try_take(MAX_REQUEST_BYTES).expect_err("too large");
    assert_eq!(refusal.to_string(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
    assert_eq!(heap.stats().num_ooms, 0);
    assert!(heap.recorder_mut().events.is_empty());
}
