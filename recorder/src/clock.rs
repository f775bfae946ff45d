//! Time for records: ticks that cost little to read, and what turns them into Unix time later.
//!
//! Unix time here is the wall clock as it stood when the process first looked, and steady from there on: it goes on
//! while the machine is suspended and does not jump when the clock is set.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Ticks and the wall clock, passed in so that a test decides what time it is.
pub trait Clock: Clone + Send + Sync + 'static {
    /// A counter that rises steadily, the same on every core. Read once per record.
    fn ticks(&self) -> u64;

    /// Nanoseconds since the Unix epoch, never less than before. Read only to calibrate.
    fn unix_ns(&self) -> u64;

    /// Both at once.
    fn moment(&self) -> Moment {
        // The thread may be interrupted between the reads; the narrowest of a few brackets was not.
        let bracket = || {
            let before = self.ticks();
            let unix_ns = self.unix_ns();
            let width = self.ticks().wrapping_sub(before);
            (width, Moment { ticks: before.wrapping_add(width / 2), unix_ns })
        };
        let [a, b, c] = [bracket(), bracket(), bracket()];
        [b, c].into_iter().fold(a, |best, next| if next.0 < best.0 { next } else { best }).1
    }

    /// What turns ticks into time, from now on. May sleep a few milliseconds the first time.
    fn calibration(&self) -> Calibration;
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// [`Clock::ticks`].
    pub ticks: u64,
    /// [`Clock::unix_ns`].
    pub unix_ns: u64,
}

/// A straight line from ticks to Unix time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// A moment the line goes through.
    pub start: Moment,
    /// Its slope.
    pub ns_per_tick: f64,
}

/// A slope that differs by more than this from the known one means that the wall clock was set, or that the ticks
/// are another machine's.
const SLOPE_TOLERANCE: f64 = 1e-3;

impl Calibration {
    /// Unix time in nanoseconds at `ticks`.
    pub fn unix_ns(&self, ticks: u64) -> u64 {
        // Differences, so that doubles keep nanoseconds for months.
        let delta_ns = difference(ticks, self.start.ticks) * self.ns_per_tick;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "fractions of a nanosecond are dropped"
        )]
        let delta_ns = delta_ns as i64;
        self.start.unix_ns.saturating_add_signed(delta_ns)
    }

    /// The line through the start and `now`: the longer the base, the better the slope. Unchanged where the slope
    /// cannot be right.
    #[must_use]
    pub fn refined(&self, now: Moment) -> Self {
        let ns = difference(now.unix_ns, self.start.unix_ns);
        let slope = ns / difference(now.ticks, self.start.ticks);
        let is_plausible = (slope / self.ns_per_tick - 1.0).abs() < SLOPE_TOLERANCE;
        if is_plausible { Self { ns_per_tick: slope, ..*self } } else { *self }
    }
}

/// How much later one count is than another.
fn difference(later: u64, earlier: u64) -> f64 {
    later.wrapping_sub(earlier).cast_signed() as f64
}

/// The machine's clock: the time stamp counter where it is steady and Linux itself keeps time by it, else
/// `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    has_steady_tsc: bool,
}

impl SystemClock {
    /// Looks once what this machine has.
    pub fn new() -> Self {
        static STEADY: OnceLock<bool> = OnceLock::new();
        let is_steady = || has_steady_tsc() && is_trusted(Path::new(CLOCK_SOURCE));
        Self { has_steady_tsc: *STEADY.get_or_init(is_steady) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn ticks(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if self.has_steady_tsc {
            // SAFETY: RDTSC exists on every x86-64 processor and touches nothing but its result.
            #[allow(unsafe_code)]
            return unsafe { core::arch::x86_64::_rdtsc() };
        }
        read_ns(ClockId::Monotonic)
    }

    fn unix_ns(&self) -> u64 {
        /// The wall clock when the machine booted, as the process first saw it.
        static BOOT_UNIX_NS: OnceLock<u64> = OnceLock::new();
        let booted = BOOT_UNIX_NS.get_or_init(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos())
                .unwrap_or(u64::MAX)
                .saturating_sub(read_ns(ClockId::Boottime))
        });
        booted + read_ns(ClockId::Boottime)
    }

    fn calibration(&self) -> Calibration {
        static NS_PER_TSC_TICK: OnceLock<f64> = OnceLock::new();
        let ns_per_tick = if self.has_steady_tsc {
            *NS_PER_TSC_TICK.get_or_init(|| {
                let start = self.moment();
                std::thread::sleep(Duration::from_millis(2));
                let end = self.moment();
                (end.unix_ns.wrapping_sub(start.unix_ns) as f64) / (end.ticks - start.ticks) as f64
            })
        } else {
            1.0
        };
        Calibration { start: self.moment(), ns_per_tick }
    }
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let (seconds, ns) = (now.tv_sec.cast_unsigned(), now.tv_nsec.cast_unsigned());
    seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
}

/// Names what Linux keeps time by.
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Whether Linux keeps time by the time stamp counter. It compares it with other clocks and between processors, and
/// takes another source where it finds them apart. Virtual machines whose counter may change its rate have a source of
/// their own.
fn is_trusted(clock_source: &Path) -> bool {
    fs::read_to_string(clock_source).is_ok_and(|name| name.trim_end() == "tsc")
}

/// Whether the time stamp counter runs at one rate in every power state ("invariant TSC").
fn has_steady_tsc() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::__cpuid;
        const POWER_MANAGEMENT: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        let highest = __cpuid(0x8000_0000).eax;
        highest >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[cfg(test)]
pub(super) mod manual {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Calibration, Clock, Moment};

    /// A tick is a nanosecond, and one passes at every look; the rest a test decides.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct ManualClock {
        ticks: Arc<AtomicU64>,
        unix_ns: Arc<AtomicU64>,
    }

    impl ManualClock {
        /// Time passes.
        pub(crate) fn pass(&self, ns: u64) {
            self.ticks.fetch_add(ns, Ordering::Relaxed);
            self.suspend(ns);
        }

        /// Time passes while the machine sleeps and no ticks are counted.
        pub(crate) fn suspend(&self, ns: u64) {
            self.unix_ns.fetch_add(ns, Ordering::Relaxed);
        }

        /// Ticks count from here on, as after a wake-up that began them anew.
        pub(crate) fn set_ticks(&self, ticks: u64) {
            self.ticks.store(ticks, Ordering::Relaxed);
        }
    }

    impl Clock for ManualClock {
        fn ticks(&self) -> u64 {
            self.unix_ns.fetch_add(1, Ordering::Relaxed);
            self.ticks.fetch_add(1, Ordering::Relaxed)
        }

        fn unix_ns(&self) -> u64 {
            self.unix_ns.load(Ordering::Relaxed)
        }

        fn calibration(&self) -> Calibration {
            let (ticks, unix_ns) = (self.ticks.load(Ordering::Relaxed), self.unix_ns());
            Calibration { start: Moment { ticks, unix_ns }, ns_per_tick: 1.0 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Calibration =
        Calibration { start: Moment { ticks: 1_000, unix_ns: 5_000_000_000 }, ns_per_tick: 0.5 };

    #[test]
    fn ticks_before_and_after_the_start_become_times_on_one_line() {
        assert_eq!(LINE.unix_ns(1_000), 5_000_000_000);
        assert_eq!(LINE.unix_ns(3_000), 5_000_001_000);
        assert_eq!(LINE.unix_ns(0), 4_999_999_500);
    }

    #[test]
    fn refining_goes_through_the_new_moment() {
        let now = Moment { ticks: 2_000_001_000, unix_ns: 6_000_100_000 };
        assert_eq!(LINE.refined(now).unix_ns(now.ticks), now.unix_ns);
    }

    #[test]
    fn a_wall_clock_that_was_set_or_stands_still_does_not_bend_the_line() {
        let hour_later = Moment { ticks: 2_000_001_000, unix_ns: 3_600_000_000_000 };
        assert_eq!(LINE.refined(hour_later), LINE);
        let hour_earlier = Moment { ticks: 2_000_001_000, unix_ns: 1 };
        assert_eq!(LINE.refined(hour_earlier), LINE);
        assert_eq!(LINE.refined(LINE.start), LINE, "no time has passed: 0/0");
    }

    #[test]
    fn the_time_stamp_counter_is_trusted_only_where_linux_keeps_time_by_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("current_clocksource");
        assert!(!is_trusted(&file), "no such file");
        for (source, is_ours) in
            [("tsc\n", true), ("kvm-clock\n", false), ("hpet\n", false), ("", false)]
        {
            fs::write(&file, source).unwrap();
            assert_eq!(is_trusted(&file), is_ours, "{source:?}");
        }
    }

    #[test]
    fn without_the_time_stamp_counter_a_tick_is_a_nanosecond() {
        let clock = SystemClock { has_steady_tsc: false };
        keeps_unix_time(clock);
        assert!((clock.calibration().ns_per_tick - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn the_system_clock_keeps_unix_time_across_a_sleep() {
        keeps_unix_time(SystemClock::new());
    }

    fn keeps_unix_time(clock: SystemClock) {
        let line = clock.calibration();
        std::thread::sleep(Duration::from_millis(20));
        let now = clock.moment();
        let error_ns = line.unix_ns(now.ticks).abs_diff(now.unix_ns);
        assert!(error_ns < 20_000_000, "off by {error_ns} ns after 20 ms");
    }
}
