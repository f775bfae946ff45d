//! Connectionist temporal classification (`torch.nn.CTCLoss`).
//!
//! cuDNN computes the workspace for a handle only. The formulas are fitted to its answers (9.19.0).

use std::ffi::c_int;

use super::library::{Descriptor, library};
use super::{cudnn, operations};
use crate::abi::{Answer, In, Out, Status};

/// The workspace of a batch: the gradients of the probabilities, two tables of each time and label with blanks between,
/// and the labels, of which `label_bytes` are kept for each.
fn workspace_bytes(sizes: [usize; 3], longest: usize, label_bytes: usize) -> usize {
    let [times, batch, alphabet] = sizes;
    let tables = times * (2 * longest + 1) * 8;
    batch * (times * alphabet * 4 + tables + label_bytes * (longest + 2) - 4)
}

fn answer(probabilities: Descriptor, longest: c_int, host_labels: bool, out: Out<usize>) -> Answer {
    let tensor = library()?.tensor(probabilities)?;
    let [times, batch, alphabet, ..] = tensor.sizes.map(|size| usize::try_from(size).unwrap_or(0));
    let longest = usize::try_from(longest).map_err(|_| Status::INVALID_VALUE)?;
    let label_bytes = if host_labels { 12 } else { 8 };
    out.set(workspace_bytes([times, batch, alphabet], longest, label_bytes))
}

cudnn! {
    fn cudnnGetCTCLossWorkspaceSize(
        _handle: u64, probabilities: Descriptor, _gradients: Descriptor, _labels: In<c_int>,
        label_lengths: In<c_int>, _input_lengths: In<c_int>, _algorithm: c_int, _loss: Descriptor,
        out: Out<usize>,
    ) {
        let [_, batch, ..] = library()?.tensor(probabilities)?.sizes;
        let batch = usize::try_from(batch).map_err(|_| Status::INVALID_VALUE)?;
        let longest = label_lengths.list(batch)?.into_iter().max().unwrap_or(0);
        answer(probabilities, longest, true, out)
    }

    fn cudnnGetCTCLossWorkspaceSize_v8(
        _handle: u64, _algorithm: c_int, loss: Descriptor, probabilities: Descriptor,
        _gradients: Descriptor, out: Out<usize>,
    ) {
        answer(probabilities, library()?.max_label_length(loss)?, false, out)
    }
}

operations! { cudnnCTCLoss cudnnCTCLoss_v8 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_are_cudnns() {
        assert_eq!(workspace_bytes([20, 4, 20], 5, 12), 13_760);
        assert_eq!(workspace_bytes([50, 4, 20], 20, 12), 82_640);
        assert_eq!(workspace_bytes([20, 4, 20], 5, 8), 13_648);
        assert_eq!(workspace_bytes([50, 4, 20], 20, 8), 82_288);
    }
}
