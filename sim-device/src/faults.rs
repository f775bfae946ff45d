//! Failures on demand.

use super::refuse;
use device::{DeviceCall, DeviceError, Result};

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// [`DeviceError::OutOfMemory`].
    OutOfMemory,
    /// [`DeviceError::Driver`] with this code.
    Driver(u32),
}

#[derive(Clone, Copy, Debug)]
enum When {
    /// After this many more calls have passed.
    AfterCalls(u64),
    /// With this probability each time.
    Randomly(f64),
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    call: DeviceCall,
    when: When,
    fault: Fault,
}

/// Which calls fail. The failing call has no effect on the device.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    random: u64,
}

impl Faults {
    /// No faults; random ones that are added follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), random: seed }
    }

    /// Lets the `nth` next `call` fail, once; 1 is the very next.
    pub fn fail_nth(&mut self, call: DeviceCall, nth: u64, fault: Fault) -> &mut Self {
        let when = When::AfterCalls(nth.saturating_sub(1));
        self.rules.push(Rule { call, when, fault });
        self
    }

    /// Lets every `call` fail with `probability` (0 to 1).
    pub fn fail_randomly(&mut self, call: DeviceCall, probability: f64, fault: Fault) -> &mut Self {
        self.rules.push(Rule { call, when: When::Randomly(probability), fault });
        self
    }

    /// Forgets every rule.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Fails when a rule for this call says so. Every rule sees every call, also when an earlier one fires.
    pub(super) fn check(&mut self, call: DeviceCall, size_bytes: u64) -> Result<()> {
        let mut fired = None;
        let random = &mut self.random;
        self.rules.retain_mut(|rule| {
            if rule.call != call {
                return true;
            }
            let (fires, keep) = match &mut rule.when {
                When::AfterCalls(0) => (true, false),
                When::AfterCalls(left) => {
                    *left -= 1;
                    (false, true)
                }
                When::Randomly(probability) => (next_unit(random) < *probability, true),
            };
            if fires {
                fired = fired.or(Some(rule.fault));
            }
            keep
        });
        match fired {
            None => Ok(()),
            Some(Fault::OutOfMemory) => Err(DeviceError::OutOfMemory { call, size_bytes }),
            Some(Fault::Driver(code)) => Err(refuse(call, code, "injected fault")),
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014), as a number in 0..1.
pub(super) fn next_unit(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(faults: &mut Faults, call: DeviceCall, calls: usize) -> Vec<bool> {
        (0..calls).map(|_| faults.check(call, 1).is_err()).collect()
    }

    #[test]
    fn the_nth_call_fails_once() {
        let mut faults = Faults::new(0);
        faults.fail_nth(DeviceCall::Map, 3, Fault::Driver(999));
        assert_eq!(fails(&mut faults, DeviceCall::Malloc, 3), [false; 3]);
        assert_eq!(fails(&mut faults, DeviceCall::Map, 5), [false, false, true, false, false]);
    }

    #[test]
    fn random_faults_follow_the_seed_and_the_probability() {
        let run = |seed| {
            let mut faults = Faults::new(seed);
            faults.fail_randomly(DeviceCall::Malloc, 0.25, Fault::OutOfMemory);
            fails(&mut faults, DeviceCall::Malloc, 10_000)
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let failed = run(7).into_iter().filter(|&failed| failed).count();
        assert!((2_300..2_700).contains(&failed), "{failed} of 10000 failed, a quarter expected");
    }
}
