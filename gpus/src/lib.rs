//! GPUs by name: memory, compute capability, limits and the overhead of a CUDA context. The data is `gpus.toml`, and a
//! user can bring a file for one more GPU (`docs/gpus.md`).

#![forbid(unsafe_code)]

mod names;
mod read;

use std::sync::LazyLock;

use serde::Deserialize;

pub use names::{find, other_size, suggest};
pub use read::GpuFileError;

/// The memory that the CUDA context and the libraries of a process take, at most. In PyTorch's out-of-memory messages
/// that name all three, the process holds 0.1 to 0.6 GiB more than PyTorch has reserved.
pub const CONTEXT_BYTES: u64 = 640 << 20;

/// A page of the driver.
const PAGE_BYTES: u64 = 2 << 20;

/// A GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// The name for `--gpu`, as `h100`.
    pub name: String,
    /// The name that the driver reports, as `NVIDIA H100 80GB HBM3`.
    pub product: String,
    /// Short names, in lower case without punctuation.
    pub aliases: Vec<String>,
    /// All memory that CUDA reports (`cudaMemGetInfo`).
    pub memory_bytes: u64,
    /// The source of that number.
    pub memory_source: String,
    /// The compute capability and the limits that follow from it.
    pub capability: Capability,
    /// Streaming multiprocessors (SMs).
    pub multiprocessors: u32,
    /// Size of the L2 cache.
    pub l2_bytes: u64,
    /// Boost clock, which CUDA reports as the clock rate.
    pub clock_mhz: u32,
    /// Memory clock as CUDA reports it, two transfers per clock.
    pub memory_clock_mhz: u32,
    /// Width of the memory bus.
    pub memory_bus_bits: u32,
    /// The source of the hardware's figures.
    pub source: String,
    /// Device memory of a CUDA context.
    pub context: Context,
}

/// A compute capability, and the limits of one multiprocessor that follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// 9 of 9.0.
    pub major: u32,
    /// 0 of 9.0.
    pub minor: u32,
    /// Resident threads of a multiprocessor.
    pub max_threads: u32,
    /// Resident blocks of a multiprocessor.
    pub max_blocks: u32,
    /// 32-bit registers of a multiprocessor.
    pub registers: u32,
    /// Shared memory of a multiprocessor.
    pub shared_bytes: u32,
    /// Shared memory of a block that opts in.
    pub shared_per_block_optin_bytes: u32,
    /// Shared memory of each block that the system reserves.
    pub shared_reserved_bytes: u32,
}

/// The device memory that a process holds outside the allocator once its CUDA context exists.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// At least this.
    pub lower_bytes: u64,
    /// The best guess.
    pub expected_bytes: u64,
    /// At most this.
    pub upper_bytes: u64,
    /// The source of the numbers.
    pub source: String,
}

impl Gpu {
    /// The memory that is left for an allocator besides [`CONTEXT_BYTES`], in whole pages of 2 MiB.
    pub const fn usable_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(CONTEXT_BYTES) / PAGE_BYTES * PAGE_BYTES
    }

    /// Whether this is a GPU of so many GB, as its vendor counts them.
    fn has_about(&self, size_gb: u64) -> bool {
        let (nominal, own) = (u128::from(size_gb) << 30, u128::from(self.memory_bytes));
        own <= nominal && 100 * own >= 88 * nominal
    }
}

/// The GPUs of `gpus.toml`, largest first.
pub fn all() -> &'static [Gpu] {
    static ALL: LazyLock<Vec<Gpu>> = LazyLock::new(read::presets);
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_read_and_has_its_sources() {
        assert_eq!(all().len(), 26);
        for gpu in all() {
            assert!(!gpu.source.is_empty() && !gpu.memory_source.is_empty(), "{gpu:?}");
            assert!(gpu.context.source.len() > 20, "{gpu:?}");
        }
        assert!(all().is_sorted_by_key(|gpu| std::cmp::Reverse(gpu.memory_bytes)));
    }

    #[test]
    fn every_preset_has_whole_pages_that_it_can_give() {
        for gpu in all() {
            assert!(gpu.usable_bytes().is_multiple_of(PAGE_BYTES));
            assert!(gpu.usable_bytes() < gpu.memory_bytes - 500 * (1 << 20), "{gpu:?}");
            assert!(
                gpu.context.upper_bytes <= CONTEXT_BYTES,
                "fit's rule covers the preset: {gpu:?}"
            );
        }
        assert_eq!(find("h100").map(|gpu| gpu.usable_bytes() >> 20), Some(80_368));
    }

    /// The bandwidth that clock and bus give, in GB/s, beside the vendor's.
    #[test]
    fn clock_and_bus_give_the_bandwidth_of_the_data_sheet() {
        for (name, published) in [
            ("b200", 7672),
            ("h200", 4917),
            ("h100", 3352),
            ("h100-nvl", 3939),
            ("a100-80gb", 2039),
            ("a100-40gb", 1555),
            ("a30", 933),
            ("rtx-pro-6000", 1792),
            ("rtx5090", 1792),
            ("rtx4090", 1008),
            ("rtx3090", 936),
            ("rtx6000-ada", 960),
            ("l40s", 864),
            ("rtx-a6000", 768),
            ("a40", 696),
            ("a10g", 600),
            ("l4", 300),
            ("rtx-a4000", 448),
            ("t4", 320),
            ("v100-16gb", 898),
        ] {
            let gpu = find(name).unwrap();
            let found = 2 * u64::from(gpu.memory_clock_mhz) * u64::from(gpu.memory_bus_bits) / 8000;
            assert!(found.abs_diff(published) <= 1, "{name}: {found} GB/s, published {published}");
        }
    }

    #[test]
    fn limits_are_those_of_the_compute_capability() {
        let h100 = find("h100").unwrap().capability;
        assert_eq!((h100.major, h100.shared_bytes, h100.max_blocks), (9, 228 << 10, 32));
        for gpu in all() {
            let limits = gpu.capability;
            assert!(limits.shared_per_block_optin_bytes <= limits.shared_bytes, "{gpu:?}");
            assert!(limits.max_threads.is_multiple_of(32) && limits.registers == 65_536, "{gpu:?}");
        }
    }
}
