"""Marks on the tape: the program's own, and those that torch gives away while it trains."""

import pickle
import sys
import tempfile
from collections import Counter
from pathlib import Path

import vramtape

vramtape.install(route="pluggable")
import torch


def rounded(tensors):
    return sum(-(-tensor.untyped_storage().nbytes() // 512) * 512 for tensor in tensors)


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
features = torch.randn(64, 512, device="cuda")
counted = "counted" in sys.argv


@vramtape.mark("penalty")
def penalty(loss):
    return loss * 2


for wrong in (lambda: vramtape.step("3"), lambda: vramtape.step(1.5), lambda: vramtape.mark(rounded)):
    try:
        wrong()
        raise SystemExit("that is no step and no name")
    except TypeError as error:
        assert "integer" in str(error) or "@vramtape.mark(" in str(error), error

with vramtape.profile() as p:
    for number in range(3):
        if counted:
            assert vramtape.step(10 * number) == 10 * number
        with torch.profiler.record_function("layers"):
            loss = model(features).sum()
        if number == 1:
            vramtape.mark("one moment")
            with vramtape.mark("a block"):
                loss = penalty(loss)
        loss.backward()
        optimizer.step()
        states = [value for state in optimizer.state.values() for value in state.values() if value.is_cuda]
        gradients = [one.grad for one in model.parameters()]
        held = {
            "parameter": rounded(model.parameters()),
            "gradient": rounded(gradients),
            "optimizer_state": rounded(states),
        }
        del states, gradients
        optimizer.zero_grad()

peak = {row["category"]: row["allocated_bytes"] for row in p.memory_stats["peak_held"]}
with tempfile.TemporaryDirectory() as name:
    p.save_pickle(Path(name) / "marks.pickle")
    data = pickle.loads((Path(name) / "marks.pickle").read_bytes())
names = [one["name"] for one in data["external_annotations"] if one["stage"] == "START"]
ends = Counter(one["name"] for one in data["external_annotations"] if one["stage"] == "END")
times = [one["time_us"] for one in data["external_annotations"]]
assert times == sorted(times)
count = Counter(names)
assert (count["one moment"], count["a block"], count["penalty"]) == (1, 1, 1), count
assert count == ends, "every range that began ended"
if "off" in sys.argv:
    assert not peak and set(count) == {"one moment", "a block", "penalty"}, (peak, count)
    sys.exit()

assert count["layers"] == 3 and count["Optimizer.step#AdamW.step"] == 3, count
phases = [name for name in names if name in ("forward", "backward", "optimizer")]
assert phases == ["backward", "forward", "optimizer", "forward"] * 3, phases
steps = [name for name in names if name.startswith("step ")]
assert steps == (["step 0", "step 10", "step 20"] if counted else ["step 1", "step 2", "step 3"]), steps

# All three are there at the peak, and named for the whole of their lives. In 2.15 it comes before the last bias has its
# gradient.
bias = 2048
assert 0 <= held.pop("gradient") - peak["gradient"] <= bias, peak
assert {kind: peak[kind] for kind in held} == held, (peak, held)
assert sum(peak.values()) == p.memory_stats["peak_allocated_bytes"]
categories = {event.get("category") for event in data["device_traces"][0] if event["action"] == "alloc"}
assert categories == {"gradient", "optimizer_state", "unknown"}, categories


def scripted(x):
    with torch.autograd.profiler.record_function("scripted"):
        return x + 1


assert torch.jit.script(scripted)(torch.ones(1)).item() == 2, "TorchScript compiles record_function from its source"
