//! The statistics as another process reads them from the ring.

use allocator::heap::Heap;
use allocator::stats::Stats;
use recorder::{AnyRecorder, RingOptions, RingReader, RingRecorder, SystemClock};
use settings::{Compat, Config};
use sim_device::SimDevice;
use tempfile::TempDir;
use trace_format::{Addr, DeviceId, PoolId, StackId, Stream};

use crate::support::{KIB, MIB, device, request};

type RingHeap = Heap<SimDevice, AnyRecorder>;

/// A heap that records into a ring, and a reader of it.
fn recorded(conf: &str) -> (TempDir, RingHeap, RingReader) {
    let folder = tempfile::tempdir().expect("a folder");
    let (dir, id) = (folder.path().to_owned(), DeviceId(0));
    let options = RingOptions { dir, device: id, slots: 1 << 12, has_pages: false };
    let ring = RingRecorder::new(&options, SystemClock::new()).expect("a ring");
    let reader = RingReader::open(&ring.ring().path().expect("a file")).expect("it is read");
    let config = Config::parse(conf, Compat::V2_15).expect("settings").config;
    let heap = Heap::new(device(64 * MIB), config, AnyRecorder::Ring(ring)).expect("a device");
    (folder, heap, reader)
}

fn take(heap: &mut RingHeap, stream: u64, bytes: u64) -> Addr {
    heap.malloc(&request(bytes, Stream(stream))).expect("memory")
}

/// The copy in the ring.
fn copied(reader: &RingReader) -> Stats {
    Stats::from_values(&reader.statistics().expect("a copy").0)
}

/// The copy, and all that was recorded since.
fn followed(reader: &mut RingReader) -> Stats {
    let (values, next) = reader.statistics().expect("a copy");
    let mut stats = Stats::from_values(&values);
    reader.seek(next);
    assert_eq!(reader.poll(|record| stats.follow(&record.event)), 0);
    stats
}

#[test]
fn a_refusal_is_copied_at_once() {
    for (conf, refused) in
        [("", (1, 0)), ("per_process_memory_fraction:0.5,throw_on_cudamalloc_oom:True", (0, 1))]
    {
        let (_folder, mut heap, reader) = recorded(conf);
        heap.set_memory_fraction(1.0).expect("a fraction");
        for bytes in [1000, 20 * MIB, 500] {
            take(&mut heap, 0, bytes);
        }
        assert_eq!(copied(&reader).allocation.all.current, 1, "less than a second has passed");
        heap.malloc(&request(60 * MIB, Stream(0))).expect_err("too much");
        let stats = copied(&reader);
        assert_eq!((stats.num_ooms, stats.num_oom_rejections), refused);
        assert_eq!(stats.flat(), heap.stats().flat());
    }
}

#[test]
fn records_since_the_copy_lead_to_the_statistics_of_now() {
    for conf in ["", "expandable_segments:True"] {
        let (_folder, mut heap, mut reader) = recorded(conf);
        let first = take(&mut heap, 0, 1000);
        let others = [300, MIB, MIB + 1, 3 * MIB, 12 * MIB].map(|bytes| take(&mut heap, 3, bytes));
        heap.record_stream(others[1], Stream(9)).expect("known");
        for addr in [others[1], others[4], first] {
            heap.free(addr, StackId::NONE).expect("known");
        }
        assert!(followed(&mut reader).active.all.current > heap.stats().allocation.all.current);
        let again = take(&mut heap, 0, 600 * KIB);
        heap.empty_cache(PoolId::DEFAULT, StackId::NONE).expect("the device answers");
        heap.free(again, StackId::NONE).expect("known");
        assert_eq!(copied(&reader).allocation.all.current, 1, "less than a second has passed");

        let (mut found, mut expected) = (followed(&mut reader), heap.stats());
        // Records do not name what no longer is a part of a segment, or was waited for.
        for stats in [&mut found, &mut expected] {
            (stats.inactive_split, stats.inactive_split_bytes) = <_>::default();
            stats.num_sync_all_streams = 0;
        }
        assert_eq!(found.flat(), expected.flat(), "{conf:?}");
        heap.reset_peak_stats();
        heap.reset_accumulated_stats();
        let stats = followed(&mut reader);
        assert_eq!(stats.allocated_bytes, heap.stats().allocated_bytes);
        assert_eq!((stats.num_device_alloc, stats.num_ooms), (0, 0));
    }
}
