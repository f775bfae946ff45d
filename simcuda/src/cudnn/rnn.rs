//! Recurrent layers: their descriptors, the layout of their weights, and passes that are operations on a stream.

use std::ffi::{c_int, c_void};

use super::library::{Descriptor, library};
use super::registry::Registry;
use super::rnn_size::{Cell, Matrix, Sequences, Stack};
use super::{cudnn, dropout, element, operations};
use crate::abi::{Answer, In, Out, Status};
use crate::device;

static STACKS: Registry<Stack> = Registry::new();
static SEQUENCES: Registry<Sequences> = Registry::new();

/// `cudnnRNNBiasMode_t`.
const NO_BIAS: c_int = 0;
const DOUBLE_BIAS: c_int = 2;
/// `cudnnForwardMode_t`.
const TRAINING: c_int = 1;

fn size(value: c_int) -> Answer<usize> {
    usize::try_from(value).ok().filter(|&size| size > 0).ok_or(Status::INVALID_VALUE)
}

/// Fills in the descriptor and the address of a matrix, where there is one.
fn hand_out(
    stack: &Stack,
    found: Option<Matrix>,
    weights: u64,
    descriptor: Descriptor,
    address: Out<u64>,
) -> Answer {
    let Some(Matrix { start, rows, columns }) = found else {
        address.set_if_wanted(0);
        return Ok(());
    };
    address.set_if_wanted(weights + (start * stack.element_bytes) as u64);
    if descriptor.is_null() {
        return Ok(());
    }
    let sizes = [1, rows as c_int, columns as c_int];
    library()?.set_tensor(descriptor, stack.kind, sizes)
}

cudnn! {
    fn cudnnCreateRNNDescriptor(out: Out<u64>) {
        STACKS.create(out)
    }

    fn cudnnDestroyRNNDescriptor(descriptor: u64) {
        STACKS.destroy(descriptor)
    }

    fn cudnnSetRNNDescriptor_v8(
        descriptor: u64, algorithm: c_int, mode: c_int, bias: c_int, direction: c_int,
        _input_mode: c_int, kind: c_int, _math_precision: c_int, _math: c_int, input: c_int,
        hidden: c_int, output: c_int, layers: c_int, dropouts: u64, flags: u32,
    ) {
        let cell = match mode {
            0 | 1 => Cell::Plain,
            2 => Cell::Lstm,
            3 => Cell::Gru,
            _ => return Err(Status::INVALID_VALUE),
        };
        if bias != NO_BIAS && bias != DOUBLE_BIAS {
            return Err(Status::NOT_SUPPORTED);
        }
        STACKS.set(descriptor, Stack {
            cell,
            kind,
            element_bytes: element::size_bytes(kind)?,
            biases: if bias == DOUBLE_BIAS { 2 } else { 0 },
            directions: if direction == 0 { 1 } else { 2 },
            layers: size(layers)?,
            input: size(input)?,
            hidden: size(hidden)?,
            output: size(output)?,
            has_dropout: dropout::is_on(dropouts)?,
            is_padded: flags != 0,
            // cuDNN has no such kernels for bfloat16.
            is_persistent: algorithm != 0 && kind != element::BFLOAT16,
        })
    }

    fn cudnnCreateRNNDataDescriptor(out: Out<u64>) {
        SEQUENCES.create(out)
    }

    fn cudnnDestroyRNNDataDescriptor(descriptor: u64) {
        SEQUENCES.destroy(descriptor)
    }

    fn cudnnSetRNNDataDescriptor(
        descriptor: u64, _kind: c_int, _layout: c_int, times: c_int, batch: c_int,
        _vector: c_int, _lengths: In<c_int>, _padding: *mut c_void,
    ) {
        SEQUENCES.set(descriptor, Sequences { times: size(times)?, batch: size(batch)? })
    }

    fn cudnnGetRNNWeightSpaceSize(_handle: u64, descriptor: u64, out: Out<usize>) {
        out.set(STACKS.get(descriptor)?.weight_bytes())
    }

    fn cudnnGetRNNWeightParams(
        _handle: u64, descriptor: u64, pseudo_layer: c_int, _weight_bytes: usize, weights: u64,
        number: c_int, matrix: Descriptor, matrix_address: Out<u64>, bias: Descriptor,
        bias_address: Out<u64>,
    ) {
        let stack = STACKS.get(descriptor)?;
        let pseudo_layer = usize::try_from(pseudo_layer).map_err(|_| Status::INVALID_VALUE)?;
        let number = usize::try_from(number).map_err(|_| Status::INVALID_VALUE)?;
        let found = stack.matrix(pseudo_layer, number);
        hand_out(&stack, found, weights, matrix, matrix_address)?;
        let found = stack.bias(pseudo_layer, number);
        hand_out(&stack, found, weights, bias, bias_address)
    }

    fn cudnnGetRNNTempSpaceSizes(
        _handle: u64, descriptor: u64, mode: c_int, sequences: u64, workspace: Out<usize>,
        reserve: Out<usize>,
    ) {
        let (stack, sequences) = (STACKS.get(descriptor)?, SEQUENCES.get(sequences)?);
        let major = device::gpu()?.capability.major;
        workspace.set_if_wanted(stack.workspace_bytes(sequences, major));
        let is_kept = mode == TRAINING;
        reserve.set_if_wanted(if is_kept { stack.reserve_bytes(sequences) } else { 0 });
        Ok(())
    }
}

operations! { cudnnRNNForward cudnnRNNBackwardData_v8 cudnnRNNBackwardWeights_v8 }
