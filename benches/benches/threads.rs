//! Two threads, each with a stream of its own: on one device they share a lock, on two they share nothing. One
//! operation is one allocation and its free; the time is the wall's, over the operations of all threads.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use benches::{Setup, Subject, Turns, is_bench};
use trace_format::{DeviceId, Stream};

const SIZE_BYTES: u64 = 4 << 20;
/// Pairs of one measurement, by all threads; fewer where cargo only tests the benches.
const PAIRS: u64 = 200_000;
const TESTED_PAIRS: u64 = 1000;

/// The threads of a case, as a device and a stream each.
type Places = &'static [(usize, Stream)];

const CASES: [(&str, Places); 3] = [
    ("one thread", &[(0, Stream(1))]),
    ("two threads, one device", &[(0, Stream(1)), (0, Stream(2))]),
    ("two threads, two devices", &[(0, Stream(1)), (1, Stream(1))]),
];

/// Wall time of so many pairs, spread over a thread for each of `places`.
fn together(subjects: &[Subject; 2], places: Places, pairs: u64) -> Duration {
    let each = pairs / places.len() as u64;
    let barrier = Barrier::new(places.len() + 1);
    let work = &|subject: &Subject, stream| {
        barrier.wait();
        for _ in 0..each {
            subject.free(subject.malloc(SIZE_BYTES, stream));
        }
    };
    std::thread::scope(|scope| {
        let start = |(device, stream): &(usize, _)| {
            let (subject, stream) = (&subjects[*device], *stream);
            scope.spawn(move || work(subject, stream))
        };
        let workers: Vec<_> = places.iter().map(start).collect();
        barrier.wait();
        let begin = Instant::now();
        for worker in workers {
            worker.join().expect("a worker's result");
        }
        begin.elapsed()
    })
}

/// Two devices. The memory of each stream is there: under `stitch` one stream's free memory serves another, so the
/// blocks are live at the same time.
fn subjects(setup: Setup) -> [Subject; 2] {
    let subjects = [DeviceId(0), DeviceId(1)].map(|device| setup.subject(device));
    for subject in &subjects {
        let live = [Stream(1), Stream(2)].map(|stream| subject.malloc(SIZE_BYTES, stream));
        for addr in live {
            subject.free(addr);
        }
    }
    subjects
}

fn main() {
    let pairs = if is_bench() { PAIRS } else { TESTED_PAIRS };
    let setups = Setup::ALL.map(|setup| (setup, subjects(setup)));
    let calls = |subjects: &[Subject; 2]| subjects.each_ref().map(Subject::device_allocs);
    let before = setups.each_ref().map(|(_, subjects)| calls(subjects));
    let names = Setup::ALL.map(Setup::name);
    print!("{:<26}", "ns per pair");
    for name in &names {
        print!("{name:>13}");
    }
    println!("  {} / {} (quartiles)", names[2], names[1]);
    for (name, places) in CASES {
        let turns =
            Turns::measure(&setups, pairs, |(_, subjects)| together(subjects, places, pairs));
        print!("{name:<26}");
        for setup in 0..setups.len() {
            print!("{:>13.1}", turns.median_ns(setup));
        }
        let [low, median, high] = turns.ratio(2, 1);
        println!("  {median:.2} ({low:.2}-{high:.2})");
    }
    for ((_, subjects), before) in setups.iter().zip(before) {
        for (subject, calls) in subjects.iter().zip(before) {
            subject.expect_idle(calls);
        }
    }
}
