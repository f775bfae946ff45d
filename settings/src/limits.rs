//! The values that PyTorch's keys take: how each is read and what is refused.

use alloc::borrow::ToOwned;
use alloc::format;

use super::cursor::ParsePhase;
use super::error::{PyException, Result};
use super::pytorch::Parser;
use super::reserve::SegmentReserve;

const MIB: u64 = 1 << 20;

/// `large_segment_size_mb` has to be larger: PyTorch's `kMinLargeAlloc`.
const MIN_LARGE_MIB: u64 = 10;

/// PyTorch's limit for `pinned_num_register_threads`.
const MAX_REGISTER_THREADS: u64 = 128;

impl Parser<'_> {
    pub(super) fn large_segment_size_value(&mut self, i: usize) -> Result<()> {
        let mib = self.cursor.whole(i)?;
        if mib <= MIN_LARGE_MIB {
            let message = format!(
                "CachingAllocator option large_segment_size_mb must be > {MIN_LARGE_MIB} MB \
                 (got {mib})"
            );
            let advice = format!("write {} or more; 20 is the default", MIN_LARGE_MIB + 1);
            return Err(self.cursor.invalid(i, message, advice));
        }
        self.config.large_segment_size_bytes = bytes(mib);
        Ok(())
    }

    pub(super) fn at_least_a_segment(&mut self, name: &str, i: usize) -> Result<u64> {
        let mib = self.cursor.whole(i)?;
        let least = self.config.large_segment_size_bytes / MIB;
        if mib < least {
            let message =
                format!("CachingAllocator option {name} too small, must be >= {least} (got {mib})");
            let advice = format!("write {least} or more: large_segment_size_mb is the lower limit");
            return Err(self.cursor.invalid(i, message, advice));
        }
        Ok(bytes(mib))
    }

    pub(super) fn garbage_collection_threshold(&mut self, i: usize) -> Result<()> {
        let value = self.cursor.real(i)?;
        if !(value > 0.0 && value < 1.0) {
            let message =
                format!("garbage_collect_threshold is invalid, set it in (0.0, 1.0) (got {value})");
            let advice =
                "write a fraction such as 0.8, or remove the key to turn it off".to_owned();
            return Err(self.cursor.invalid(i, message, advice));
        }
        self.config.garbage_collection_threshold = value;
        Ok(())
    }

    pub(super) fn per_process_memory_fraction(&mut self, i: usize) -> Result<()> {
        let value = self.cursor.real(i)?;
        if !(0.0..=1.0).contains(&value) {
            let message = format!(
                "per_process_memory_fraction is invalid, set it in [0.0, 1.0] (got {value})"
            );
            return Err(self.cursor.invalid(i, message, "write a fraction such as 0.9".to_owned()));
        }
        self.config.per_process_memory_fraction = value;
        Ok(())
    }

    pub(super) fn backend(&mut self, i: usize) -> Result<()> {
        match (self.cursor.token(i)?, self.cursor.phase) {
            ("native", _) => Ok(()),
            ("cudaMallocAsync", ParsePhase::Start(_)) => {
                let message = "backend:cudaMallocAsync has no effect: vramtape is the allocator";
                self.cursor.warn(i, message.to_owned());
                Ok(())
            }
            ("cudaMallocAsync", ParsePhase::Running) => {
                let message = "Allocator backend parsed at runtime != allocator backend parsed at \
                               load time, \
                               cudaMallocAsync != native";
                let advice = "the backend cannot change while it runs: remove the key".to_owned();
                Err(self.cursor.error(i, PyException::RuntimeError, message, advice))
            }
            (other, _) => {
                let message = format!(
                    "Unknown allocator backend, options are native and cudaMallocAsync \
                     (got '{other}')"
                );
                Err(self.cursor.invalid(
                    i,
                    message,
                    "write backend:native, or remove the key".to_owned(),
                ))
            }
        }
    }

    pub(super) fn pinned_num_register_threads(&mut self, i: usize) -> Result<()> {
        let threads = self.cursor.whole(i)?;
        let message = if !threads.is_power_of_two() {
            format!("Number of register threads has to be power of 2, got {threads}")
        } else if threads > MAX_REGISTER_THREADS {
            format!(
                "Number of register threads should be less than or equal to \
                 {MAX_REGISTER_THREADS}, got {threads}"
            )
        } else {
            return Ok(());
        };
        Err(self.cursor.invalid(i, message, "write 1, 2, 4, 8 ... 128".to_owned()))
    }

    /// PyTorch ignores a value that it does not understand, with a warning.
    pub(super) fn segment_reserve(&mut self, i: usize) -> Result<()> {
        let text = self.cursor.token(i)?.to_owned();
        if let Some(reserve) = SegmentReserve::parse(&text) {
            self.config.segment_reserve = reserve;
        } else {
            let message = format!(
                "Ignoring invalid expandable-segment reserve value '{text}' in PYTORCH_CUDA_ALLOC_CONF (expected a \
                 positive, finite fraction like 0.5 or an absolute size like 40G); using default."
            );
            self.cursor.warn(i, message);
        }
        Ok(())
    }

    /// The classes of streams are set by C++ programs; a stream without a class has the reserve of all.
    pub(super) fn reserve_by_class(&mut self, key: usize) -> Result<usize> {
        self.warn_no_effect(key, "expandable_segments_reserve_by_class");
        self.cursor.separator(key + 1, ":")?;
        self.cursor.separator(key + 2, "[")?;
        let mut i = key + 2;
        while self.cursor.token(i + 1)? != "]" {
            self.cursor.separator(i + 2, ":")?;
            self.cursor.token(i + 3)?;
            i += 3;
            if self.cursor.token(i + 1)? == "," {
                i += 1;
            }
        }
        Ok(i + 1)
    }
}

fn bytes(mib: u64) -> u64 {
    mib.min(u64::MAX / MIB) * MIB
}
