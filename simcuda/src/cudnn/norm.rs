//! Batch normalisation: the workspaces of the kernels for channels that come last; all others need none.
//!
//! cuDNN computes these sizes for a handle only. The formulas are fitted to its answers (9.5.1, 9.19.0 and 9.26.0:
//! equal for 4,476 shapes each, and the same for every GPU).

use std::ffi::{c_int, c_void};

use super::element;
use super::library::{Descriptor, Tensor, library};
use super::{cudnn, operations};
use crate::abi::{Answer, Out, Status};

/// `cudnnBatchNormMode_t`.
const SPATIAL_PERSISTENT: c_int = 2;
/// `cudnnBatchNormOps_t`: normalisation alone, without an activation or an addition.
const NORM_ALONE: c_int = 0;

/// A pass over the channels, in blocks of channels and pixels.
#[derive(Clone, Copy, Debug)]
enum Pass {
    Forward,
    Backward,
}

/// The workspace of a pass over `pixels` of each of `channels`.
fn workspace_bytes(pass: Pass, element_bytes: usize, channels: usize, pixels: usize) -> usize {
    let (width, rows) = match channels {
        _ if channels.is_multiple_of(4) => (64, 1),
        1..4 => (4, 4),
        _ => (16, 1),
    };
    let (start, rows, counter) = match (pass, element_bytes) {
        (Pass::Forward, 2) => (1072, 160 * rows, 4),
        (Pass::Forward, _) => (1072, 64 * rows, 4),
        (Pass::Backward, _) => (1056, 96 * rows, 0),
    };
    // Two sums for each channel of a block.
    let block = counter + 8 * width;
    start + channels.div_ceil(width) * (4 + block * pixels.div_ceil(rows))
}

/// Batch, channels and pixels of a tensor, and whether its channels come last.
fn shape(tensor: &Tensor) -> Option<(usize, usize, bool)> {
    let sizes: Vec<usize> = tensor
        .sizes
        .iter()
        .take(tensor.dimensions)
        .map(|&size| usize::try_from(size).ok())
        .collect::<Option<_>>()?;
    let channels = *sizes.get(1)?;
    let pixels = sizes.iter().product::<usize>() / channels.max(1);
    let is_last = tensor.dimensions > 2 && tensor.strides.get(1) == Some(&1) && channels > 1;
    Some((channels, pixels, is_last))
}

/// Fills in the workspace of a pass.
fn answer(pass: Pass, mode: c_int, operations: c_int, x: Descriptor, out: Out<usize>) -> Answer {
    if operations != NORM_ALONE {
        return Err(Status::NOT_SUPPORTED);
    }
    let tensor = library()?.tensor(x)?;
    let (channels, pixels, is_last) = shape(&tensor).ok_or(Status::INVALID_VALUE)?;
    if mode != SPATIAL_PERSISTENT || !is_last {
        return out.set(0);
    }
    out.set(workspace_bytes(pass, element::size_bytes(tensor.kind)?, channels, pixels))
}

cudnn! {
    fn cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
        _handle: u64, mode: c_int, operations: c_int, x: Descriptor, _z: Descriptor, _y: Descriptor,
        _scale: Descriptor, _activation: Descriptor, out: Out<usize>,
    ) {
        answer(Pass::Forward, mode, operations, x, out)
    }

    fn cudnnGetBatchNormalizationBackwardExWorkspaceSize(
        _handle: u64, mode: c_int, operations: c_int, x: Descriptor, _y: Descriptor,
        _dy: Descriptor, _dz: Descriptor, _dx: Descriptor, _scale: Descriptor,
        _activation: *mut c_void, out: Out<usize>,
    ) {
        answer(Pass::Backward, mode, operations, x, out)
    }

    /// Only a fused activation keeps anything for the backward pass.
    fn cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
        _handle: u64, _mode: c_int, operations: c_int, _activation: Descriptor, _x: Descriptor,
        out: Out<usize>,
    ) {
        if operations == NORM_ALONE { out.set(0) } else { Err(Status::NOT_SUPPORTED) }
    }
}

operations! {
    cudnnBatchNormalizationForwardInference cudnnBatchNormalizationForwardTrainingEx
    cudnnBatchNormalizationBackwardEx
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of cuDNN 9.19.0: element size, channels, pixels, forward and backward.
    const ANSWERS: [(usize, usize, usize, usize, usize); 9] = [
        (2, 64, 4096, 14_492, 23_076),
        (4, 64, 4096, 34_100, 23_076),
        (2, 64, 131_072, 424_196, 700_452),
        (2, 2048, 4096, 430_512, 705_696),
        (2, 256, 49, 3_152, 3_120),
        (2, 3, 4096, 1_328, 1_412),
        (4, 3, 4096, 1_652, 1_412),
        (2, 5, 8192, 7_940, 12_068),
        (4, 7, 4096, 9_524, 6_564),
    ];

    #[test]
    fn workspaces_are_cudnns() {
        for (element_bytes, channels, pixels, forward, backward) in ANSWERS {
            let bytes = |pass| workspace_bytes(pass, element_bytes, channels, pixels);
            assert_eq!(bytes(Pass::Forward), forward, "{element_bytes} {channels} {pixels}");
            assert_eq!(bytes(Pass::Backward), backward, "{element_bytes} {channels} {pixels}");
        }
    }
}
