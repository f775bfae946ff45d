"""The values of a dry run (docs/values.md): programs that read values go on, exact ones are exact, guesses are counted.

The programs of one dry run share its process: starting PyTorch takes most of the time.
"""

import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import dry_runs

from harness import COMMAND, ROOT, run_cases

sys.path.insert(0, os.path.join(ROOT, "python"))
from vramtape._values import table

BEGIN = """
import torch
from torch import nn
from torch.nn import functional as F
torch.manual_seed(0)
"""

TRAINING = """
# A loss scaler skips no step, and its scale grows at every third.
net = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda", growth_interval=3)
steps = 0
def count(*_): global steps; steps += 1
optimizer.register_step_post_hook(count)
for _ in range(7):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = net(torch.randn(4, 8, device="cuda")).square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
assert steps == 7, steps
assert scaler.get_scale() == 65536 * 4, scaler.get_scale()

# Everything is finite, also where it is large.
x = torch.randn(300, 300, device="cuda") @ torch.randn(300, 300, device="cuda")
assert torch.isfinite(x).all() and not torch.isnan(x).any() and not torch.isinf(x).any()
assert not (x != x).any() and not torch.isnan(x.sum())

# A loss falls from read to read, so that a program that waits for a better one does not stop.
read = [net(torch.randn(4, 8, device="cuda")).mean().item() for _ in range(20)]
assert all(1 < after < before for before, after in zip(read, read[1:])), read

# An accuracy is a share, and close to that of random predictions.
predicted = torch.randn(1000, 10, device="cuda").argmax(1)
labels = torch.randint(10, (1000,)).cuda()
correct = (predicted == labels).sum().item()
assert 50 < correct < 200, correct
assert abs((predicted == labels).float().mean().item() - correct / 1000) < 1e-6
print("steps", steps)
"""

EXACT = """
# The host's results of the same operators.
table = torch.tensor([[4, 1, 9], [2, 7, 3]])
def program(table):
    sums = (table * 2 + 1).cumsum(1)
    kept = torch.where(sums > 10, sums, 0)
    order = table.flatten().sort(descending=True)[1]
    return [
        sums.tolist(), kept[:, 1:].tolist(), order.tolist(), table.max().item(), table.topk(2).indices.tolist(),
        (table > 3).nonzero().tolist(), table[table > 3].tolist(), torch.unique(table % 3).tolist(),
        torch.bincount(table.flatten()).tolist(), (table == 9).any().item(), torch.cat([table, table]).tolist(),
        torch.repeat_interleave(torch.arange(2, device=table.device), table[:, 1]).tolist(),
        torch.zeros(3, dtype=torch.int64, device=table.device).index_add(0, table[:, 1] % 3, table[:, 2]).tolist(),
        torch.zeros(10, device=table.device).scatter_add_(0, table[0], table[1].float()).tolist(),
        torch.histc(table.float(), 3, 0, 9).tolist(),
    ]
exact = program(table)
assert program(table.cuda()) == exact, (program(table.cuda()), exact)
with torch.inference_mode():
    assert program(table.cuda()) == exact
made = torch.zeros(4, device="cuda")
made[0] = 5
made[1:3] = torch.tensor([1.5, 2.5])
assert made.tolist() == [5, 1.5, 2.5, 0] and torch.ones(2, device="cuda").tolist() == [1, 1]
assert torch.arange(3, 9, 2, device="cuda").tolist() == [3, 5, 7] and torch.full((2,), 7, device="cuda")[1] == 7
assert torch.equal(table.cuda(), table.cuda()) and not torch.equal(table.cuda(), table.cuda() + 1)
lengths = torch.tensor([3, 5, 2]).cuda()
mask = torch.arange(5, device="cuda")[None] < lengths[:, None]
assert mask.sum(1, keepdim=True).shape == (3, 1) and int(mask.sum()) == 10 and len(mask.nonzero()) == 10
assert torch.randn(3, 5, device="cuda")[mask].shape == (10,)
# A number beside a tensor of the host keeps its precision.
assert (torch.ones(1, dtype=torch.bfloat16) * 0.1).item() == torch.tensor(0.1).bfloat16().item()
print("exact")
"""

OVERFLOW = """
# DeepSpeed's check of gradients: it takes the largest of a mask as numbers.
for size in (100, 1_000_000):
    gradient = torch.randn(size, device="cuda", dtype=torch.bfloat16).float()
    bad = gradient.isnan().logical_or(gradient.isinf())
    assert bad.float().max().item() == 0
    count = torch.zeros(1, device="cuda")
    count += bad.float().max()
    assert not count.bool().byte()[0].item()
norm = gradient.norm()
assert not (~torch.isfinite(norm) | (norm < 0)).any() and norm > 0 and not norm >= 3
"""

FORGOTTEN = """
# An operator that is not in the list changes a tensor whose content was known: it is a guess from then on.
values = torch.zeros(3, device="cuda")
values.uniform_()
assert all(1 < one <= 2 for one in values.tolist()), values.tolist()
# A kernel that reads values of its arguments accepts them, also in inference mode.
with torch.inference_mode():
    torch.histc(torch.randn(100, device="cuda"), 3)
    # Tensors of inference mode have no version that an operator raises.
    total, drawn, part = (torch.zeros(4, device="cuda") for _ in range(3))
    total += torch.randn(4, device="cuda")
    drawn.normal_()
    part[1] = torch.randn(1, device="cuda")[0]
    for changed in (total, drawn, part):
        assert all(1 < one <= 2 for one in changed.tolist()), changed.tolist()
    counted = torch.zeros((), device="cuda")
    for _ in range(3):
        counted += 2.0
    assert counted.item() == 6 and counted.div_(2).item() != 6
    numbers = torch.randn(1_000_000, device="cuda").isnan().float()
    numbers += torch.randn(1_000_000, device="cuda")
    assert numbers.max().item() > 1
assert len(torch.repeat_interleave(torch.randn(5, device="cuda").long())) == 5
# A kernel fills its result with zeros first.
assert torch.histc(torch.randn(100, device="cuda"), 3).tolist() != [0, 0, 0]
assert torch.zeros(3, device="cuda").index_add(0, torch.tensor([1]).cuda(), values[:1]).tolist() != [0, 0, 0]
"""

STALE_IN_GRAPH = """
# Replays of a CUDA graph change a tensor without a call of its operators.
static, graph = torch.zeros(3, device="cuda"), torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    after = static + 1
graph.replay()
assert after.tolist() != [1, 1, 1]
"""

ROUTING = """
# A mixture of experts: each token goes to two experts, and the experts' counts are those of the indices.
class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.gate = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))
    def forward(self, tokens):
        weights, chosen = self.gate(tokens).softmax(-1).topk(2)
        output, self.counts = torch.zeros_like(tokens), []
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            self.counts.append(len(token))
            output.index_add_(0, token, expert(tokens.index_select(0, token)) * weights[token, place, None])
        self.chosen = chosen
        return output
model = Experts(32, 8).cuda()
model(torch.randn(256, 32, device="cuda")).sum().backward()
assert sum(model.counts) == 512 and min(model.counts) > 30, model.counts
assert torch.bincount(model.chosen.flatten(), minlength=8).tolist() == model.counts
assert F.one_hot(model.chosen, 8).sum((0, 1)).tolist() == model.counts
assert all(len(set(row)) == 2 for row in model.chosen.tolist())
sizes = F.one_hot(model.chosen.flatten(), 8).sum(0).tolist()
assert [len(part) for part in torch.randn(512, 4, device="cuda").split(sizes)] == sizes
# Too many indices to be drawn one by one are spread evenly.
large = torch.randn(30_000, 8, device="cuda").topk(2).indices
assert torch.bincount(large.flatten(), minlength=8).tolist() == [7500] * 8 and int(large.max()) == 7
assert len(torch.where(large == 3)[0]) == 7500
assert F.one_hot(large[:100].flatten(), 8).sum(0).tolist() == [25] * 8

# Sampled tokens are tokens.
sampled = torch.multinomial(torch.randn(4, 50, device="cuda").softmax(-1), 5)
assert all(0 <= one < 50 for row in sampled.tolist() for one in row)
assert all(len(set(row)) == 5 for row in sampled.tolist())

# A generation ends where a token is the end of the text, or at its greatest length.
lengths = []
embedding, head = nn.Embedding(200, 16).cuda(), nn.Linear(16, 200).cuda()
for _ in range(20):
    text = torch.tensor([[5, 6]]).cuda()
    with torch.inference_mode():
        while text.shape[1] < 100:
            token = head(embedding(text[:, -1])).argmax(-1, keepdim=True)
            text = torch.cat([text, token], 1)
            if (token == 3).all():
                break
    assert all(0 <= one < 200 for one in text[0].tolist())
    lengths.append(text.shape[1])
assert max(lengths) == 100 and min(lengths) < 100, lengths

# A program that stops when the loss does not improve goes on, and one that stops at an epoch ends.
best, patience, epochs = float("inf"), 0, 0
while patience < 3 and epochs < 25:
    loss = head(embedding(torch.tensor([1, 2]).cuda())).mean()
    best, patience = (loss.item(), 0) if loss.item() < best else (best, patience + 1)
    epochs += 1
assert epochs == 25, epochs
print("routed")
"""

MASKS = """
kept = []
def step(numbers):
    kept[:] = [numbers[numbers > 0], (numbers > 1).nonzero()]
    return [len(one) for one in kept]
lengths = step(torch.randn(100_000, device="cuda"))
print("lengths", *lengths)
print("allocated", torch.cuda.max_memory_allocated())
"""

EXPERT = """
tokens = torch.randn(20_000, 64, device="cuda")
expert = torch.randn(64, 1024, device="cuda")
chosen = torch.randn(20_000, 8, device="cuda").argmax(1) == 3
hidden = tokens[chosen] @ expert
print("served", torch.cuda.max_memory_allocated())
"""

NOT_EMPTY = """
assert len(hidden), "no tokens"
"""

LIBRARIES = """
# Factorisations succeed, also where the program checks it, and windows do not add up to 0.
x = torch.randn(5, 20, 20, device="cuda")
for matrix in (x, x[0]):
    torch.linalg.inv(matrix), torch.linalg.solve(matrix, matrix), torch.linalg.ldl_factor(matrix)
    torch.linalg.eig(matrix)
    for info in (torch.linalg.cholesky_ex(matrix).info, torch.linalg.inv_ex(matrix).info):
        assert not info.any() and info.tolist() in (0, [0] * 5)
window = torch.hann_window(400, device="cuda")
spectrum = torch.stft(torch.randn(2, 16000, device="cuda"), 400, 160, window=window, return_complex=True)
torch.istft(spectrum, 400, 160, window=window)
"""

SPARSE = """
embedding = nn.Embedding(1000, 64, sparse=True, device="cuda")
optimizer = torch.optim.SparseAdam(embedding.parameters())
embedding(torch.randint(0, 1000, (500,), device="cuda")).sum().backward()
optimizer.step()
print("entries", embedding.weight.grad.coalesce()._nnz())
"""

COMPILED = """
import math
@torch.compile(backend="aot_eager")
def choose(logits, labels):
    best = logits.argmax(1)
    return best, (best == labels).sum(), labels + 1
labels = torch.tensor([4, 1, 3]).cuda()
best, correct, after = choose(torch.randn(3, 5, device="cuda"), labels)
assert after.tolist() == [5, 2, 4] and all(0 <= one < 5 for one in best.tolist()), (after.tolist(), best.tolist())
assert 0 <= correct.item() <= 3
@torch.compile(backend="aot_eager", dynamic=True)
def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1
assert branch(torch.tensor([1, 2]).cuda()).tolist() == [2, 3]
assert branch(torch.tensor([-1, -2]).cuda()).tolist() == [-2, -3]
# Symbolic numbers beside a tensor, as a length of dynamic shape.
@torch.compile(backend="aot_eager", dynamic=True)
def scaled(x):
    return (x / math.sqrt(x.shape[-1])).add_(x.shape[0]) * x.shape[0]
for length in (4, 9, 16):
    assert scaled(torch.ones(2, length, device="cuda")).shape == (2, length)
# A number is a number in a traced graph, not a tensor that is a constant of it.
from torch.fx.experimental.proxy_tensor import make_fx
for mode in ("real", "fake", "symbolic"):
    graph = make_fx(lambda x: (x + 1e-5).mul_(2), tracing_mode=mode)(torch.ones(3, device="cuda")).graph
    assert not [node for node in graph.nodes if node.op == "get_attr"], graph
"""

THREADS = """
import threading
wrong = []
def work(number):
    for _ in range(20):
        if (torch.full((5,), number).cuda() + 1).tolist() != [number + 1] * 5: wrong.append(number)
threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong, wrong
# What a checkpoint computes again in the backward pass has the values of the first time.
from torch.utils.checkpoint import checkpoint
def routed(x, known):
    places = known.nonzero().flatten()
    return x.index_select(0, places) * known.sum()
known, weight = torch.tensor([0, 1, 1, 0]).cuda(), torch.randn(4, 4, device="cuda", requires_grad=True)
for is_reentrant in (False, True):
    checkpoint(routed, weight, known, use_reentrant=is_reentrant).sum().backward()
# So has the backward of indexing by a mask, which is known or not.
for mask in (known.bool(), weight[0] > 0):
    weight[mask].sum().backward()
# So has the backward of a function of the program's own.
class Own(torch.autograd.Function):
    @staticmethod
    def forward(context, x): return x * 2
    @staticmethod
    def backward(context, gradient):
        assert (known + 1).tolist() == [1, 2, 2, 1] and torch.isfinite(gradient).all()
        return gradient * 2
Own.apply(weight).sum().backward()
# Workers of a data loader have the hooks, and no GPU.
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, at): return (torch.arange(3) + at).clamp(max=4)
batches = [batch.cuda() for batch in torch.utils.data.DataLoader(Data(), 2, num_workers=1)]
assert batches[1].tolist() == [[2, 3, 4], [3, 4, 4]], batches[1].tolist()
# A mode of the program sees its own calls only.
from torch.overrides import TorchFunctionMode
class Calls(TorchFunctionMode):
    names = []
    def __torch_function__(self, function, types, arguments=(), named=None):
        self.names.append(function.__name__)
        return function(*arguments, **(named or {}))
known, other = torch.tensor([1, 2]).cuda(), torch.tensor([3, 4]).cuda()
with Calls():
    known.add(other).tolist()
assert set(Calls.names) <= {"add", "tolist", "__get__"}, Calls.names
"""

FAILS = """
from vramtape._values import results
def broken(*_): raise ZeroDivisionError
results.compute = broken
assert (torch.tensor([1]).cuda() + 1).shape == (1,)
"""

# Nothing is read: the model must not change an allocation. What the interpreter frees at its end is left out.
TRAIN_WITHOUT_READS = """
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)))) * torch.tensor(2.0, device="cuda")
def train():
    model = nn.Sequential(nn.Embedding(500, 64), *[Block(64) for _ in range(3)], nn.Linear(64, 500)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        tokens = torch.randint(500, (4, 33)).cuda()
        mask = (tokens[:, 1:] > 5) & (tokens[:, 1:] != 7)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        loss = torch.where(mask.flatten(), loss, 0).sum() / mask.sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
train()
"""


class Ran(dry_runs.Ran):
    """A dry run of some programs, one after another."""

    def __init__(self, *programs, code=0, flags=(), **settings):
        super().__init__("\n".join([BEGIN, *programs]), *flags, code=code, **settings)

    @property
    def guesses(self):
        return self.result["guesses"]

    def counts(self):
        return {row["operator"]: row["count"] for row in self.guesses["operators"]}

    def shapes(self):
        return {row["operator"]: row["shapes"] for row in self.guesses["operators"] if row["shapes"]}

    def printed(self, name):
        (line,) = [line for line in self.done.stdout.splitlines() if line.startswith(f"{name} ")]
        return [int(word) for word in line.split()[1:]]


def what_trains_goes_on():
    ran = Ran(TRAINING)
    assert ran.guesses["failures"] == [] and ran.shapes() == {}, ran.guesses
    assert ran.counts()["item"] >= 20, ran.guesses
    assert "peak_allocated_bytes" not in ran.result["devices"][0]["bounds"], "a value that was read takes no memory"
    (line,) = [line for line in ran.done.stdout.splitlines() if line.startswith("guesses: ")]
    assert re.fullmatch(r"guesses: \d+ values? of item", line), line


def what_is_known_on_the_host_is_exact():
    ran = Ran(EXACT)
    assert ran.guesses["operators"] == [] and ran.guesses["failures"] == [], ran.guesses
    assert "guesses" not in ran.done.stdout, ran.done.stdout


def gradients_are_finite_where_their_mask_becomes_numbers():
    ran = Ran(OVERFLOW)
    assert ran.counts() == {"item": 3} and ran.guesses["failures"] == [], ran.guesses


def what_was_changed_is_no_longer_known():
    ran = Ran(FORGOTTEN, STALE_IN_GRAPH)
    assert ran.counts() == {"copy to the host": 7, "item": 2, "repeat_interleave": 1}, ran.guesses


def routed_and_sampled_indices_are_in_range():
    ran = Ran(ROUTING)
    assert ran.guesses["failures"] == [] and ran.shapes()["nonzero"] >= 9, ran.guesses
    again = Ran(ROUTING)
    assert again.guesses == ran.guesses, "the model is seeded: two runs are equal"


def bounds_of_guessed_shapes_hold():
    """The peaks of runs with the smallest and the largest guesses are within the bounds of a likely one."""
    likely, low, high = (Ran(MASKS, VRAMTAPE_VALUES=level) for level in ("likely", "low", "high"))
    assert likely.printed("lengths") == high.printed("lengths") == [100_000] * 2 and low.printed("lengths") == [0, 0]
    assert likely.shapes() == {"index": 1, "nonzero": 2}, likely.guesses
    for ran in (likely, low, high):
        (device,) = ran.result["devices"]
        for name in ("peak_allocated_bytes", "peak_reserved_bytes"):
            bounds = device["bounds"][name]
            peaks = [other.result["devices"][0][name] for other in (low, likely, high)]
            assert bounds["lower"] <= min(peaks) and max(peaks) <= bounds["upper"], (name, peaks, bounds)
    guesses = likely.guesses
    assert guesses["live_max_bytes"] >= 400_000 and guesses["lower_bytes"] == 0, guesses
    assert guesses["upper_bytes"] == guesses["live_max_bytes"], "all elements are the most"
    assert low.guesses["live_max_bytes"] == 0 and low.guesses["upper_bytes"] >= guesses["upper_bytes"], low.guesses
    assert "in these shapes, between 0 B and " in likely.done.stdout, likely.done.stdout


def runs_with_other_guesses_bound_what_is_computed_from_them():
    """The tokens of an expert are small, and its activations are not."""
    one, bounded, high = Ran(EXPERT), Ran(EXPERT, flags=["--bounds"]), Ran(EXPERT, VRAMTAPE_VALUES="high")
    (most_bytes,) = high.printed("served")
    for ran, is_bound in ((one, False), (bounded, True)):
        bounds = ran.device["bounds"]["peak_allocated_bytes"]
        assert (bounds["upper"] >= most_bytes) == is_bound, (bounds, most_bytes)
        assert ran.guesses["is_bounded_by_runs"] == is_bound, ran.guesses
    assert one.device["peak_allocated_bytes"] == bounded.device["peak_allocated_bytes"]
    assert bounded.device["bounds"]["device_total_bytes"]["upper"] >= most_bytes
    assert "--bounds includes what is computed from them" in one.done.stdout, one.done.stdout


def a_run_with_other_guesses_that_fails_is_no_bound():
    ran = Ran(EXPERT, NOT_EMPTY, flags=["--bounds"])
    assert "no tokens" in ran.said and not ran.guesses["is_bounded_by_runs"], ran.said
    (why,) = ran.result["why"]
    assert why.startswith("the run with the least elements of guessed shapes did not end well"), why
    # With the most elements it is out of memory.
    small = Ran(EXPERT, flags=["--bounds", "--gpu", "96MiB"], code=dry_runs.DOES_NOT_FIT)
    assert "the run with the most elements of guessed shapes is out of memory" in small.result["why"][-1], small.result


def factorisations_succeed_and_entries_of_sparse_tensors_are_counted():
    exact = Ran(LIBRARIES)
    assert exact.counts() == {}, exact.guesses
    ran, low = Ran(SPARSE), Ran(SPARSE, VRAMTAPE_VALUES="low")
    assert ran.printed("entries") == [500] and low.printed("entries") == [1]
    assert ran.shapes() == {"coalesce": 2}, ran.guesses
    row_bytes = 64 * 4
    guesses = ran.guesses
    assert guesses["upper_bytes"] == guesses["live_max_bytes"] >= 500 * row_bytes, guesses
    assert guesses["lower_bytes"] <= 2 * row_bytes, guesses


def a_level_and_bounds_exclude_each_other():
    ran = Ran(EXPERT, flags=["--bounds"], code=dry_runs.USAGE, VRAMTAPE_VALUES="low")
    assert "--bounds runs low and high itself: leave out VRAMTAPE_VALUES=low" in ran.done.stderr, ran.done.stderr


def compiled_programs_and_threads_have_values():
    ran = Ran(COMPILED, THREADS)
    assert ran.guesses["failures"] == [], ran.guesses


def an_error_in_the_model_does_not_reach_the_program():
    ran = Ran(FAILS)
    assert ran.guesses["failures"] == ["add: ZeroDivisionError"], ran.guesses
    assert "errors in the model of values, with 0 instead: add: ZeroDivisionError" in ran.done.stdout, ran.done.stdout


def allocations_without_reads_are_those_without_the_model():
    runs = [Ran(TRAIN_WITHOUT_READS, flags=["-o", "tapes"], VRAMTAPE_VALUES=level) for level in ("off", "likely")]
    off, likely = map(allocations, runs)
    assert len(off) > 300 and off == likely, next(pair for pair in zip(off, likely) if pair[0] != pair[1])
    peaks = [ran.result["devices"][0]["peak_reserved_bytes"] for ran in runs]
    assert peaks[0] == peaks[1], peaks
    return f"{len(off)} records"


def allocations(ran):
    """The requests and frees of a run, with their addresses, in their order."""
    (tape,) = ran.result["tapes"]
    exported = os.path.join(ran.folder, "run.json")
    command = [COMMAND, "export", os.path.join(ran.folder, tape), "-o", exported]
    subprocess.run(command, check=True, capture_output=True, timeout=dry_runs.LIMIT_SECONDS)
    with open(exported) as file:
        (trace,) = json.load(file)["device_traces"]
    return [(entry["action"], entry["addr"], entry["size"], entry["stream"]) for entry in trace]


def the_documented_operators_are_those_of_the_code():
    with open(os.path.join(ROOT, "docs", "values.md"), encoding="utf-8") as file:
        text = file.read()
    lists = dict(re.findall(r"<!-- operators: (\w+) -->\n```text\n(.*?)```", text, re.DOTALL))
    code = {"COMPUTED": table.COMPUTED, "CHANGING": table.CHANGING, "SIZED": table.SIZED}
    assert {name: names.split() for name, names in lists.items()} == code, lists
    missing = [name for name in table.DRAWN if f"`{name.partition('.')[0]}`" not in text]
    assert not missing, missing


def a_level_that_does_not_exist_is_found_before_the_program_runs():
    ran = Ran("print('ran')", code=2, VRAMTAPE_VALUES="some")
    assert "VRAMTAPE_VALUES=some: write likely, low, high or off" in ran.done.stderr, ran.done.stderr
    assert "ran" not in ran.done.stdout.split()


CASES = [
    what_trains_goes_on,
    what_is_known_on_the_host_is_exact,
    gradients_are_finite_where_their_mask_becomes_numbers,
    what_was_changed_is_no_longer_known,
    routed_and_sampled_indices_are_in_range,
    bounds_of_guessed_shapes_hold,
    runs_with_other_guesses_bound_what_is_computed_from_them,
    a_run_with_other_guesses_that_fails_is_no_bound,
    factorisations_succeed_and_entries_of_sparse_tensors_are_counted,
    a_level_and_bounds_exclude_each_other,
    compiled_programs_and_threads_have_values,
    an_error_in_the_model_does_not_reach_the_program,
    allocations_without_reads_are_those_without_the_model,
    the_documented_operators_are_those_of_the_code,
    a_level_that_does_not_exist_is_found_before_the_program_runs,
]

if __name__ == "__main__":
    wanted = sys.argv[1:]
    cases = [(f"dry_run_values.{case.__name__}", case) for case in CASES]
    run_cases([(name, case) for name, case in cases if not wanted or name in wanted])
