"""cuDNN: convolutions, batch normalisation, recurrent layers and CTC run, and keep what the backward pass needs."""

import common

libraries = common.load()

import torch
import torch.nn as nn
import torch.nn.functional as F

# Earlier ones plan for the GPU of a handle only, so their convolutions follow a model.
PLANS_WITHOUT_A_DEVICE = 90800
cudnn = torch.backends.cudnn
assert cudnn.is_available() and cudnn.enabled


def tensor(*sizes, dtype=torch.float32, memory_format=torch.contiguous_format):
    empty = torch.empty(sizes, device="cuda", dtype=dtype)
    return empty.to(memory_format=memory_format).requires_grad_()


def measure(work, *arguments, **options):
    """What a call held at most and holds after it, beyond what was there before and its result."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = work(*arguments, **options)
    peak, after = torch.cuda.max_memory_allocated() - before, torch.cuda.memory_allocated() - before
    return result, peak, after


def rounded(size_bytes):
    return -(-size_bytes // 512) * 512


def convolutions():
    formats = {2: torch.channels_last, 3: torch.channels_last_3d}
    for dimensions in (1, 2, 3):
        convolve = getattr(F, f"conv{dimensions}d")
        transposed = getattr(F, f"conv_transpose{dimensions}d")
        kernel, image = (3,) * dimensions, (16,) * dimensions
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for memory_format in (torch.contiguous_format, formats.get(dimensions)):
                if memory_format is None:
                    continue
                x = tensor(2, 16, *image, dtype=dtype, memory_format=memory_format)
                weight = tensor(16, 16, *kernel, dtype=dtype, memory_format=memory_format)
                grouped = tensor(16, 4, *kernel, dtype=dtype, memory_format=memory_format)
                assert (
                    torch._C._select_conv_backend(
                        x,
                        weight,
                        None,
                        [1] * dimensions,
                        [1] * dimensions,
                        [1] * dimensions,
                        False,
                        [0] * dimensions,
                        1,
                    )
                    == torch._C._ConvBackend.Cudnn
                )
                y, _, after = measure(convolve, x, weight, padding=1)
                assert y.shape == x.shape and after == rounded(y.nbytes), "a workspace ends with its call"
                y.sum().backward()
                assert x.grad.shape == x.shape and weight.grad.shape == weight.shape
                transposed(x, weight, stride=2).sum().backward()
                convolve(x, grouped, padding=1, groups=4, dilation=1).sum().backward()


def choices():
    x, weight = tensor(2, 64, 32, 32), tensor(64, 64, 3, 3)
    peaks = {}
    for benchmark in (False, True):
        for deterministic in (False, True):
            with cudnn.flags(enabled=True, benchmark=benchmark, deterministic=deterministic):
                peaks[benchmark, deterministic] = [measure(F.conv2d, x, weight)[1] for _ in range(2)]
    assert all(first >= second > 0 for first, second in peaks.values()), peaks
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda()
    for dtype in (torch.float16, torch.bfloat16):
        with torch.autocast("cuda", dtype=dtype):
            model(torch.empty(2, 3, 8, 8, device="cuda")).sum().backward()


def workspaces():
    """Workspaces that real GPUs took: cuDNN 9.20 on 8.6, 9.10.2 on 12.0. The 8.0 is the library's answer here."""
    if cudnn.version() < PLANS_WITHOUT_A_DEVICE:
        return
    at_8_6 = [] if cudnn.version() >= 92600 else [(torch.float32, (2, 64, 128, 128), 8_536_576)]  # 9.26: another engine
    known = {
        (8, 0): [(torch.float32, (2, 64, 128, 128), 8_536_576)],
        (8, 6): [
            *at_8_6,
            (torch.bfloat16, (2, 64, 128, 128), 8_462_848),
            (torch.float32, (4, 128, 64, 64), 8_978_944),
        ],
        (12, 0): [(torch.float32, (4, 128, 64, 64), 17_367_552)],
    }
    for dtype, sizes, workspace_bytes in known[torch.cuda.get_device_capability()]:
        x, weight = tensor(*sizes, dtype=dtype), tensor(sizes[1], sizes[1], 3, 3, dtype=dtype)
        _, peak, after = measure(F.conv2d, x, weight, padding=1)
        assert peak - after == workspace_bytes, (dtype, sizes, peak - after)


def normalisations():
    for sizes, norm in (((8, 64), nn.BatchNorm1d(64)), ((4, 64, 32, 32), nn.BatchNorm2d(64))):
        x, norm = tensor(*sizes), norm.cuda()
        y, peak, after = measure(norm, x)
        assert peak == after == rounded(y.nbytes) + 1024, "only channels that come last need a workspace"
        y.sum().backward()
        norm.eval()(x).sum().backward()
    x = tensor(4, 64, 32, 32, dtype=torch.float16, memory_format=torch.channels_last)
    norm = nn.BatchNorm2d(64).cuda()
    y, peak, after = measure(norm, x)
    assert "Cudnn" in type(y.grad_fn).__name__, y.grad_fn
    # 14,492 bytes by cuDNN; mean and variance are kept for the backward pass.
    assert (peak - after, after) == (rounded(14_492), rounded(y.nbytes) + 1024), (peak, after)
    y.sum().backward()


def recurrent():
    times, batch, size, hidden = 7, 4, 32, 64
    for cell, kept, states in ((nn.RNN, 3, 1), (nn.LSTM, 11, 2), (nn.GRU, 13, 1)):
        model = cell(size, hidden, num_layers=2).cuda()
        x = tensor(times, batch, size)
        with torch.no_grad():
            _, _, after = measure(model, x)
        (y, state), _, training_after = measure(model, x)
        # Gates and states of two layers and the output between them, in elements of an output; and 256 bytes.
        reserve_bytes = rounded(kept * times * batch * hidden * 4 + 256)
        initial_bytes = states * 2 * batch * hidden * 4
        assert training_after - after == reserve_bytes + initial_bytes, (cell, training_after, after)
        y.sum().backward()
        del y, state
    stack = nn.LSTM(size, hidden, 3, bidirectional=True, dropout=0.1, batch_first=True).cuda()
    stack(tensor(batch, times, size))[0].sum().backward()
    with torch.autocast("cuda", dtype=torch.float16):
        nn.GRU(128, 128).cuda()(tensor(20, 8, 128))[0].sum().backward()
    projected = nn.LSTM(size, hidden, proj_size=16).cuda()
    packed = nn.utils.rnn.pack_padded_sequence(tensor(5, 3, size), torch.tensor([5, 3, 2]))
    projected(packed)[0].data.sum().backward()
    stack.load_state_dict(stack.state_dict())


def others():
    probabilities = tensor(50, 4, 20)
    labels, lengths = torch.ones(4, 10, dtype=torch.int32), torch.full((4,), 10, dtype=torch.int32)
    F.ctc_loss(probabilities, labels, torch.full((4,), 50, dtype=torch.int32), lengths).backward()
    grid = F.affine_grid(torch.empty(2, 2, 3, device="cuda"), (2, 3, 8, 8), align_corners=True)
    F.grid_sample(tensor(2, 3, 8, 8), grid, align_corners=True).sum().backward()


def captured():
    x, model = torch.empty(2, 3, 8, 8, device="cuda"), nn.Conv2d(3, 8, 3).cuda()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    graph.replay()


if torch.cuda.get_device_capability() == (8, 0):
    convolutions()
    choices()
    normalisations()
    recurrent()
    others()
    captured()
workspaces()
assert not common.not_simulated(libraries[0]), common.not_simulated(libraries[0])
