"""cuFFT, cuSOLVER, cuSPARSE and cuBLAS for linear algebra: functions of PyTorch run, with results of the right shape.

Workspaces are allocated.
"""

import common

libraries = common.load()

import torch
from torch import linalg

DEVICE = {"device": "cuda"}


def peak(work):
    """What a call held at most besides its result."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = work()
    return torch.cuda.max_memory_allocated() - before - rounded(result.untyped_storage().nbytes())


def rounded(size_bytes):
    return -(-size_bytes // 512) * 512


def transforms():
    signal = torch.randn(16, 4096, **DEVICE)
    assert torch.fft.fft(signal).shape == (16, 4096) and torch.fft.rfft(signal).shape == (16, 2049)
    assert torch.fft.irfft(torch.fft.rfft(signal)).shape == (16, 4096)
    assert torch.fft.fftn(torch.randn(8, 16, 16, 16, **DEVICE)).shape == (8, 16, 16, 16)
    assert torch.fft.rfft(signal.half()).dtype == torch.complex32
    window = torch.ones(400, **DEVICE)
    spectrum = torch.stft(torch.randn(2, 16000, **DEVICE), 400, 160, window=window, return_complex=True)
    assert spectrum.shape == (2, 201, 101)
    assert torch.istft(spectrum, 400, 160, window=window).shape == (2, 16000)
    # A work area of one complex element for each element, and that of Bluestein's algorithm for a large prime.
    elements = torch.randn(16, 4096, **DEVICE, dtype=torch.complex64)
    torch.fft.fft(elements)  # Caches the plan, whose work area is new at each call.
    assert peak(lambda: torch.fft.fft(elements)) == rounded(16 * 4096 * 8)
    elements = torch.randn(4, 10007, **DEVICE, dtype=torch.complex128)
    assert peak(lambda: torch.fft.fft(elements)) == rounded(4 * 2 * 32768 * 16)


def factorisations():
    for dtype in (torch.float32, torch.float64, torch.complex64):
        for sizes in ((48, 48), (5, 20, 20), (3, 100, 100)):
            x = torch.randn(*sizes, **DEVICE, dtype=dtype)
            vector = torch.ones(sizes[:-1], **DEVICE, dtype=dtype)
            for driver in (None, "gesvd", "gesvdj", "gesvda"):
                assert linalg.svd(x, driver=driver)[0].shape == sizes
            for function in (linalg.cholesky, linalg.inv, linalg.pinv, torch.cholesky_inverse):
                assert function(x).shape == sizes, function
            for function in (linalg.qr, linalg.lu_factor, linalg.ldl_factor):
                assert function(x)[0].shape == sizes, function
            assert linalg.eigh(x).eigenvectors.shape == sizes
            for function in (linalg.solve, torch.cholesky_solve):
                assert function(x, x).shape == sizes, function
            assert linalg.lstsq(x, x).solution.shape == sizes
            assert torch.ormqr(x, vector, x).shape == linalg.householder_product(x, vector).shape == sizes
            pivots = torch.ones(sizes[:-1], **DEVICE, dtype=torch.int32)
            assert linalg.ldl_solve(x, pivots, x).shape == sizes
            assert linalg.det(x).shape == sizes[:-2] and not linalg.cholesky_ex(x).info.any()
    tall = torch.randn(300, 100, **DEVICE)
    assert [one.shape for one in linalg.svd(tall)] == [(300, 300), (100,), (100, 100)]
    assert [one.shape for one in linalg.qr(tall)] == [(300, 100), (100, 100)]


def sparse():
    entries = torch.randn(500, **DEVICE)
    dense = torch.randn(100, 30, **DEVICE)
    rows, columns = torch.arange(0, 501, 5, **DEVICE), torch.arange(5, **DEVICE).repeat(100)
    csr = torch.sparse_csr_tensor(rows, columns, entries, (100, 100), check_invariants=False)
    places = torch.randint(0, 100, (2, 500), **DEVICE)
    coo = torch.sparse_coo_tensor(places, entries, (100, 100), is_coalesced=True, check_invariants=False)
    for matrix in (csr, coo):
        assert (matrix @ dense).shape == (100, 30) and torch.mv(matrix, dense[:, 0]).shape == (100,)
    assert torch.addmm(torch.randn(100, 30, **DEVICE), csr, dense).shape == (100, 30)
    assert torch.sparse.sampled_addmm(csr, dense, dense.T)._nnz() == 500
    # Entries spread evenly: 500 of 5 products each. A sum has the entries of both.
    assert (csr @ csr)._nnz() == 2500 and (csr + 2 * csr)._nnz() == 1000
    assert torch.triangular_solve(dense, csr).solution.shape == (100, 30)
    blocks = torch.sparse_bsr_tensor(
        torch.tensor([0, 1, 2], **DEVICE), torch.tensor([0, 1], **DEVICE), torch.randn(2, 16, 16, **DEVICE), (32, 32)
    )
    assert (blocks @ torch.randn(32, 8, **DEVICE)).shape == (32, 8)
    assert torch.triangular_solve(torch.randn(32, 8, **DEVICE), blocks).solution.shape == (32, 8)


def products():
    bytes_ = torch.ones(32, 32, **DEVICE, dtype=torch.int8)
    assert torch._int_mm(bytes_, bytes_).dtype == torch.int32
    if torch.cuda.get_device_capability() >= (8, 9):
        eighth, scale = bytes_.to(torch.float8_e4m3fn), torch.ones((), **DEVICE)
        product = torch._scaled_mm(eighth, eighth.T, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
        assert product.dtype == torch.bfloat16


for case in (transforms, factorisations, sparse, products):
    case()
assert not common.not_simulated(libraries[0]), common.not_simulated(libraries[0])
