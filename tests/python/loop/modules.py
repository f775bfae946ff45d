"""Memory by module: parameters, activations, recomputation, and calls that do not end as others do."""

import gc
import pickle
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import vramtape

vramtape.install(route="pluggable")
import torch
from models import GPT, ResNet
from torch import nn

BATCH, LENGTH, WIDTH = 8, 64, 64
OUTSIDE = "outside any module"
loss_of = nn.CrossEntropyLoss()
tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")
images, labels = torch.randn(8, 3, 32, 32, device="cuda"), torch.zeros(8, dtype=torch.long, device="cuda")


def step(model, optimizer):
    is_image = isinstance(model, ResNet)
    output = model(images if is_image else tokens).flatten(0, -2)
    loss_of(output, labels if is_image else tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()


def profile(run):
    """The modules at the peak of a call, and how often each began and ended in it."""
    with vramtape.profile() as p:
        run()
    rows = {row["module"]: row for row in p.memory_stats["peak_modules"]}
    assert sum(row["allocated_bytes"] for row in rows.values()) == p.memory_stats["peak_allocated_bytes"]
    for row in rows.values():
        for what in ("allocated_bytes", "requested_bytes"):
            assert sum(content[what] for content in row["contents"].values()) == row[what], row
    with tempfile.TemporaryDirectory() as folder:
        p.save_pickle(Path(folder) / "run.pickle")
        annotations = pickle.loads((Path(folder) / "run.pickle").read_bytes())["external_annotations"]
    stages = [Counter(one["name"] for one in annotations if one["stage"] == stage) for stage in ("START", "END")]
    return rows, *stages


def requested(row, content):
    return row["contents"].get(content, {"requested_bytes": 0})["requested_bytes"]


def own_parameters(model):
    """Bytes of the parameters of each module itself; a shared one belongs to the first."""
    seen, found = set(), {}
    for name, module in model.named_modules():
        parameters = [one for one in module.parameters(recurse=False) if id(one) not in seen]
        seen.update(map(id, parameters))
        found[name or type(model).__name__] = sum(one.numel() * one.element_size() for one in parameters)
    return found


def check_parameters(model, rows, state_count):
    for name, expected in own_parameters(model).items():
        row = rows.get(name, {"contents": {}})
        assert requested(row, "parameter") == expected, (name, row)
        assert requested(row, "optimizer_state") == state_count * expected, (name, row)


gpt = GPT().cuda()
optimizer = torch.optim.AdamW(gpt.parameters())
step(gpt, optimizer)  # Makes the state, and what is made once, such as workspaces of cuBLAS.
rows, starts, ends = profile(lambda: step(gpt, optimizer))
check_parameters(gpt, rows, 2)
assert set(rows) <= {*own_parameters(gpt), "CrossEntropyLoss", OUTSIDE}, set(rows)
for layer in range(3):
    hidden = requested(rows[f"layers.{layer}.mlp.0"], "kept")
    assert hidden == BATCH * LENGTH * 4 * WIDTH * 4, "the input of GELU is kept for the backward pass"
assert starts == ends and starts["GPT"] == starts["layers.1.attention.qkv"] == 1, (starts, ends)

checkpointed = GPT(is_checkpointed=True).cuda()
optimizer = torch.optim.SGD(checkpointed.parameters(), momentum=0.9)
step(checkpointed, optimizer)
rows, starts, ends = profile(lambda: step(checkpointed, optimizer))
# Two models of one class: the second has a number.
check_parameters(nn.ModuleDict({"GPT#2": checkpointed}), {**rows, "GPT#2": {"contents": {}}}, 1)
name = "GPT#2.layers.2.mlp.0"
assert starts == ends and starts[name] == starts["GPT#2.layers.2"] == 2, "it is computed again"
assert starts["GPT#2"] == 1 and not requested(rows.get(name, {"contents": {}}), "kept"), rows

gpt = checkpointed = optimizer = None  # And with them their names.
gc.collect()
resnet = ResNet().cuda()
optimizer = torch.optim.SGD(resnet.parameters(), momentum=0.9)
step(resnet, optimizer)
rows, starts, ends = profile(lambda: step(resnet, optimizer))
check_parameters(resnet, rows, 1)
assert starts == ends and starts["blocks.1.relu"] == 2, starts


class Odd(nn.Module):
    """Ends its call by the exception that it is given, and calls a module of its own that it does not show."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.hidden = [nn.ReLU()]
        self.raises = None
        self.kept = []

    def forward(self, x):
        x = self.hidden[0](self.inner(x))
        self.kept.append(torch.zeros(1 << 20, device="cuda"))
        if self.raises:
            raise self.raises
        return self.late(x) if hasattr(self, "late") else x


odd = nn.Sequential(Odd(), nn.ReLU()).cuda()
floats = torch.zeros(BATCH, WIDTH, device="cuda")


def call(raises=None):
    odd[0].raises = raises
    try:
        odd(floats)
        assert raises is None
    except (ValueError, KeyboardInterrupt) as error:
        assert error is raises


rows, starts, ends = profile(lambda: call(ValueError("of the model's own")))
assert starts == ends and set(starts) == {"Sequential", "0", "0.inner", "0.ReLU"}, (starts, ends)
rows, starts, ends = profile(lambda: [call(KeyboardInterrupt()), call()])
assert requested(rows["0"], "kept") == 2 * 4 << 20, rows  # The other was before the block.
assert starts["0"] == 2 and ends["0"] == 1 and starts["Sequential"] == ends["Sequential"] == 2, (starts, ends)
outside = []
rows, starts, ends = profile(lambda: outside.append(torch.zeros(1 << 20, device="cuda")))
assert not starts and not any("kept" in row["contents"] for row in rows.values()), (starts, rows)
odd[0].late = nn.Linear(WIDTH, WIDTH).cuda()
rows, starts, ends = profile(call)
assert starts == ends and starts["0.late"] == 1, starts
assert requested(rows["0.late"], "parameter") == 4 * (WIDTH * WIDTH + WIDTH), rows


class Secretive(nn.Linear):
    def named_modules(self, *_, **__):
        raise ValueError("none of your business")


# What TorchScript and torch.export make are modules, too; and a mark never ends a program.
linear = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
ones = torch.ones(2, 4)
expected = linear(ones).tolist()
scripted, traced = torch.jit.script(linear), torch.jit.trace(linear, ones)
exported = torch.export.export(linear, (ones,))
assert scripted(ones).tolist() == traced(ones).tolist() == exported.module()(ones).tolist() == expected
assert torch.func.vmap(torch.func.grad(lambda x: linear(x).sum()))(ones).shape == (2, 4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    Secretive(4, 4)(ones)
assert "Secretive after their classes: none of your business" in str(caught[-1].message), caught
