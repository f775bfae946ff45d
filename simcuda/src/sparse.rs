//! cuSPARSE: descriptors, workspaces by formula, and operations on the handle's stream.
//!
//! cuSPARSE does not publish the sizes of its workspaces. Products with dense matrices take an index for each row,
//! which divides the rows among threads; triangular solves "extra storage proportional to the number of non-zero
//! entries", as the documentation says; sorts two copies of the indices. The entries of a sparse product are those of
//! factors whose entries are spread evenly, and those of a sum are all entries of both: PyTorch allocates the result by
//! that number.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::abi::{Answer, Codes, Out, Status, accepted, entry_points, operations};
use crate::{handle, machine};

/// `cusparseStatus_t`.
const CODES: Codes = Codes { invalid: 3, failed: 6, internal: 7 };
/// Bytes of an index, where a function has 32-bit ones.
const INDEX_BYTES: u64 = 4;

/// A sparse matrix, as its descriptor says.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    rows: u64,
    columns: u64,
    entries: u64,
    /// Of an index and a value.
    entry_bytes: u64,
}

static MATRICES: LazyLock<Mutex<HashMap<u64, Matrix>>> = LazyLock::new(Mutex::default);

fn matrices() -> MutexGuard<'static, HashMap<u64, Matrix>> {
    MATRICES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn matrix(descriptor: u64) -> Answer<Matrix> {
    matrices().get(&descriptor).copied().ok_or(Status::INVALID_VALUE)
}

type Pointer = *const c_void;

entry_points! {
    cusparseCreate cusparseCreateMatDescr cusparseCreateBsrsv2Info cusparseCreateBsrsm2Info
    cusparseSpGEMM_createDescr cusparseSpSV_createDescr cusparseSpSM_createDescr
    cusparseCreateDnMat cusparseCreateDnVec
    => (out: Out<u64>) {
        out.set(machine::new_handle())
    }

    cusparseDestroy => (handle: u64) {
        handle::destroy(handle);
        Ok(())
    }

    cusparseSetStream => (handle: u64, stream: u64) {
        handle::set_stream(handle, stream);
        Ok(())
    }

    cusparseCreateCsr => (
        out: Out<u64>, rows: i64, columns: i64, entries: i64, _offsets: Pointer, _indices: Pointer,
        _values: Pointer, _offset_kind: c_int, index_kind: c_int, _base: c_int, value: c_int,
    ) {
        create(out, [rows, columns, entries], index_kind, value)
    }

    cusparseCreateCoo => (
        out: Out<u64>, rows: i64, columns: i64, entries: i64, _row_indices: Pointer, _column_indices: Pointer,
        _values: Pointer, index_kind: c_int, _base: c_int, value: c_int,
    ) {
        create(out, [rows, columns, entries], index_kind, value)
    }

    cusparseDestroySpMat => (descriptor: u64) {
        matrices().remove(&descriptor).map(drop).ok_or(Status::INVALID_VALUE)
    }

    cusparseSpMatGetSize => (descriptor: u64, rows: Out<i64>, columns: Out<i64>, entries: Out<i64>) {
        let matrix = matrix(descriptor)?;
        rows.set(matrix.rows as i64)?;
        columns.set(matrix.columns as i64)?;
        entries.set(matrix.entries as i64)
    }

    cusparseSpMM_bufferSize => (
        _handle: u64, _op_a: c_int, _op_b: c_int, _alpha: Pointer, a: u64, _b: u64, _beta: Pointer,
        _c: u64, _compute: c_int, _algorithm: c_int, out: Out<usize>,
    ) {
        bytes(out, INDEX_BYTES * matrix(a)?.rows)
    }

    cusparseSpMV_bufferSize => (
        _handle: u64, _op_a: c_int, _alpha: Pointer, a: u64, _x: u64, _beta: Pointer, _y: u64,
        _compute: c_int, _algorithm: c_int, out: Out<usize>,
    ) {
        bytes(out, INDEX_BYTES * matrix(a)?.rows)
    }

    cusparseSDDMM_bufferSize => (
        _handle: u64, _op_a: c_int, _op_b: c_int, _alpha: Pointer, _a: u64, _b: u64, _beta: Pointer,
        c: u64, _compute: c_int, _algorithm: c_int, out: Out<usize>,
    ) {
        bytes(out, INDEX_BYTES * matrix(c)?.rows)
    }

    cusparseSpSV_bufferSize => (
        _handle: u64, _op: c_int, _alpha: Pointer, a: u64, _x: u64, _y: u64, _compute: c_int,
        _algorithm: c_int, _state: u64, out: Out<usize>,
    ) {
        let matrix = matrix(a)?;
        bytes(out, matrix.entries.saturating_mul(matrix.entry_bytes))
    }

    cusparseSpSM_bufferSize => (
        _handle: u64, _op_a: c_int, _op_b: c_int, _alpha: Pointer, a: u64, _b: u64, _c: u64,
        _compute: c_int, _algorithm: c_int, _state: u64, out: Out<usize>,
    ) {
        let matrix = matrix(a)?;
        bytes(out, matrix.entries.saturating_mul(matrix.entry_bytes))
    }

    // Without a buffer, the size is wanted; with it, the work is done.
    cusparseSpGEMM_workEstimation => (
        handle: u64, _op_a: c_int, _op_b: c_int, _alpha: Pointer, a: u64, _b: u64, _beta: Pointer,
        _c: u64, _compute: c_int, _algorithm: c_int, _state: u64, size: Out<usize>, buffer: Pointer,
    ) {
        if buffer.is_null() { bytes(size, INDEX_BYTES * matrix(a)?.rows) } else { handle::operation(handle) }
    }

    cusparseSpGEMM_compute => (
        handle: u64, _op_a: c_int, _op_b: c_int, _alpha: Pointer, a: u64, b: u64, _beta: Pointer, c: u64,
        _compute: c_int, _algorithm: c_int, _state: u64, size: Out<usize>, buffer: Pointer,
    ) {
        let products = products(matrix(a)?, matrix(b)?);
        if buffer.is_null() {
            return bytes(size, products.saturating_mul(matrix(c)?.entry_bytes));
        }
        if let Some(result) = matrices().get_mut(&c) {
            result.entries = products.min(result.rows.saturating_mul(result.columns));
        }
        handle::operation(handle)
    }

    cusparseScsrgeam2_bufferSizeExt cusparseDcsrgeam2_bufferSizeExt cusparseCcsrgeam2_bufferSizeExt
    cusparseZcsrgeam2_bufferSizeExt => (
        _handle: u64, rows: c_int, _n: c_int, _alpha: Pointer, _a: u64, _a_entries: c_int,
        _a_values: Pointer, _a_offsets: Pointer, _a_indices: Pointer, _beta: Pointer, _b: u64,
        _b_entries: c_int, _b_values: Pointer, _b_offsets: Pointer, _b_indices: Pointer, _c: u64,
        _c_values: Pointer, _c_offsets: Pointer, _c_indices: Pointer, out: Out<usize>,
    ) {
        bytes(out, INDEX_BYTES * natural(rows.into())?)
    }

    cusparseXcsrgeam2Nnz => (
        handle: u64, rows: c_int, columns: c_int, _a: u64, a_entries: c_int, _a_offsets: Pointer,
        _a_indices: Pointer, _b: u64, b_entries: c_int, _b_offsets: Pointer, _b_indices: Pointer,
        _c: u64, _c_offsets: Pointer, entries: Out<c_int>,
    ) {
        let all = natural(rows.into())? * natural(columns.into())?;
        let sum = natural(a_entries.into())? + natural(b_entries.into())?;
        entries.set(all.min(sum) as c_int)?;
        handle::operation(handle)
    }

    cusparseXcoosort_bufferSizeExt cusparseXcsrsort_bufferSizeExt => (
        _handle: u64, _m: c_int, _n: c_int, entries: c_int, _offsets: Pointer, _indices: Pointer,
        out: Out<usize>,
    ) {
        // The row and the column of each entry, or its place and its column.
        bytes(out, 2 * 2 * INDEX_BYTES * natural(entries.into())?)
    }

    cusparseSbsrsv2_bufferSize cusparseDbsrsv2_bufferSize cusparseCbsrsv2_bufferSize
    cusparseZbsrsv2_bufferSize => (
        _handle: u64, _direction: c_int, _op: c_int, rows: c_int, entries: c_int, _a: u64,
        _values: Pointer, _offsets: Pointer, _indices: Pointer, _block: c_int, _info: u64,
        out: Out<c_int>,
    ) {
        of_blocks(out, rows, entries)
    }

    cusparseSbsrsm2_bufferSize cusparseDbsrsm2_bufferSize cusparseCbsrsm2_bufferSize
    cusparseZbsrsm2_bufferSize => (
        _handle: u64, _direction: c_int, _op_a: c_int, _op_b: c_int, rows: c_int, _n: c_int,
        entries: c_int, _a: u64, _values: Pointer, _offsets: Pointer, _indices: Pointer, _block: c_int,
        _info: u64, out: Out<c_int>,
    ) {
        of_blocks(out, rows, entries)
    }

    cusparseXbsrsv2_zeroPivot cusparseXbsrsm2_zeroPivot => (_handle: u64, _info: u64, out: Out<c_int>) {
        out.set(-1)
    }
}

fn create(out: Out<u64>, sizes: [i64; 3], index_kind: c_int, value: c_int) -> Answer {
    // `cusparseIndexType_t`: 16, 32 and 64 bits.
    let index_bytes = match index_kind {
        1 => 2,
        2 => 4,
        3 => 8,
        _ => return Err(Status::INVALID_VALUE),
    };
    // `cudaDataType`.
    let value_bytes = match value {
        2 | 14 => 2,
        0 | 6 | 10 | 15 => 4,
        1 | 4 => 8,
        5 => 16,
        3 => 1,
        _ => return Err(Status::INVALID_VALUE),
    };
    let [rows, columns, entries] = sizes.map(natural);
    let matrix = Matrix {
        rows: rows?,
        columns: columns?,
        entries: entries?,
        entry_bytes: index_bytes + value_bytes,
    };
    let descriptor = machine::new_handle();
    out.set(descriptor)?;
    matrices().insert(descriptor, matrix);
    Ok(())
}

/// Products of entries in a product of matrices whose entries are spread evenly.
fn products(a: Matrix, b: Matrix) -> u64 {
    let of_row = b.entries.div_ceil(b.rows.max(1));
    a.entries.saturating_mul(of_row)
}

/// A level and an order for each row of blocks, and an index for each block.
fn of_blocks(out: Out<c_int>, rows: c_int, entries: c_int) -> Answer {
    let bytes = INDEX_BYTES * (2 * natural(rows.into())? + natural(entries.into())?);
    out.set(c_int::try_from(bytes).map_err(|_| Status::INVALID_VALUE)?)
}

fn bytes(out: Out<usize>, bytes: u64) -> Answer {
    out.set(bytes as usize)
}

fn natural(number: i64) -> Answer<u64> {
    u64::try_from(number).map_err(|_| Status::INVALID_VALUE)
}

accepted! {
    cusparseSetPointerMode cusparseSpMatSetAttribute cusparseCsrSetPointers
    cusparseCsrSetStridedBatch cusparseDnMatSetStridedBatch
    cusparseSetMatDiagType cusparseSetMatFillMode cusparseSetMatIndexBase cusparseSetMatType
    cusparseDestroyMatDescr cusparseDestroyBsrsv2Info cusparseDestroyBsrsm2Info
    cusparseDestroyDnMat cusparseDestroyDnVec
    cusparseSpGEMM_destroyDescr cusparseSpSV_destroyDescr cusparseSpSM_destroyDescr
}

operations! {
    cusparseSpMM cusparseSpMV cusparseSDDMM_preprocess cusparseSDDMM cusparseSpGEMM_copy
    cusparseSpSV_analysis cusparseSpSV_solve cusparseSpSM_analysis cusparseSpSM_solve
    cusparseScsrgeam2 cusparseDcsrgeam2 cusparseCcsrgeam2 cusparseZcsrgeam2
    cusparseXcoo2csr cusparseXcoosortByRow cusparseXcsrsort cusparseCreateIdentityPermutation
    cusparseSbsrmm cusparseDbsrmm cusparseCbsrmm cusparseZbsrmm
    cusparseSbsrmv cusparseDbsrmv cusparseCbsrmv cusparseZbsrmv
    cusparseSbsrsv2_analysis cusparseDbsrsv2_analysis cusparseCbsrsv2_analysis
    cusparseZbsrsv2_analysis cusparseSbsrsv2_solve cusparseDbsrsv2_solve cusparseCbsrsv2_solve
    cusparseZbsrsv2_solve
    cusparseSbsrsm2_analysis cusparseDbsrsm2_analysis cusparseCbsrsm2_analysis
    cusparseZbsrsm2_analysis cusparseSbsrsm2_solve cusparseDbsrsm2_solve cusparseCbsrsm2_solve
    cusparseZbsrsm2_solve
}
