//! Two threads, each with a stream of its own: on one device they share a lock, on two they share nothing. One
//! iteration is one allocation and its free; the time is the wall's, over the iterations of all threads.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use benches::{Setup, Subject};
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
    for setup in Setup::ALL {
        let subjects = [DeviceId(0), DeviceId(1)].map(|device| setup.subject(device));
        let [first, second] = &subjects;
        let cases = [
            ("1thread", &[(first, Stream(1))][..]),
            ("2threads_1device", &[(first, Stream(1)), (first, Stream(2))]),
            ("2threads_2devices", &[(first, Stream(1)), (second, Stream(1))]),
        ];
        let all = cases.iter().flat_map(|(_, places)| *places);
        all.for_each(|(subject, stream)| subject.free(subject.malloc(SIZE_BYTES, *stream)));
        let calls = subjects.each_ref().map(Subject::device_allocs);
        for (name, places) in cases {
            group.bench_function(format!("{name}/{}", setup.name()), |bencher| {
                bencher.iter_custom(|iterations| together(places, iterations));
            });
        }
        for (subject, calls) in subjects.iter().zip(calls) {
            subject.expect_idle(calls);
        }
    }
}

criterion_group!(benches, threads);
criterion_main!(benches);
