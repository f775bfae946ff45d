//! Replay: recorded runs through the allocator on the simulated device, on one core.

use benches::Trace;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use replay::driver::Follow;
use replay::run::{Addresses, Options, run};

fn replay(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    for trace in Trace::all() {
        let text = |id| trace.tape.text(id);
        let tape = trace.device(&text);
        let options = Options {
            strategy: trace.config.clone().into(),
            capacity_bytes: Some(trace.capacity_bytes),
            memory_fraction: None,
            addresses: Addresses::Recorded,
            follow: Follow::default(),
        };
        let replay = || run(tape, &options, &mut |_| {}).expect("a consistent recording");
        let report = replay();
        assert_eq!(report.peak_reserved_bytes, trace.peak_reserved_bytes, "{}", trace.name);
        group.throughput(Throughput::Elements(report.events));
        group.bench_function(&trace.name, |bencher| bencher.iter(replay));
    }
}

criterion_group!(benches, replay);
criterion_main!(benches);
