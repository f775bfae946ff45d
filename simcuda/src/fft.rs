//! cuFFT: plans, whose work areas PyTorch allocates, and transforms that are operations on a stream.
//!
//! cuFFT's documentation has two sizes of a work area: one complex element for each element of all transforms "in some
//! specific cases", and eight "in the worst case". Here, a transform whose sizes have no prime factor above 127 takes
//! one, because cuFFT has kernels for these; another takes those of Bluestein's algorithm, two convolutions of the next
//! power of two above twice the size.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::{Answer, Codes, In, Out, Status, entry_points};
use crate::{machine, stream};

/// `cufftResult`.
const CODES: Codes = Codes { invalid: 4, failed: 6, internal: 5 };
/// The largest prime factor for which cuFFT has kernels.
const FACTOR_MAX: u64 = 127;
const DIMENSIONS_MAX: usize = 3;

/// The stream of each plan.
static PLANS: Mutex<BTreeMap<c_int, u64>> = Mutex::new(BTreeMap::new());

fn plans() -> MutexGuard<'static, BTreeMap<c_int, u64>> {
    PLANS.lock().unwrap_or_else(PoisonError::into_inner)
}

entry_points! {
    cufftCreate => (out: Out<c_int>) {
        let mut plans = plans();
        let plan = plans.last_key_value().map_or(1, |(last, _)| last + 1);
        out.set(plan)?;
        plans.insert(plan, 0);
        Ok(())
    }

    cufftDestroy => (plan: c_int) {
        plans().remove(&plan).map(drop).ok_or(Status::INVALID_VALUE)
    }

    cufftSetAutoAllocation => (plan: c_int, _is_automatic: c_int) {
        stream_of(plan).map(drop)
    }

    cufftSetWorkArea => (plan: c_int, _area: u64) {
        stream_of(plan).map(drop)
    }

    cufftSetStream => (plan: c_int, stream: u64) {
        plans().get_mut(&plan).map(|of| *of = stream).ok_or(Status::INVALID_VALUE)
    }

    cufftXtMakePlanMany => (
        plan: c_int, rank: c_int, sizes: In<i64>, _inembed: u64, _istride: i64, _idist: i64,
        _input: c_int, _onembed: u64, _ostride: i64, _odist: i64, _output: c_int, batch: i64,
        work_bytes: Out<usize>, execution: c_int,
    ) {
        stream_of(plan)?;
        let rank = usize::try_from(rank).map_err(|_| Status::INVALID_VALUE)?;
        if rank == 0 || rank > DIMENSIONS_MAX {
            return Err(Status::INVALID_VALUE);
        }
        let positive = |size: i64| u64::try_from(size).ok().filter(|size| *size > 0);
        let sizes: Option<Vec<u64>> = sizes.list(rank)?.into_iter().map(positive).collect();
        let (sizes, batch) = sizes.zip(positive(batch)).ok_or(Status::INVALID_VALUE)?;
        work_bytes.set(work_elements(&sizes, batch) as usize * complex_bytes(execution)?)
    }

    cufftXtExec => (plan: c_int, _input: u64, _output: u64, _direction: c_int) {
        let stream = stream_of(plan)?;
        if machine::any_capture() { stream::launch(stream) } else { Ok(()) }
    }
}

fn stream_of(plan: c_int) -> Answer<u64> {
    plans().get(&plan).copied().ok_or(Status::INVALID_VALUE)
}

/// The size of a complex number in the precision of a `cudaDataType`.
fn complex_bytes(execution: c_int) -> Answer<usize> {
    match execution {
        2 | 6 | 14 | 15 => Ok(4),
        0 | 4 => Ok(8),
        1 | 5 => Ok(16),
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Complex elements of the work area of `batch` transforms.
fn work_elements(sizes: &[u64], batch: u64) -> u64 {
    let all = sizes.iter().fold(batch, |all, size| all.saturating_mul(*size));
    // Bluestein's algorithm along one dimension, for the rows of the others.
    let of_dimension = |size: u64| match largest_factor(size) {
        0..=FACTOR_MAX => all,
        _ => (all / size).saturating_mul(2 * (2 * size).next_power_of_two()),
    };
    sizes.iter().map(|size| of_dimension(*size)).max().unwrap_or(0)
}

fn largest_factor(mut number: u64) -> u64 {
    let mut largest = 1;
    let mut factor = 2;
    while factor * factor <= number {
        if number.is_multiple_of(factor) {
            number /= factor;
            largest = factor;
        } else {
            factor += 1;
        }
    }
    largest.max(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_large_prime_factors_take_more_than_one_element_each() {
        assert_eq!(work_elements(&[1024], 4), 4096);
        assert_eq!(work_elements(&[127 * 8, 30], 2), 127 * 8 * 30 * 2);
        assert_eq!(work_elements(&[131], 3), 3 * 2 * 512);
        // The documented worst case is eight.
        for size in [131, 1009, 12_289, 1_000_003] {
            assert!((2 * size..=8 * size).contains(&work_elements(&[size], 1)), "{size}");
        }
    }
}
