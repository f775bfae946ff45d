//! cuBLAS and cuBLASLt: handles, streams, and products that are operations on a stream.

use std::ffi::{c_int, c_void};

use crate::abi::{Answer, Codes, Out, Status, accepted, entry_points, operations};
use crate::copy::{self, Rows};
use crate::{handle, machine, stream};

/// `cublasStatus_t`.
const CODES: Codes = Codes { invalid: 7, failed: 13, internal: 14 };

/// `cublasLtMatmulHeuristicResult_t`: an algorithm that needs no workspace.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct HeuristicResult {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

const _: () = assert!(size_of::<HeuristicResult>() == 96);

entry_points! {
    cublasCreate_v2 => (out: Out<u64>) {
        handle::create(out)
    }

    cublasDestroy_v2 => (handle: u64) {
        handle::destroy(handle);
        Ok(())
    }

    cublasSetStream_v2 => (handle: u64, stream: u64) {
        handle::set_stream(handle, stream);
        Ok(())
    }

    cublasGetMathMode => (_handle: u64, out: Out<c_int>) {
        out.set(0)
    }

    cublasGetPointerMode_v2 => (_handle: u64, out: Out<c_int>) {
        out.set(0)
    }

    cublasLtCreate => (out: Out<u64>) {
        out.set(machine::new_handle())
    }

    cublasLtMatmulDescCreate => (out: Out<u64>, _compute: c_int, _scale: c_int) {
        out.set(machine::new_handle())
    }

    cublasLtMatrixLayoutCreate => (
        out: Out<u64>, _kind: c_int, _rows: u64, _columns: u64, _leading: i64,
    ) {
        out.set(machine::new_handle())
    }

    cublasLtMatmulPreferenceCreate => (out: Out<u64>) {
        out.set(machine::new_handle())
    }

    cublasLtMatmulAlgoGetHeuristic => (
        _handle: u64, _operation: u64, _a: u64, _b: u64, _c: u64, _d: u64, _preference: u64,
        wanted: c_int, out: Out<HeuristicResult>, count: Out<c_int>,
    ) {
        if wanted < 1 {
            return Err(Status::INVALID_VALUE);
        }
        out.set(HeuristicResult { waves: 1.0, ..HeuristicResult::default() })?;
        count.set(1)
    }

    cublasLtMatmul => (
        _handle: u64, _operation: u64, _alpha: u64, _a: u64, _a_layout: u64, _b: u64,
        _b_layout: u64, _beta: u64, _c: u64, _c_layout: u64, _d: u64, _d_layout: u64,
        _algorithm: u64, _workspace: *mut c_void, _workspace_bytes: usize, stream: u64,
    ) {
        stream::launch(stream)
    }
}

entry_points! {
    cublasSetMatrixAsync => (
        rows: c_int, columns: c_int, element_bytes: c_int, from: u64, from_rows: c_int, to: u64,
        to_rows: c_int, stream: u64,
    ) {
        copy_matrix([rows, columns, element_bytes], (from, from_rows), (to, to_rows), stream)
    }

    cublasGetMatrixAsync => (
        rows: c_int, columns: c_int, element_bytes: c_int, from: u64, from_rows: c_int, to: u64,
        to_rows: c_int, stream: u64,
    ) {
        copy_matrix([rows, columns, element_bytes], (from, from_rows), (to, to_rows), stream)
    }

    cublasSetVectorAsync => (
        count: c_int, element_bytes: c_int, from: u64, from_step: c_int, to: u64, to_step: c_int,
        stream: u64,
    ) {
        copy_matrix([1, count, element_bytes], (from, from_step), (to, to_step), stream)
    }

    cublasGetVectorAsync => (
        count: c_int, element_bytes: c_int, from: u64, from_step: c_int, to: u64, to_step: c_int,
        stream: u64,
    ) {
        copy_matrix([1, count, element_bytes], (from, from_step), (to, to_step), stream)
    }
}

// Functions that say on the host whether their arguments were valid.
entry_points! {
    cublasSgetrsBatched cublasDgetrsBatched cublasCgetrsBatched cublasZgetrsBatched => (
        handle: u64, _trans: c_int, _n: c_int, _right: c_int, _a: u64, _lda: c_int, _pivots: u64,
        _b: u64, _ldb: c_int, info: Out<c_int>,
    ) {
        info.set(0)?;
        handle::operation(handle)
    }

    cublasSgeqrfBatched cublasDgeqrfBatched cublasCgeqrfBatched cublasZgeqrfBatched => (
        handle: u64, _m: c_int, _n: c_int, _a: u64, _lda: c_int, _tau: u64, info: Out<c_int>,
    ) {
        info.set(0)?;
        handle::operation(handle)
    }

    cublasSgelsBatched cublasDgelsBatched cublasCgelsBatched cublasZgelsBatched => (
        handle: u64, _trans: c_int, _m: c_int, _n: c_int, _right: c_int, _a: u64, _lda: c_int,
        _c: u64, _ldc: c_int, info: Out<c_int>,
    ) {
        info.set(0)?;
        handle::operation(handle)
    }
}

/// Copies a matrix by columns between the host and the device; each side has an address and a leading dimension.
fn copy_matrix(sizes: [c_int; 3], from: (u64, c_int), to: (u64, c_int), stream: u64) -> Answer {
    let natural = |number| usize::try_from(number).map_err(|_| Status::INVALID_VALUE);
    let [rows, columns, element_bytes] = sizes.map(natural);
    let (columns, element_bytes) = (columns?, element_bytes?);
    let side = |(address, leading)| -> Answer<Rows> {
        Ok(Rows { address, pitch_bytes: natural(leading)? * element_bytes })
    };
    copy::copy_rows(side(to)?, side(from)?, rows? * element_bytes, columns, stream)
}

accepted! {
    cublasSetMathMode cublasSetPointerMode_v2 cublasSetWorkspace_v2 cublasSetSmCountTarget
    cublasLtMatmulDescDestroy cublasLtMatmulDescSetAttribute
    cublasLtMatmulPreferenceDestroy cublasLtMatmulPreferenceSetAttribute
    cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute
}

// Operations that ATen calls: products, triangular solves and batched factorisations, all with results on the device.
operations! {
    cublasSgemm_v2 cublasDgemm_v2 cublasCgemm_v2 cublasZgemm_v2 cublasSgemmEx cublasGemmEx
    cublasSgemmStridedBatched cublasDgemmStridedBatched cublasCgemmStridedBatched
    cublasZgemmStridedBatched cublasGemmStridedBatchedEx
    cublasSgemmBatched cublasDgemmBatched cublasCgemmBatched cublasZgemmBatched
    cublasSgemv_v2 cublasDgemv_v2 cublasCgemv_v2 cublasZgemv_v2
    cublasSdot_v2 cublasDdot_v2 cublasCdotu_v2 cublasCdotc_v2 cublasZdotu_v2 cublasZdotc_v2
    cublasDotEx
    cublasStrsm_v2 cublasDtrsm_v2 cublasCtrsm_v2 cublasZtrsm_v2
    cublasStrsmBatched cublasDtrsmBatched cublasCtrsmBatched cublasZtrsmBatched
    cublasSgetrfBatched cublasDgetrfBatched cublasCgetrfBatched cublasZgetrfBatched
}

// Operations that only MAGMA calls, for factorisations that cuSOLVER does not have.
operations! {
    cublasCaxpy_v2 cublasCcopy_v2 cublasCgerc_v2 cublasCgeru_v2 cublasChemm_v2 cublasChemv_v2
    cublasCher2_v2 cublasCher2k_v2 cublasCher_v2 cublasCherk_v2 cublasCrot_v2 cublasCscal_v2
    cublasCsrot_v2 cublasCsscal_v2 cublasCswap_v2 cublasCsymm_v2 cublasCsymv_v2 cublasCsyr2_v2
    cublasCsyr2k_v2 cublasCsyr_v2 cublasCsyrk_v2 cublasCtrmm_v2 cublasCtrmv_v2 cublasCtrsv_v2
    cublasDaxpy_v2 cublasDcopy_v2 cublasDger_v2 cublasDrot_v2 cublasDrotm_v2 cublasDscal_v2
    cublasDswap_v2 cublasDsymm_v2 cublasDsymv_v2 cublasDsyr2_v2 cublasDsyr2k_v2 cublasDsyr_v2
    cublasDsyrk_v2 cublasDtrmm_v2 cublasDtrmv_v2 cublasDtrsv_v2 cublasDzasum_v2 cublasDznrm2_v2
    cublasIcamax_v2 cublasIcamin_v2 cublasIdamax_v2 cublasIdamin_v2 cublasIsamax_v2
    cublasIsamin_v2 cublasIzamax_v2 cublasIzamin_v2 cublasSaxpy_v2 cublasScasum_v2 cublasScnrm2_v2
    cublasScopy_v2 cublasSger_v2 cublasSrot_v2 cublasSrotm_v2 cublasSscal_v2 cublasSswap_v2
    cublasSsymm_v2 cublasSsymv_v2 cublasSsyr2_v2 cublasSsyr2k_v2 cublasSsyr_v2 cublasSsyrk_v2
    cublasStrmm_v2 cublasStrmv_v2 cublasStrsv_v2 cublasZaxpy_v2 cublasZcopy_v2 cublasZdrot_v2
    cublasZdscal_v2 cublasZgerc_v2 cublasZgeru_v2 cublasZhemm_v2 cublasZhemv_v2 cublasZher2_v2
    cublasZher2k_v2 cublasZher_v2 cublasZherk_v2 cublasZrot_v2 cublasZscal_v2 cublasZswap_v2
    cublasZsymm_v2 cublasZsymv_v2 cublasZsyr2_v2 cublasZsyr2k_v2 cublasZsyr_v2 cublasZsyrk_v2
    cublasZtrmm_v2 cublasZtrmv_v2 cublasZtrsv_v2
}
