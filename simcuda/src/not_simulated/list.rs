//! Written by entry_points.py from the imports of PyTorch; do not edit.

use super::answers;

answers! { cublas:
    cublasCrotg_v2
    cublasDasum_v2
    cublasDnrm2_v2
    cublasDrotg_v2
    cublasDrotmg_v2
    cublasLtMatmulAlgoCheck
    cublasLtMatmulAlgoConfigGetAttribute
    cublasLtMatmulAlgoConfigSetAttribute
    cublasLtMatmulAlgoInit
    cublasSasum_v2
    cublasSnrm2_v2
    cublasSrotg_v2
    cublasSrotmg_v2
    cublasZrotg_v2
}

answers! { cudart:
    cudaFreeAsync
    cudaGraphAddNode
    cudaGraphConditionalHandleCreate
    cudaGraphDebugDotPrint
    cudaLibraryGetGlobal
    cudaLibraryGetKernelCount
    cudaLibraryGetManaged
    cudaLibraryGetUnifiedFunction
    cudaMallocAsync
    cudaMallocManaged
    cudaMemPoolGetAttribute
    cudaMemPoolSetAccess
    cudaMemPoolSetAttribute
    cudaMemPoolTrimTo
    cudaStreamBeginCaptureToGraph
}

answers! { cudnn:
    cudnnConvolutionBackwardData
    cudnnConvolutionBackwardFilter
    cudnnConvolutionBiasActivationForward
    cudnnConvolutionForward
    cudnnFindConvolutionBackwardDataAlgorithmEx
    cudnnFindConvolutionBackwardFilterAlgorithmEx
    cudnnFindConvolutionForwardAlgorithmEx
    cudnnGetConvolutionBackwardDataAlgorithm_v7
    cudnnGetConvolutionBackwardDataWorkspaceSize
    cudnnGetConvolutionBackwardFilterAlgorithm_v7
    cudnnGetConvolutionBackwardFilterWorkspaceSize
    cudnnGetConvolutionForwardAlgorithm_v7
    cudnnGetConvolutionForwardWorkspaceSize
}

answers! { driver:
    cuCtxFromGreenCtx
    cuDevResourceGenerateDesc
    cuDevSmResourceSplitByCount
    cuDeviceGetDevResource
    cuGreenCtxCreate
    cuGreenCtxDestroy
    cuGreenCtxStreamCreate
    cuMemRetainAllocationHandle
    cuMulticastAddDevice
    cuMulticastBindMem
    cuMulticastCreate
    cuMulticastUnbind
    cuStreamWriteValue32
}

answers! { nccl:
    ncclCommGetUniqueId
    ncclCommGrow
    ncclCommInitAll
    ncclCommMemStats
    ncclCommResume
    ncclCommRevoke
    ncclCommSuspend
    ncclDevCommCreate
    ncclDevCommDestroy
    ncclGetLsaMultimemDevicePointer
    ncclGetPeerDevicePointer
    ncclGroupSimulateEnd
    ncclPutSignal
    ncclSignal
    ncclWaitSignal
    ncclWinGetUserPtr
}
