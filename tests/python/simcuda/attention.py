"""cuDNN's attention on GPUs that PyTorch prefers it on: statistics are kept, workspaces are not."""

import common

libraries = common.load()

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CUDNN = 3
if torch.backends.cudnn.version() < 90800:
    # This cuDNN plans for a real GPU only, and PyTorch 2.7 does not prefer it.
    q = torch.empty(2, 8, 256, 64, device="cuda", dtype=torch.bfloat16)
    assert torch._fused_sdp_choice(q, q, q) != CUDNN
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            F.scaled_dot_product_attention(q, q, q)
        raise AssertionError("a refusal was expected")
    except RuntimeError:
        assert "graphs without a convolution" in common.not_simulated(libraries[0])
    raise SystemExit

for dtype, is_causal, sizes in (
    (torch.bfloat16, True, (2, 8, 256, 64)),
    (torch.float16, False, (1, 4, 512, 128)),
):
    q, k, v = (torch.empty(sizes, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    assert torch._fused_sdp_choice(q, k, v, is_causal=is_causal) == CUDNN
    before = torch.cuda.memory_allocated()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    kept = torch.cuda.memory_allocated() - before
    batch, heads, length, _ = sizes
    # The output, a statistic of 4 bytes for each row, and the two numbers of the generator.
    assert kept == out.nbytes + batch * heads * length * 4 + 2 * 512, kept
    out.sum().backward()
    assert q.grad.shape == sizes
    del q, k, v, out
assert not common.not_simulated(libraries[0]), common.not_simulated(libraries[0])
