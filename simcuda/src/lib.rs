//! A stand-in for `libcuda.so.1` over the simulated device, so that PyTorch runs with no GPU.
//!
//! Loaded before torch, it answers PyTorch's imports from the CUDA runtime, the driver, cuBLAS, cuDNN, cuFFT, cuSOLVER,
//! cuSPARSE, NCCL and NVML: memory, streams, events, captures and devices are simulated exactly ([`sim_device`]);
//! kernels and copies do nothing, so values are meaningless and allocation is real. What would change allocation and is
//! not simulated answers "not supported" and says so once on stderr. `README.md` says how it is assembled, loaded and
//! set up.
//!
//! `unsafe` is in [`abi`] (what C passes), [`copy`], [`zeros`] and [`host`] (host memory), [`address_range`] (the
//! reserved addresses), [`shared_file`] (making one), [`driver`] (looking up a function of this library by name) and
//! [`cudnn`] (calling the real library).

mod abi;
mod address_range;
mod blas;
mod calls;
mod capture;
mod copy;
mod cudnn;
mod describe;
mod device;
mod driver;
mod event;
mod fft;
mod graph;
mod handle;
mod host;
mod kernel;
mod limit;
mod machine;
mod memory;
mod nccl;
mod not_simulated;
mod nvml;
mod pointer;
mod runtime;
mod settings;
mod shared_file;
mod sharing;
mod solver;
mod sparse;
mod stream;
mod timing;
mod visible;
mod zeros;

use not_simulated::not_simulated;
