"""CUDA graphs: a captured training step against the same steps without a graph, and torch.compile's own graphs."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def model_and_input(width):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
    return model, torch.randn(64, width, device="cuda")


def run(simulated):
    width, steps = (64, 3) if simulated else (512, 20)
    digests = []
    for captured in (False, True):
        model, x = model_and_input(width)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def step(model=model, x=x, optimizer=optimizer):
            optimizer.zero_grad(set_to_none=True)
            loss = F.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
            return loss

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # A capture wants everything to have run once.
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        if captured:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            for number in range(steps):
                graph.replay()
                torch.full((1 << 20,), float(number), device="cuda")  # No other allocation may get the graph's memory.
        else:
            for _ in range(steps):
                step()
        torch.cuda.synchronize()
        digests.append([parameter.detach().cpu() for parameter in model.parameters()])
    if not all(torch.equal(one, other) for one, other in zip(*digests)):
        raise AssertionError("the captured steps and the plain ones end with different parameters")
    del graph
    torch.cuda.empty_cache()
    return {"steps": steps, "segments_left": len(torch.cuda.memory_snapshot())}


def run_compiled(simulated):
    if simulated:
        return {"skipped": "Triton needs a GPU"}
    try:
        import triton  # noqa: F401
    except ImportError as error:
        return {"skipped": f"no Triton: {error}"}
    model, x = model_and_input(512)
    plain = model(x).detach()
    compiled = torch.compile(model, mode="reduce-overhead")
    try:
        for _ in range(5):
            torch.compiler.cudagraph_mark_step_begin()
            found = compiled(x).clone()  # The graphs use its memory again.
            off_by = float((found.detach() - plain).abs().max())
            F.mse_loss(found, x).backward()
            model.zero_grad(set_to_none=True)  # The gradients are the graphs' memory, too.
    except RuntimeError as error:
        if "need vramtape's bridge" not in str(error):
            raise
        return {"skipped": str(error)}
    torch.cuda.synchronize()
    if off_by > 1e-3:
        raise AssertionError(f"the compiled model is off by {off_by}")
    return {"off_by": off_by}
