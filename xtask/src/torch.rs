//! The PyTorch versions this project is tested with, and what each is installed with.

use anyhow::{Result, bail};

use crate::kit::Kit;

/// One supported PyTorch and its companions, pinned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torch {
    /// The version of the `torch` wheel.
    pub(crate) version: &'static str,
    /// What it is installed with: the numpy without which torch warns, and, for `bench --peers`, which compiles against
    /// torch, the `nvidia-cuda-crt` with the headers of the same CUDA.
    pub(crate) kit: Kit,
}

/// The default of `cargo xtask demo`.
pub(crate) const DEFAULT: &str = "2.11.0";

/// Every supported version, the default first.
pub(crate) static ALL: [Torch; 2] = [
    Torch {
        version: DEFAULT,
        kit: Kit {
            name: "torch-2.11.0",
            pins: &["torch==2.11.0", "numpy==2.4.6"],
            headers: Some("nvidia-cuda-crt==13.0.88"),
            python_min: 11,
            python_max: 14,
            disk_gib: 8,
        },
    },
    Torch {
        version: "2.15.0",
        kit: Kit {
            name: "torch-2.15.0",
            pins: &["torch==2.15.0", "numpy==2.4.6"],
            headers: Some("nvidia-cuda-crt==13.2.86"),
            python_min: 11,
            python_max: 14,
            disk_gib: 9,
        },
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
