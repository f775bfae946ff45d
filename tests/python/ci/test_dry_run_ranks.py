"""Single ranks of distributed jobs (`vramtape dry-run --world-size`): the program is unmodified, and so is PyTorch's
process group; the other ranks are absent."""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import dry_runs
from dry_runs import SCRATCH, SEEN

import schemas
from harness import PACKAGE, clean_environment, run_cases

MIB = 1 << 20
# A communicator of eight H100: 16 channels of 4 connections of 10 + 2 MiB, and NVLink SHARP's 16 of 10 MiB.
NCCL_BYTES = (16 * 4 * 12 + 16 * 10) * MIB

BEGIN = """
import os, sys, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
def layers():
    return nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(4)]).cuda()
def train(model, parameters=None):
    optimizer = torch.optim.AdamW(parameters or model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(64, 1024, device="cuda")).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
"""
END = """
print("peak", torch.cuda.max_memory_allocated(), flush=True)
dist.destroy_process_group()
"""

SHARDED = """
from torch.distributed.fsdp import fully_shard
model = layers()
for layer in model:
    fully_shard(layer)
fully_shard(model)
held = sum(parameter.to_local().untyped_storage().nbytes() for parameter in model.parameters())
print("sharded", rank, size, held)
train(model)
"""

REPLICATED = """
# Objects are those of this rank, the store answers for the others, and nothing waits.
mine = {"rank": rank}
everyone = [None] * size
dist.all_gather_object(everyone, mine)
assert everyone == [mine] * size, everyone
sent = [mine, "text"]
dist.broadcast_object_list(sent, src=0)
assert sent == [mine, "text"], sent
gathered = [None] * size if rank == 3 else None
dist.gather_object(mine, gathered, dst=3)
assert gathered == [mine] * size, gathered
received = [None]
dist.scatter_object_list(received, [mine] * size, src=rank)
assert received == [mine], received
dist.barrier()
store = dist.distributed_c10d._get_default_store()
store.set(f"address of {rank}", "here")
assert store.get(f"address of {(rank + 1) % size}") == b"here"
on_cpu = dist.new_group(backend="gloo")
dist.barrier(on_cpu)

# Every collective of tensors, in place and not.
tensor, some = torch.ones(size * 4, device="cuda"), torch.ones(4, device="cuda")
work = dist.all_reduce(tensor, async_op=True)
work.wait()
dist.broadcast(tensor, src=0)
dist.reduce(tensor, dst=0)
dist.all_gather_into_tensor(tensor, some)
dist.all_gather(list(tensor.chunk(size)), some)
dist.reduce_scatter_tensor(some, tensor)
dist.all_to_all_single(torch.empty_like(tensor), tensor)
requests = dist.batch_isend_irecv([
    dist.P2POp(dist.isend, some, (rank + 1) % size), dist.P2POp(dist.irecv, some.clone(), (rank - 1) % size)])
[request.wait() for request in requests]

from torch.nn.parallel import DistributedDataParallel
train(DistributedDataParallel(layers(), device_ids=[torch.cuda.current_device()]))

from torch.distributed.fsdp import FullyShardedDataParallel
train(FullyShardedDataParallel(layers(), use_orig_params=True))

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("data", "tensor"))
model = nn.Sequential(nn.Linear(1024, 4096), nn.Linear(4096, 1024)).cuda()
train(parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "1": RowwiseParallel()}))
"""

PIPELINE = """
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
device = torch.device("cuda", torch.cuda.current_device())
shape = torch.empty(16, 1024, device="meta", requires_grad=True)
shapes = {"input_args": (shape,), "output_args": (shape,)} if sys.argv[1:] == ["shapes"] else {}
model, batch = layers(), torch.ones(64, 1024, device="cuda")
schedule = ScheduleGPipe(PipelineStage(model, rank, size, device, **shapes), 4, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    schedule.step(*[batch][rank:], **({"target": batch} if rank == size - 1 else {}))
    optimizer.step()
"""


class Ran(dry_runs.Ran):
    """A dry run of ranks."""

    def lines(self, word):
        """The words behind this one in the lines that the program printed."""
        printed = self.done.stdout.partition("fits")[0]
        return [line.split()[1:] for line in printed.splitlines() if line.startswith(f"{word} ")]


def only_the_wanted_ranks_run_and_each_holds_its_shard():
    ran = Ran(BEGIN + SHARDED + END, "--gpu", "h100", "--world-size", "512", "--rank", "0,511")
    # 1024 rows over 512 ranks: 2 rows of 1024 weights, 2 biases, 4 layers, 4 bytes each.
    held = str(4 * 4 * (2 * 1024 + 2))
    assert ran.lines("sharded") == [["0", "512", held], ["511", "512", held]], ran.said
    assert [row["rank"] for row in ran.result["ranks"]] == [0, 511], ran.result
    for row, (peak,) in zip(ran.result["ranks"], ran.lines("peak")):
        (device,) = row["result"]["devices"]
        assert device["peak_allocated_bytes"] == int(peak), (device, peak)
        assert row["result"]["verdict"] == "fits" and row["result"]["gpu"]["count"] == 8, row
    assert "rank 0 of 512 takes the most of those run" in ran.done.stdout, ran.said
    never = {place for place in schemas.properties("dry-run.json") if place.startswith("/$defs/ranks/")}
    assert never <= {place for _, place in SEEN.places}, "the schema has nothing that is never printed"


def the_collectives_of_every_kind_of_parallelism_end():
    ran = Ran(BEGIN + REPLICATED + END, "--gpu", "h100", "--world-size", "8", "--rank", "3")
    (row,) = ran.result["ranks"]
    (device,) = row["result"]["devices"]
    assert device["peak_allocated_bytes"] == int(ran.lines("peak")[0][0]), (device, ran.said)
    assert row["result"]["not_simulated"] == [], row


def stages_of_a_pipeline_run_where_their_shapes_are_given():
    flags = ("--gpu", "h100:1", "--world-size", "4", "--rank")
    ran = Ran(BEGIN + PIPELINE + END, *flags, "0,1,3", words=("shapes",))
    for row, (peak,) in zip(ran.result["ranks"], ran.lines("peak")):
        (device,) = row["result"]["devices"]
        assert device["peak_allocated_bytes"] == int(peak), (row, ran.said)
        assert row["result"]["gpu"]["count"] == 1, "a node of one GPU"
    assert "PipelineStage(..., input_args=" in Ran(BEGIN + PIPELINE + END, *flags, "1", code=3).said


def torchrun_runs_every_rank_on_its_own_gpu():
    program = (
        BEGIN
        + """
everyone = [None] * size
dist.all_gather_object(everyone, "mine")
assert everyone == ["mine"] * 2, everyone
train(nn.parallel.DistributedDataParallel(layers()))
"""
        + END
    )
    ran = Ran(program, "--gpu", "h100:2", words=("-m", "torch.distributed.run", "--nproc-per-node", "2", "program.py"))
    peaks = [device["peak_allocated_bytes"] for device in ran.result["devices"]]
    assert [device["device"] for device in ran.result["devices"]] == [0, 1], ran.result
    # The ranks print in any order.
    printed = sorted(int(peak) for (peak,) in ran.lines("peak"))
    assert sorted(peaks) == printed, (peaks, ran.said)


def buffers_of_nccl_are_an_estimate_outside_the_allocator():
    program = BEGIN + "dist.all_reduce(torch.ones(4, device='cuda'))\n" + END
    for gpu, expected in (("h100", NCCL_BYTES), ("l4", 4 * 4 * 12 * MIB)):
        ran = Ran(program, "--gpu", gpu, "--world-size", "8")
        (device,) = ran.result["ranks"][0]["result"]["devices"]
        assert device["outside_bytes"] == expected, (gpu, device)
        assert device["bounds"]["outside_bytes"] == {"lower": expected // 2, "upper": 2 * expected}, device
    alone = Ran(program, "--gpu", "h100", "--world-size", "1").result["ranks"][0]["result"]["devices"][0]
    assert alone["outside_bytes"] == 0, alone


def a_log_of_nccl_replaces_the_estimate():
    program = BEGIN + "dist.all_reduce(torch.ones(4, device='cuda'))\n" + END
    folder = tempfile.mkdtemp(dir=SCRATCH.name)

    def log(name, *lines):
        with open(os.path.join(folder, name), "w") as file:
            file.writelines(f"{line}\n" for line in lines)

    alone = "node:71:75 [0] NCCL INFO init.cc:9 Cuda Alloc Size {} pointer 0x7f"
    paged = "node:72:{} [1] NCCL INFO CUMEM allocated shareable buffer 0x7f size 10485760"
    small = "node:72:80 [1] NCCL INFO transport.cc:55 Cuda Alloc Size 512 pointer 0x7f"
    host = "node:72:80 [1] NCCL INFO misc.cc:5 Cuda Host Alloc Size 999999999 pointer 0x7f"
    log("mapped.log", "step 1", alone.format(4 * MIB), paged.format(80), paged.format(81), small, small, host)
    log("plain.log", alone.format(4 * MIB), alone.format(512))
    log("none.log", "step 1", host)
    flags = ("--gpu", "h100", "--world-size", "8", "--nccl-log")
    # Each allocation of virtual memory has pages of 2 MiB; the others may share them.
    for name, expected, lower, upper in (("mapped.log", 24, 22, 24), ("plain.log", 6, 6, 6)):
        (row,) = Ran(program, *flags, name, folder=folder).result["ranks"]
        (device,) = row["result"]["devices"]
        bounds = device["bounds"].get("outside_bytes", {"lower": upper * MIB, "upper": upper * MIB})
        assert device["outside_bytes"] == expected * MIB, (name, device)
        assert bounds == {"lower": lower * MIB, "upper": upper * MIB}, (name, device)
    for name, said in (("none.log", "NCCL_DEBUG_SUBSYS=ALLOC,P2P"), ("absent.log", "cannot read absent.log")):
        ran = Ran(program, *flags, name, folder=folder, code=2)
        assert said in ran.done.stderr and "Traceback" not in ran.said, ran.said


def one_rank_keeps_its_tape_and_its_page():
    program = BEGIN + "torch.ones(1, device='cuda')\n" + END
    ran = Ran(program, "--gpu", "h100", "--world-size", "8", "--rank", "5", "-o", "tapes", "--html", "page.html")
    (row,) = ran.result["ranks"]
    assert row["result"]["tapes"] and "<html" in ran.read("page.html"), ran.result
    assert all(os.path.exists(os.path.join(ran.folder, tape)) for tape in row["result"]["tapes"]), row
    ran = Ran(program, "--world-size", "8", "--rank", "0,1", "-o", "tapes", code=2)
    assert "leave out -o" in ran.done.stderr, ran.said


def the_worst_rank_decides():
    ran = Ran(
        BEGIN + "torch.empty(100 << 30 if rank else 1, dtype=torch.uint8, device='cuda')\n" + END,
        *("--gpu", "h100", "--world-size", "4", "--rank", "0,1"),
        code=1,
    )
    assert [row["result"]["verdict"] for row in ran.result["ranks"]] == ["fits", "does not fit"], ran.result
    assert "does not fit: rank 1 of 4" in ran.done.stdout, ran.said


def python_has_it_too():
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    with open(os.path.join(folder, "program.py"), "w", encoding="utf-8") as file:
        file.write(BEGIN + "torch.ones(1, device='cuda')\n" + END)
    call = (
        "import json, vramtape\n"
        "print(json.dumps(vramtape.dry_run(['program.py'], gpu='l4', world_size=4, ranks=[1, 3])))\n"
        "try: vramtape.dry_run(['program.py'], world_size=4, ranks=[4])\n"
        "except ValueError as error: assert 'no rank of 4' in str(error), error\n"
        "else: raise AssertionError('rank 4 of 4 ran')\n"
    )
    environment = clean_environment(TMPDIR=SCRATCH.name, **PACKAGE)
    done = subprocess.run([sys.executable, "-c", call], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    SEEN.check("dry-run", result)
    assert [row["rank"] for row in result["ranks"]] == [1, 3], result
    assert not any(row["result"]["tapes"] for row in result["ranks"]), result


def mistakes_are_usage():
    for flags, words, said in (
        (["--rank", "1"], (), "--world-size"),
        (["--world-size", "8", "--rank", "8"], (), "no rank of 8"),
        (["--world-size", "8", "--rank", "0,x"], (), "'x' is no rank"),
        (["--world-size", "0"], (), "--world-size=0"),
        (["--world-size", "8", "--gpu", "all"], (), "leave out --gpu all"),
        (["--world-size", "8"], ("-m", "torch.distributed.run", "program.py"), "without torch.distributed.run"),
    ):
        ran = Ran("", *flags, words=words, code=2)
        assert said in ran.done.stderr and "Traceback" not in ran.said, (flags, ran.said)


CASES = [
    the_collectives_of_every_kind_of_parallelism_end,
    only_the_wanted_ranks_run_and_each_holds_its_shard,
    stages_of_a_pipeline_run_where_their_shapes_are_given,
    torchrun_runs_every_rank_on_its_own_gpu,
    buffers_of_nccl_are_an_estimate_outside_the_allocator,
    a_log_of_nccl_replaces_the_estimate,
    one_rank_keeps_its_tape_and_its_page,
    the_worst_rank_decides,
    python_has_it_too,
    mistakes_are_usage,
]
run_cases([(f"dry_run_ranks.{case.__name__}", case) for case in CASES])
