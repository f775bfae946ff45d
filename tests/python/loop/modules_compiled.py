"""Modules that torch compiles: each is marked as one, and compiled as without marks."""

import gc
import pickle
import tempfile
import warnings
from collections import Counter
from pathlib import Path

warnings.filterwarnings("error", "Using .torch.compile")  # PyTorch's, of global hooks.
import vramtape

vramtape.install(route="pluggable")
import torch
from models import GPT
from torch._dynamo.utils import counters

compile_of = torch.compile


def whole(model, backend):
    return compile_of(model, backend=backend, fullgraph=True)


def in_place(model, backend):
    model.compile(backend=backend, fullgraph=True)
    return model


def layers(model, backend):
    for at, layer in enumerate(model.layers):
        model.layers[at] = compile_of(layer, backend=backend, fullgraph=True)
    return model


torch._dynamo.config.error_on_recompile = True
tokens = torch.zeros(4, 64, dtype=torch.long, device="cuda")
paths = {name for name, _ in GPT().named_modules() if name}
for backend in ("eager", "aot_eager"):
    for compiled, begun in (
        (whole, {"GPT": 1}),
        (in_place, {"GPT": 1}),
        (layers, {"GPT": 1, "layers.0": 1, "layers.1": 1, "layers.2": 1, "head": 1}),
    ):
        torch._dynamo.reset()
        counters.clear()
        model = compiled(GPT().cuda(), backend)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with vramtape.profile() as p:
            for _ in range(3):
                model(tokens).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"], counters
        with tempfile.TemporaryDirectory() as folder:
            p.save_pickle(Path(folder) / "run.pickle")
            annotations = pickle.loads((Path(folder) / "run.pickle").read_bytes())["external_annotations"]
        starts, ends = (
            Counter(one["name"] for one in annotations if one["stage"] == stage and one["name"] in {"GPT", *paths})
            for stage in ("START", "END")
        )
        case = (backend, compiled.__name__, starts)
        assert starts == ends and begun.items() <= {name: n // 3 for name, n in starts.items()}.items(), case
        inside = [name for name in starts if name.startswith("layers.") and name.count(".") > 1]
        assert not inside and (compiled is layers or set(starts) == {"GPT"}), case
        rows = {row["module"]: row for row in p.memory_stats["peak_modules"]}
        assert sum(row["allocated_bytes"] for row in rows.values()) == p.memory_stats["peak_allocated_bytes"]
        norm = rows["layers.1.norm_2"]["contents"]["parameter"]
        assert norm["requested_bytes"] == 2 * 64 * 4, "parameters keep the paths of their modules"
        del model, optimizer
        gc.collect()
