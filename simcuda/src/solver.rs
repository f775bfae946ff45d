//! cuSOLVER: factorisations and eigenvalues are operations on the handle's stream, and their workspaces are formulas.
//!
//! cuSOLVER does not publish the sizes of its workspaces. They follow those of LAPACK, whose interface it has: blocked
//! factorisations take a panel of [`BLOCK`] columns, eigenvalues by divide and conquer what `xSYEVD` asks for, and
//! one-sided Jacobi a copy of the matrix. An operation succeeds: it writes nothing, and PyTorch has set the `info` of
//! each matrix to 0 before.

use std::ffi::{c_int, c_void};

use crate::abi::{Answer, Codes, Out, Status, accepted, entry_points, operations};
use crate::{handle, machine};

/// `cusolverStatus_t`.
const CODES: Codes = Codes { invalid: 3, failed: 6, internal: 7 };
/// Columns of a panel.
const BLOCK: i64 = 64;
/// `CUSOLVER_EIG_MODE_VECTOR`.
const VECTORS: c_int = 1;
/// `CUBLAS_SIDE_LEFT`.
const LEFT: c_int = 0;

type Pointer = *const c_void;

entry_points! {
    cusolverDnCreate cusolverDnCreateParams cusolverDnCreateGesvdjInfo cusolverDnCreateSyevjInfo
    => (out: Out<u64>) {
        out.set(machine::new_handle())
    }

    cusolverDnDestroy => (handle: u64) {
        handle::destroy(handle);
        Ok(())
    }

    cusolverDnSetStream => (handle: u64, stream: u64) {
        handle::set_stream(handle, stream);
        Ok(())
    }

    cusolverDnSpotrf_bufferSize cusolverDnDpotrf_bufferSize cusolverDnCpotrf_bufferSize
    cusolverDnZpotrf_bufferSize
    => (_handle: u64, _uplo: c_int, n: c_int, _a: Pointer, _lda: c_int, out: Out<c_int>) {
        elements(out, &[BLOCK, n.into()])
    }

    cusolverDnSgetrf_bufferSize cusolverDnDgetrf_bufferSize cusolverDnCgetrf_bufferSize
    cusolverDnZgetrf_bufferSize cusolverDnSgeqrf_bufferSize cusolverDnDgeqrf_bufferSize
    cusolverDnCgeqrf_bufferSize cusolverDnZgeqrf_bufferSize
    => (_handle: u64, _m: c_int, n: c_int, _a: Pointer, _lda: c_int, out: Out<c_int>) {
        elements(out, &[BLOCK, n.into()])
    }

    cusolverDnSorgqr_bufferSize cusolverDnDorgqr_bufferSize cusolverDnCungqr_bufferSize
    cusolverDnZungqr_bufferSize
    => (
        _handle: u64, _m: c_int, n: c_int, _k: c_int, _a: Pointer, _lda: c_int, _tau: Pointer,
        out: Out<c_int>,
    ) {
        elements(out, &[BLOCK, n.into()])
    }

    cusolverDnSormqr_bufferSize cusolverDnDormqr_bufferSize cusolverDnCunmqr_bufferSize
    cusolverDnZunmqr_bufferSize
    => (
        _handle: u64, side: c_int, _trans: c_int, m: c_int, n: c_int, _k: c_int, _a: Pointer,
        _lda: c_int, _tau: Pointer, _c: Pointer, _ldc: c_int, out: Out<c_int>,
    ) {
        elements(out, &[BLOCK, if side == LEFT { n } else { m }.into()])
    }

    cusolverDnSsytrf_bufferSize cusolverDnDsytrf_bufferSize cusolverDnCsytrf_bufferSize
    cusolverDnZsytrf_bufferSize
    => (_handle: u64, n: c_int, _a: Pointer, _lda: c_int, out: Out<c_int>) {
        elements(out, &[BLOCK, n.into()])
    }

    cusolverDnSgesvd_bufferSize cusolverDnDgesvd_bufferSize cusolverDnCgesvd_bufferSize
    cusolverDnZgesvd_bufferSize
    => (_handle: u64, m: c_int, n: c_int, out: Out<c_int>) {
        let (m, n) = (i64::from(m), i64::from(n));
        elements(out, &[1, n * n + BLOCK * (m + n)])
    }

    cusolverDnSgesvdj_bufferSize cusolverDnDgesvdj_bufferSize cusolverDnCgesvdj_bufferSize
    cusolverDnZgesvdj_bufferSize
    => (
        _handle: u64, _jobz: c_int, _econ: c_int, m: c_int, n: c_int, _a: Pointer, _lda: c_int,
        _s: Pointer, _u: Pointer, _ldu: c_int, _v: Pointer, _ldv: c_int, out: Out<c_int>,
    ) {
        elements(out, &[i64::from(m) + i64::from(n), n.into()])
    }

    // For matrices of at most 32 rows and columns, which a block of threads holds.
    cusolverDnSgesvdjBatched_bufferSize cusolverDnDgesvdjBatched_bufferSize
    cusolverDnCgesvdjBatched_bufferSize cusolverDnZgesvdjBatched_bufferSize
    => (
        _handle: u64, _jobz: c_int, m: c_int, n: c_int, _a: Pointer, _lda: c_int, _s: Pointer,
        _u: Pointer, _ldu: c_int, _v: Pointer, _ldv: c_int, out: Out<c_int>, _info: u64, batch: c_int,
    ) {
        elements(out, &[batch.into(), i64::from(m) + i64::from(n)])
    }

    cusolverDnSgesvdaStridedBatched_bufferSize cusolverDnDgesvdaStridedBatched_bufferSize
    cusolverDnCgesvdaStridedBatched_bufferSize cusolverDnZgesvdaStridedBatched_bufferSize
    => (
        _handle: u64, _jobz: c_int, _rank: c_int, m: c_int, n: c_int, _a: Pointer, _lda: c_int,
        _stride_a: i64, _s: Pointer, _stride_s: i64, _u: Pointer, _ldu: c_int, _stride_u: i64,
        _v: Pointer, _ldv: c_int, _stride_v: i64, out: Out<c_int>, batch: c_int,
    ) {
        elements(out, &[batch.into(), (i64::from(m) + i64::from(n)) * i64::from(n)])
    }

    cusolverDnSsyevd_bufferSize cusolverDnDsyevd_bufferSize cusolverDnCheevd_bufferSize
    cusolverDnZheevd_bufferSize
    => (
        _handle: u64, jobz: c_int, _uplo: c_int, n: c_int, _a: Pointer, _lda: c_int, _w: Pointer,
        out: Out<c_int>,
    ) {
        elements(out, &[1, divide_and_conquer(jobz, n.into())])
    }

    cusolverDnSsyevj_bufferSize cusolverDnDsyevj_bufferSize cusolverDnCheevj_bufferSize
    cusolverDnZheevj_bufferSize
    => (
        _handle: u64, _jobz: c_int, _uplo: c_int, n: c_int, _a: Pointer, _lda: c_int, _w: Pointer,
        out: Out<c_int>,
    ) {
        elements(out, &[2, n.into(), n.into()])
    }

    cusolverDnSsyevjBatched_bufferSize cusolverDnDsyevjBatched_bufferSize
    cusolverDnCheevjBatched_bufferSize cusolverDnZheevjBatched_bufferSize
    => (
        _handle: u64, _jobz: c_int, _uplo: c_int, n: c_int, _a: Pointer, _lda: c_int, _w: Pointer,
        out: Out<c_int>, _info: u64, batch: c_int,
    ) {
        elements(out, &[batch.into(), n.into()])
    }

    cusolverDnXpotrf_bufferSize => (
        _handle: u64, _params: u64, _uplo: c_int, n: i64, _type: c_int, _a: Pointer, _lda: i64,
        compute: c_int, device: Out<usize>, host: Out<usize>,
    ) {
        bytes(device, host, compute, &[BLOCK, n])
    }

    cusolverDnXgeqrf_bufferSize => (
        _handle: u64, _params: u64, _m: i64, n: i64, _type: c_int, _a: Pointer, _lda: i64,
        _type_tau: c_int, _tau: Pointer, compute: c_int, device: Out<usize>, host: Out<usize>,
    ) {
        bytes(device, host, compute, &[BLOCK, n])
    }

    cusolverDnXsyevd_bufferSize => (
        _handle: u64, _params: u64, jobz: c_int, _uplo: c_int, n: i64, _type: c_int, _a: Pointer,
        _lda: i64, _type_w: c_int, _w: Pointer, compute: c_int, device: Out<usize>, host: Out<usize>,
    ) {
        bytes(device, host, compute, &[1, divide_and_conquer(jobz, n)])
    }

    cusolverDnXsyevBatched_bufferSize => (
        _handle: u64, _params: u64, jobz: c_int, _uplo: c_int, n: i64, _type: c_int, _a: Pointer,
        _lda: i64, _type_w: c_int, _w: Pointer, compute: c_int, device: Out<usize>, host: Out<usize>,
        batch: i64,
    ) {
        bytes(device, host, compute, &[batch, divide_and_conquer(jobz, n)])
    }

    // `xGEEV` on the device, with the vectors of both sides.
    cusolverDnXgeev_bufferSize => (
        _handle: u64, _params: u64, _left: c_int, _right: c_int, n: i64, _type: c_int, _a: Pointer,
        _lda: i64, _type_w: c_int, _w: Pointer, _type_vl: c_int, _vl: Pointer, _ldvl: i64,
        _type_vr: c_int, _vr: Pointer, _ldvr: i64, compute: c_int, device: Out<usize>,
        host: Out<usize>,
    ) {
        bytes(device, host, compute, &[n + BLOCK, n])
    }

    cusolverDnXsytrs_bufferSize => (
        _handle: u64, _uplo: c_int, n: i64, right: i64, kind: c_int, _a: Pointer, _lda: i64,
        _pivots: Pointer, _type_b: c_int, _b: Pointer, _ldb: i64, device: Out<usize>,
        host: Out<usize>,
    ) {
        bytes(device, host, kind, &[n, right])
    }
}

/// Elements of `xSYEVD`.
fn divide_and_conquer(jobz: c_int, n: i64) -> i64 {
    if jobz == VECTORS { 1 + 6 * n + 2 * n * n } else { 1 + 2 * n }
}

/// Fills in a number of elements.
fn elements(out: Out<c_int>, factors: &[i64]) -> Answer {
    out.set(c_int::try_from(product(factors)?).map_err(|_| Status::INVALID_VALUE)?)
}

/// Fills in the bytes of elements of a `cudaDataType` on the device; none are needed on the host.
fn bytes(device: Out<usize>, host: Out<usize>, kind: c_int, factors: &[i64]) -> Answer {
    let element = match kind {
        0 => 4,
        1 | 4 => 8,
        5 => 16,
        _ => return Err(Status::INVALID_VALUE),
    };
    device.set(product(factors)? as usize * element)?;
    host.set(0)
}

fn product(factors: &[i64]) -> Answer<i64> {
    let all = factors.iter().try_fold(1i64, |all, factor| all.checked_mul(*factor));
    all.filter(|all| *all >= 0).ok_or(Status::INVALID_VALUE)
}

accepted! {
    cusolverDnDestroyParams cusolverDnDestroyGesvdjInfo cusolverDnDestroySyevjInfo
    cusolverDnXgesvdjSetMaxSweeps cusolverDnXgesvdjSetSortEig cusolverDnXgesvdjSetTolerance
    cusolverDnXsyevjSetSortEig
}

operations! {
    cusolverDnSpotrf cusolverDnDpotrf cusolverDnCpotrf cusolverDnZpotrf
    cusolverDnSpotrs cusolverDnDpotrs cusolverDnCpotrs cusolverDnZpotrs
    cusolverDnSpotrfBatched cusolverDnDpotrfBatched cusolverDnCpotrfBatched cusolverDnZpotrfBatched
    cusolverDnSpotrsBatched cusolverDnDpotrsBatched cusolverDnCpotrsBatched cusolverDnZpotrsBatched
    cusolverDnSgetrf cusolverDnDgetrf cusolverDnCgetrf cusolverDnZgetrf
    cusolverDnSgetrs cusolverDnDgetrs cusolverDnCgetrs cusolverDnZgetrs
    cusolverDnSgeqrf cusolverDnDgeqrf cusolverDnCgeqrf cusolverDnZgeqrf
    cusolverDnSorgqr cusolverDnDorgqr cusolverDnCungqr cusolverDnZungqr
    cusolverDnSormqr cusolverDnDormqr cusolverDnCunmqr cusolverDnZunmqr
    cusolverDnSsytrf cusolverDnDsytrf cusolverDnCsytrf cusolverDnZsytrf
    cusolverDnSgesvd cusolverDnDgesvd cusolverDnCgesvd cusolverDnZgesvd
    cusolverDnSgesvdj cusolverDnDgesvdj cusolverDnCgesvdj cusolverDnZgesvdj
    cusolverDnSgesvdjBatched cusolverDnDgesvdjBatched cusolverDnCgesvdjBatched
    cusolverDnZgesvdjBatched
    cusolverDnSgesvdaStridedBatched cusolverDnDgesvdaStridedBatched
    cusolverDnCgesvdaStridedBatched cusolverDnZgesvdaStridedBatched
    cusolverDnSsyevd cusolverDnDsyevd cusolverDnCheevd cusolverDnZheevd
    cusolverDnSsyevj cusolverDnDsyevj cusolverDnCheevj cusolverDnZheevj
    cusolverDnSsyevjBatched cusolverDnDsyevjBatched cusolverDnCheevjBatched
    cusolverDnZheevjBatched
    cusolverDnXpotrf cusolverDnXpotrs cusolverDnXgeqrf cusolverDnXsyevd cusolverDnXsyevBatched
    cusolverDnXgeev cusolverDnXsytrs
}
