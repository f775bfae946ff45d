//! cuBLAS and cuBLASLt: handles, streams, and products that are operations on a stream.

use std::ffi::{c_int, c_void};

use crate::abi::{Answer, Out, Status, accepted, guarded};
use crate::{handle, machine, stream};

/// The `cublasStatus_t` of an answer.
fn status(body: impl FnOnce() -> Answer) -> c_int {
    const INVALID_VALUE: c_int = 7;
    const EXECUTION_FAILED: c_int = 13;
    const INTERNAL_ERROR: c_int = 14;
    match guarded(body) {
        Ok(()) => 0,
        Err(Status::INVALID_VALUE) => INVALID_VALUE,
        Err(Status::UNKNOWN) => INTERNAL_ERROR,
        Err(_) => EXECUTION_FAILED,
    }
}

/// Defines entry points of cuBLAS: the body's [`Answer`] becomes the `cublasStatus_t`.
macro_rules! blas {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> c_int {
            status(|| $body)
        }
    )*};
}

/// Defines computations: whatever the other arguments, an operation on the stream of the handle that comes first.
macro_rules! operations {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(handle: u64) -> c_int {
            status(|| handle::operation(handle))
        }
    )*};
}

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

blas! {
    fn cublasCreate_v2(out: Out<u64>) {
        handle::create(out)
    }

    fn cublasDestroy_v2(handle: u64) {
        handle::destroy(handle);
        Ok(())
    }

    fn cublasSetStream_v2(handle: u64, stream: u64) {
        handle::set_stream(handle, stream);
        Ok(())
    }

    fn cublasGetMathMode(_handle: u64, out: Out<c_int>) {
        out.set(0)
    }

    fn cublasGetPointerMode_v2(_handle: u64, out: Out<c_int>) {
        out.set(0)
    }

    fn cublasLtCreate(out: Out<u64>) {
        out.set(machine::new_handle())
    }

    fn cublasLtMatmulDescCreate(out: Out<u64>, _compute: c_int, _scale: c_int) {
        out.set(machine::new_handle())
    }

    fn cublasLtMatrixLayoutCreate(
        out: Out<u64>, _kind: c_int, _rows: u64, _columns: u64, _leading: i64,
    ) {
        out.set(machine::new_handle())
    }

    fn cublasLtMatmulPreferenceCreate(out: Out<u64>) {
        out.set(machine::new_handle())
    }

    fn cublasLtMatmulAlgoGetHeuristic(
        _handle: u64, _operation: u64, _a: u64, _b: u64, _c: u64, _d: u64, _preference: u64,
        wanted: c_int, out: Out<HeuristicResult>, count: Out<c_int>,
    ) {
        if wanted < 1 {
            return Err(Status::INVALID_VALUE);
        }
        out.set(HeuristicResult { waves: 1.0, ..HeuristicResult::default() })?;
        count.set(1)
    }

    fn cublasLtMatmul(
        _handle: u64, _operation: u64, _alpha: u64, _a: u64, _a_layout: u64, _b: u64,
        _b_layout: u64, _beta: u64, _c: u64, _c_layout: u64, _d: u64, _d_layout: u64,
        _algorithm: u64, _workspace: *mut c_void, _workspace_bytes: usize, stream: u64,
    ) {
        stream::launch(stream)
    }
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
    cublasSgetrsBatched cublasDgetrsBatched cublasCgetrsBatched cublasZgetrsBatched
    cublasSgeqrfBatched cublasDgeqrfBatched cublasCgeqrfBatched cublasZgeqrfBatched
    cublasSgelsBatched cublasDgelsBatched cublasCgelsBatched cublasZgelsBatched
}
