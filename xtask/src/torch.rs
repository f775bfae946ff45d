//! The PyTorch versions this project is tested with, and what each is installed with.

use anyhow::{Result, bail};

use crate::requirements::Requirements;

/// One supported PyTorch and its companions, pinned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Torch {
    /// The version of the `torch` wheel.
    pub(crate) version: &'static str,
    /// The packages beside it: the numpy without which torch warns, and, for code that is compiled against torch, the
    /// wheel that completes the headers of its CUDA.
    pub(crate) requirements: Requirements,
    /// Whether the programs of `bench --peers` compile against it.
    pub(crate) has_peers: bool,
}

/// The default of `cargo xtask demo`.
pub(crate) const DEFAULT: &str = "2.11.0";

/// Every supported version, the default first.
pub(crate) static ALL: [Torch; 3] = [
    Torch {
        version: DEFAULT,
        requirements: Requirements {
            name: "torch-2.11.0",
            pins: &["torch==2.11.0", "numpy==2.4.6"],
            on: None,
            headers: Some("nvidia-cuda-crt==13.0.88"),
            python_min: 11,
            python_max: 14,
            disk_gib: 8,
        },
        has_peers: true,
    },
    Torch {
        version: "2.15.0",
        requirements: Requirements {
            name: "torch-2.15.0",
            pins: &["torch==2.15.0", "numpy==2.4.6"],
            on: None,
            headers: Some("nvidia-cuda-crt==13.2.86"),
            python_min: 11,
            python_max: 14,
            disk_gib: 9,
        },
        has_peers: true,
    },
    // The oldest, and the one with CUDA 12.
    Torch {
        version: "2.7.1",
        requirements: Requirements {
            name: "torch-2.7.1",
            pins: &["torch==2.7.1", "numpy==2.4.6"],
            on: None,
            headers: Some("nvidia-cuda-nvcc-cu12==12.6.85"),
            python_min: 11,
            python_max: 13,
            disk_gib: 9,
        },
        has_peers: false,
    },
];

/// For third-party training scripts, on the default PyTorch.
pub(crate) static TRAINING: Requirements = Requirements {
    name: "training",
    pins: &[
        "torchvision==0.26.0",
        "transformers==5.23.0",
        "diffusers==0.42.1",
        "accelerate==1.15.0",
        "lightning==2.6.6",
        "trl==1.16.0",
        "peft==0.21.2",
        "open_clip_torch==3.3.0",
        "webdataset==1.0.2",
        "braceexpand==0.1.7",
    ],
    on: Some(&ALL[0].requirements),
    headers: None,
    python_min: 11,
    python_max: 14,
    disk_gib: 2,
};

/// For dry runs of DeepSpeed, in the version of published figures. transformers and accelerate behave otherwise where
/// it is installed, and it asks for the version of nvcc.
pub(crate) static DEEPSPEED: Requirements = Requirements {
    name: "deepspeed",
    pins: &["transformers==5.23.0", "deepspeed==0.15.3", "nvidia-cuda-nvcc==13.0.88"],
    on: Some(&ALL[0].requirements),
    headers: None,
    python_min: 11,
    python_max: 14,
    disk_gib: 1,
};

/// For the pytest plugin and dry-run, on the default PyTorch.
pub(crate) static CI: Requirements = Requirements {
    name: "ci",
    pins: &["jsonschema==4.26.0", "pytest==9.2.0", "pytest-xdist==3.8.0"],
    on: Some(&ALL[0].requirements),
    headers: None,
    python_min: 11,
    python_max: 14,
    disk_gib: 1,
};

/// The supported PyTorch with this version.
pub(crate) fn find(version: &str) -> Result<&'static Torch> {
    if let Some(torch) = ALL.iter().find(|torch| torch.version == version) {
        return Ok(torch);
    }
    let known: Vec<_> = ALL.iter().map(|torch| torch.version).collect();
    bail!("torch {version} is not supported; pass one of: {}", known.join(", "))
}
