//! What a refusal says.

use std::sync::{Arc, Mutex};

use allocator::heap::{AllocError, Heap};
use allocator::size::MAX_REQUEST_BYTES;
use device::ProcessMemory;
use events::Off;
use recorder::{AnyRecorder, TraceEntry, WatchId, Watcher};
use settings::{Compat, Config};
use trace_format::{Event, Stream};

use crate::support::{Calls, MIB, device, heap, request};

/// What PyTorch's trace would have.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<TraceEntry>>>);

impl Watcher for Log {
    fn see(&mut self, entry: &TraceEntry) {
        self.0.lock().unwrap().push(*entry);
    }
}

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
fn a_refusal_names_the_processes_where_they_are_known() {
    let mut heap = heap(100 * MIB, Config::default());
    let AllocError::OutOfMemory(mut report) = heap.try_take(101 * MIB).expect_err("full") else {
        panic!("memory is out")
    };
    assert_eq!(report.processes, [], "a simulated device has no processes");
    assert!(report.to_string().contains("is free. Of the allocated memory"), "{report}");
    report.processes = vec![
        ProcessMemory { pid: 4242, used_bytes: 64 * MIB, is_own: false },
        ProcessMemory { pid: 17, used_bytes: 3 * MIB / 2, is_own: true },
    ];
    let words = "is free. Process 4242 has 64.00 MiB memory in use. Including non-PyTorch memory, this process has \
        1.50 MiB memory in use. Of the allocated memory";
    assert!(report.to_string().contains(words), "{report}");
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
fn a_rejection_ends_the_request_before_anything_is_returned() {
    let text = "per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True";
    let settings = Config::parse(text, Compat::V2_15).expect("2.15 has both").config;
    let mut heap = heap(100 * MIB, settings);
    // The limit in force is another one, and looked at first.
    heap.set_memory_fraction(1.0).expect("a fraction");
    let cached = heap.take(20 * MIB);
    heap.give(cached);
    let refusal = heap.try_take(30 * MIB + 1).expect_err("50 MiB are allowed");
    assert_eq!(
        refusal.to_string(),
        "CUDA out of memory. Allocation was preemptively rejected because it would exceed per_process_memory_fraction \
         limit. Requested size: 30.00 MiB"
    );
    let stats = heap.stats();
    let counts = (stats.num_oom_rejections, stats.num_ooms, stats.num_alloc_retries);
    assert_eq!((counts, stats.reserved_bytes.all.current), ((1, 0, 0), 20 * MIB as i64));
    let last = heap.recorder_mut().events.last().expect("the request").1;
    assert!(
        matches!(last, Event::Oom { size_bytes, .. } if size_bytes == 30 * MIB + 512),
        "{last:?}"
    );
    // Up to the limit there is memory. Beyond the limit in force the cache is emptied before the second attempt, which
    // is the one that is rejected.
    let addr = heap.take(30 * MIB);
    heap.give(addr);
    heap.set_memory_fraction(0.6).expect("a fraction");
    assert!(matches!(heap.try_take(55 * MIB), Err(AllocError::Rejected(_))));
    let stats = heap.stats();
    let counts = (stats.num_oom_rejections, stats.num_ooms, stats.num_alloc_retries);
    assert_eq!((counts, stats.reserved_bytes.all.current), ((2, 0, 1), 0));
}

#[test]
fn watchers_of_pytorchs_trace_get_no_rejection() {
    let mut recorder = AnyRecorder::Off(Off);
    let log = Log::default();
    recorder.watch(WatchId(1), Box::new(log.clone()), std::iter::empty());
    let config = Config {
        per_process_memory_fraction: 0.5,
        throw_on_cudamalloc_oom: true,
        ..Config::default()
    };
    let mut heap = Heap::new(device(100 * MIB), config, recorder).expect("the device answers");
    heap.set_memory_fraction(1.0).expect("a fraction");
    let refused = heap.malloc(&request(51 * MIB, Stream(0)));
    assert!(matches!(refused, Err(AllocError::Rejected(_))), "{refused:?}");
    assert_eq!(*log.0.lock().unwrap(), []);
    heap.set_memory_fraction(0.5).expect("a fraction");
    let refused = heap.malloc(&request(51 * MIB, Stream(0)));
    assert!(matches!(refused, Err(AllocError::OutOfMemory(_))), "{refused:?}");
    assert_eq!(log.0.lock().unwrap().len(), 1);
}

#[test]
fn an_exbibyte_is_refused_without_a_trace() {
    let mut heap = heap(100 * MIB, Config::default());
    let refusal = heap.try_take(MAX_REQUEST_BYTES).expect_err("too large");
    assert_eq!(refusal.to_string(), "CUDA out of memory. Tried to allocate more than 1EB memory.");
    assert_eq!(heap.stats().num_ooms, 0);
    assert!(heap.recorder_mut().events.is_empty());
}
