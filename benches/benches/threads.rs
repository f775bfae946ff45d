//! Two threads, each with a stream of its own: on one device they share a lock, on two they share nothing. One
//! iteration is one allocation and its free; the time is the wall's, over the iterations of all threads.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use benches::{Recording, Subject};
use criterion::{Criterion, criterion_group, criterion_main};
use trace_format::{DeviceId, Stream};

const SIZE_BYTES: u64 = 4 << 20;

/// Wall time of `iterations` pairs, spread over a thread for each of `places`.
fn together(places: &[(&Subject, Stream)], iterations: u64) -> Duration {
    let each = iterations.div_ceil(places.len() as u64);
    let barrier = Barrier::new(places.len() + 1);
    let work = |subject: &Subject, stream| {
        barrier.wait();
        for _ in 0..each {
            subject.free(subject.malloc(SIZE_BYTES, stream));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = places
            .iter()
            .map(|(subject, stream)| scope.spawn(move || work(subject, *stream)))
            .collect();
        barrier.wait();
        let begin = Instant::now();
        for worker in workers {
            worker.join().expect("a worker's result");
        }
        // The work is `each` times the threads, which may be one more than asked for.
        begin.elapsed().mul_f64(iterations as f64 / (each * places.len() as u64) as f64)
    })
}

fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("threads");
    for recording in Recording::ALL {
        let (first, second) =
            (Subject::new(recording, DeviceId(0)), Subject::new(recording, DeviceId(1)));
        let name = |what: &str| format!("{what}/{}", recording.name());
        group.bench_function(name("1thread"), |bencher| {
            bencher.iter_custom(|iterations| together(&[(&first, Stream(1))], iterations));
        });
        group.bench_function(name("2threads_1device"), |bencher| {
            let places = [(&first, Stream(1)), (&first, Stream(2))];
            bencher.iter_custom(|iterations| together(&places, iterations));
        });
        group.bench_function(name("2threads_2devices"), |bencher| {
            let places = [(&first, Stream(1)), (&second, Stream(1))];
            bencher.iter_custom(|iterations| together(&places, iterations));
        });
        // A filter on the command line leaves some of them out.
        for subject in [&first, &second] {
            let segments = subject.heap.lock().expect("no panic").stats().num_device_alloc;
            assert!(segments <= 2, "one segment for each stream, not {segments}");
            subject.expect_idle(segments);
        }
    }
}

criterion_group!(benches, threads);
criterion_main!(benches);
