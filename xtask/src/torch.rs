//! The PyTorch versions this project is tested with, and what each is installed with.

use anyhow::{Result, bail};

/// One supported PyTorch and its companions, pinned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torch {
    /// The version of the `torch` wheel.
    pub(crate) version: &'static str,
    /// The numpy it is used with; torch warns without one.
    pub(crate) numpy: &'static str,
    /// The `nvidia-cuda-crt` wheel with the headers of the same CUDA; only `bench --peers` compiles
    /// against torch and needs it.
    pub(crate) cuda_crt: &'static str,
    /// Oldest Python (3.N) that both wheels exist for.
    pub(crate) python_min: u32,
    /// Newest Python (3.N) that both wheels exist for.
    pub(crate) python_max: u32,
    /// Disk space an installation needs while it runs: the unpacked wheels and the downloads.
    pub(crate) disk_gib: u64,
}

/// The default of `cargo xtask demo`.
pub(crate) const DEFAULT: &str = "2.11.0";

/// Every supported version, the default first.
pub(crate) const ALL: [Torch; 2] = [
    Torch {
        version: DEFAULT,
        numpy: "2.4.6",
        cuda_crt: "13.0.88",
        python_min: 11,
        python_max: 14,
        disk_gib: 8,
    },
    Torch {
        version: "2.15.0",
        numpy: "2.4.6",
        cuda_crt: "13.2.86",
        python_min: 11,
        python_max: 14,
        disk_gib: 9,
    },
];

/// The supported PyTorch with this version.
pub(crate) fn find(version: &str) -> Result<&'static Torch> {
    if let Some(torch) = ALL.iter().find(|torch| torch.version == version) {
        return Ok(torch);
    }
    let known: Vec<_> = ALL.iter().map(|torch| torch.version).collect();
    bail!("torch {version} is not supported; pass one of: {}", known.join(", "))
}
