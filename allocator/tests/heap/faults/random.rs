//! Random calls on a device that fails at random.

use sim_device::Fault;

use super::run::{Run, Strategy};
use super::{CALLS, DRIVER, STRATEGIES};
use crate::support::{Rng, seed};

/// One run: a few hundred calls, each device call failing with a probability of its own.
fn run(strategy: Strategy, seed: u64) {
    let mut rng = Rng(seed);
    let mut run = Run::new(strategy);
    for call in CALLS {
        let fault = if rng.below(2) == 0 { DRIVER } else { Fault::OutOfMemory };
        let probability = [0.0, 0.02, 0.2][rng.below(3) as usize];
        run.heap.device_mut().faults_mut().fail_randomly(call, probability, fault);
    }
    for _ in 0..200 {
        let picked = run.live.get(rng.below(run.live.len() as u64 + 1) as usize).copied();
        match rng.below(20) {
            0 => run.flush(),
            1 => run.stream_done([0, 16, 32][rng.below(3) as usize]),
            2 => {
                let expandable_segments = rng.below(2) == 0;
                run.expand(expandable_segments);
            }
            3 => run.begin_capture_unless_open([16, 32]),
            4 => run.end_capture(),
            5 => run.launch(32),
            6 => run.join(32, 16),
            7 => run.share(picked),
            8..=9 => run.give(picked, Some([16, 32, 48][rng.below(3) as usize])),
            10..=12 => run.give(picked, None),
            _ => {
                let stream = [0, 16, 32][rng.below(3) as usize];
                let bytes = rng.bytes();
                run.take(stream, bytes);
            }
        }
    }
    run.wind_up();
}

#[test]
fn a_device_that_fails_at_random_breaks_and_leaks_nothing() {
    let seed = seed("random faults");
    for n in 0..60 {
        println!("run {n}: seed {}", seed.wrapping_add(n));
        for strategy in STRATEGIES {
            run(strategy, seed.wrapping_add(n));
        }
    }
}
