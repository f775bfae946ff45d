"""`vramtape dry-run` as users meet it: a program on a GPU that is not there, what it takes, and the verdict."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from random import Random

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from dry_runs import DOES_NOT_FIT, FAILED, FITS, INCOMPLETE, SCRATCH, SEEN, USAGE, Ran

import schemas
from harness import COMMAND, PACKAGE, ROOT, clean_environment, run_cases

sys.path.insert(0, os.path.join(ROOT, "python"))
from vramtape._dry_run import search
from vramtape._dry_run.job import Gpu, Job

GIB = 1 << 30
# Dry runs here that end by an out of memory and keep their tapes.
OUT_OF_MEMORY = 2
ENDED = threading.Semaphore(0)

TRAIN = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(20):
    net(torch.ones(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
"""
HOLD = "import torch; held = [torch.empty(1 << 30, dtype=torch.uint8, device='cuda') for _ in range({})]"


def what_fits_is_measured_to_the_byte():
    ran = Ran(TRAIN)
    first, *_ = ran.done.stderr.splitlines()
    assert "a100-80gb" in first and "the default" in first and "compute capability 8.0" in first, first
    assert ran.result["gpu"] == {"name": "a100-80gb", "count": 1, "is_default": True}
    own = [int(number) for number in ran.done.stdout.splitlines()[0].split()]
    device = ran.device
    assert [device["peak_allocated_bytes"], device["peak_reserved_bytes"]] == own, (own, device)
    assert device["device_total_bytes"] == device["peak_reserved_bytes"] + device["context_bytes"], device
    assert device["bounds"]["device_total_bytes"]["upper"] > device["device_total_bytes"], device
    assert ran.result["program"]["steps"] == 20
    assert device["holders"][0]["code"].startswith("program.py:"), device["holders"]
    assert ran.result["smallest_gpu"]["name"] == "rtx3080", ran.result["smallest_gpu"]
    assert "fits on a100-80gb: " in ran.done.stdout and ran.result["tapes"] == []
    return f"{own[1] >> 20} MiB"


def the_gpu_decides_the_workspaces():
    peaks = {gpu: Ran(TRAIN, "--gpu", gpu, "--steps", "3") for gpu in ("l40s", "H100")}
    assert [ran.result["program"]["steps"] for ran in peaks.values()] == [3, 3]
    smaller, larger = (ran.device["peak_allocated_bytes"] for ran in peaks.values())
    # Two threads of PyTorch have a workspace each: of 8,519,680 bytes, and of 33,554,432 where the capability is 9.0.
    assert larger - smaller == 2 * (33_554_432 - 8_519_680), (smaller, larger)
    # A program that ends by itself at the wanted step prints no traceback, and its last lines are not reached.
    assert all("Traceback" not in ran.done.stderr for ran in peaks.values())


def pools_of_the_driver_are_a_model():
    setting = {"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.9, backend:cudaMallocAsync"}
    ran = Ran(TRAIN, "--steps", "3", **setting)
    device = ran.device
    assert device["allocator"] == "cudaMallocAsync" and "by a model of cudaMallocAsync" in ran.done.stdout, ran.result
    allocated, reserved = device["peak_allocated_bytes"], device["peak_reserved_bytes"]
    native = Ran(TRAIN, "--steps", "3").device
    assert allocated == native["peak_allocated_bytes"] and reserved != native["peak_reserved_bytes"], (device, native)
    assert native["allocator"] == "native", native
    bounds = device["bounds"]["peak_reserved_bytes"]
    assert bounds["lower"] == allocated <= reserved <= bounds["upper"] == 2 * reserved - allocated, device
    out = Ran(HOLD.format(3), "--gpu", "2GiB", code=INCOMPLETE, **setting)
    assert "larger GPU" in out.result["why"][0], out.result["why"]
    return f"{reserved >> 20} MiB, {native['peak_reserved_bytes'] >> 20} MiB by PyTorch's own"


def compiled_programs_have_wider_bounds():
    program = """
        import torch
        step = torch.compile(lambda x: (x * 2 + 1).relu())
        step(torch.ones(1 << 28, device="cuda"))
    """
    device = Ran(textwrap.dedent(program), "--gpu", "l4").device
    for name, share in (("peak_allocated_bytes", 0.001), ("peak_reserved_bytes", 0.042)):
        expected, bounds = device[name], device["bounds"][name]
        more = int(expected * share)
        assert bounds == {"lower": expected - more, "upper": expected + more}, (name, bounds, expected)


def programs_that_call_nvidia_smi_list_the_simulated_gpus():
    program = """
        import subprocess, torch
        torch.empty(1, device="cuda")
        for words in ([], ["-L"], ["--query-gpu=gpu_name,memory.total,fan.speed", "--format=csv, noheader, nounits"],
                      ["-i", "1", "--query-gpu=index,compute_cap,memory.used", "--format=csv"], ["-i", "7"], ["topo"]):
            done = subprocess.run(["nvidia-smi", *words], capture_output=True, text=True)
            print(done.returncode, (done.stdout + done.stderr).strip().splitlines())
    """
    ran = Ran(textwrap.dedent(program), "--quiet", "--gpu", "h100:2", PATH=SCRATCH.name)
    summary, gpus, fields, one, none, others = ran.done.stdout.splitlines()[:6]
    h100 = "NVIDIA H100 80GB HBM3"
    assert summary.startswith("0 ['NVIDIA-SMI") and summary.count(h100) == 2, summary
    assert gpus.startswith(f"0 ['GPU 0: {h100} (UUID: GPU-") and gpus.count("UUID") == 2, gpus
    assert fields == f"0 ['{h100}, 81008, [N/A]', '{h100}, 81008, [N/A]']", fields
    assert one == "0 ['index, compute_cap, memory.used [MiB]', '1, 9.0, 0 MiB']", one
    assert none == "6 ['No devices were found']" and others.startswith("1 ['nvidia-smi of a dry run does not"), others


def an_out_of_memory_does_not_fit():
    ran = Ran(HOLD.format(30), "--gpu", "rtx4090", "--markdown", "out.md", "--html", "out.html", code=DOES_NOT_FIT)
    assert "capacity" in ran.result["why"][0] and "1.00 GiB" in ran.result["why"][0], ran.result["why"]
    assert ran.result["smallest_gpu"] is None and ran.result["remedies"], ran.result
    (tape,) = ran.result["tapes"]
    assert tape in ran.done.stderr, "the exception names the tape, which is kept"
    explained = subprocess.run([COMMAND, "explain", tape, "--json"], check=True, capture_output=True, text=True)
    assert json.loads(explained.stdout)["oom"]["verdict"] == "capacity"
    assert ran.read("out.md").startswith("### does not fit on rtx4090: ") and "<html" in ran.read("out.html")


def a_request_that_is_refused_and_handled_fits():
    handled = f"{HOLD.format(2)}\ntry:\n    torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\n"
    ran = Ran(handled + "except torch.OutOfMemoryError:\n    pass\n")
    assert ran.result["handled_refusals"] == 1 and "1 request was refused" in ran.result["why"][0], ran.result


def what_comes_close_to_the_end_of_the_device_does_not_fit():
    ran = Ran(HOLD.format(78), code=DOES_NOT_FIT)
    assert "may need 78.62 GiB of 79.14 GiB, and 810.39 MiB are to stay free" in ran.result["why"][0], ran.result["why"]
    Ran(HOLD.format(78), "--margin", "0")


def a_program_that_fails_has_failed():
    for program, code in (
        ("raise ValueError", 1),
        ("import sys; sys.exit(2)", 2),
        ("import torch, os; torch.ones(3, device='cuda'); os.kill(os.getpid(), 9)", -9),
    ):
        ran = Ran(program, code=FAILED)
        assert ran.result["program"]["exit_code"] == code, ran.result
    assert "was ended by SIGKILL" in ran.result["why"][0], ran.result["why"]


def choices_by_measured_times_are_the_same_in_every_run():
    measured = """
import torch
from triton.testing import do_bench
torch.backends.cudnn.benchmark = True
for size in (7, 14, 28, 56):
    convolution = torch.nn.Conv2d(64, 96, 3, padding=1, device="cuda")
    convolution(torch.randn(8, 64, size, size, device="cuda")).sum().backward()
square = torch.randn(64, 64, device="cuda")
assert do_bench(lambda: square @ square) == 1
"""
    first, second = Ran(measured).device, Ran(measured).device
    assert first["peak_allocated_bytes"] == second["peak_allocated_bytes"], (first, second)
    assert first["peak_reserved_bytes"] == second["peak_reserved_bytes"], (first, second)


def what_is_left_out_is_named_and_never_fits():
    managed = "import ctypes, torch; torch.ones(3, device='cuda')\n"
    managed += "code = ctypes.CDLL('libcuda.so.1').cudaMallocManaged()\n"
    ran = Ran(managed + "raise SystemExit(code)", code=INCOMPLETE)
    assert ran.result["not_simulated"] == ["cudaMallocManaged"], ran.result
    assert ran.result["smallest_gpu"] is None
    ran = Ran(managed, code=INCOMPLETE)  # The program handles the error.
    assert ran.result["why"] == ["not simulated: cudaMallocManaged"], ran.result["why"]
    ran = Ran("print(1)", code=INCOMPLETE)
    assert "nothing was allocated on a GPU" in ran.result["why"][0] and ran.result["devices"] == [], ran.result
    cut = "import torch, os; torch.ones(3, device='cuda'); os._exit(0)"
    assert "has no end" in Ran(cut, code=INCOMPLETE).result["why"][0]


def a_killed_process_has_all_that_it_allocated():
    program = """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", '''
        import atexit, os, signal
        kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
        {}
        import torch
        held = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
        {}
        '''])
    """
    for early, late, code in (("atexit.register(kill)", "", FITS), ("", "kill()", INCOMPLETE)):
        ran = Ran(textwrap.dedent(program.format(early, late)), code=code)
        assert ran.device["peak_allocated_bytes"] == GIB, ran.device
        assert (code == FITS) == (ran.result["why"] == []), ran.result["why"]
    assert "was killed" in ran.result["why"][0], ran.result["why"]


def two_gpus_and_two_processes_are_added_up():
    both = (
        "import torch\nsizes = {'cuda:0': 40, 'cuda:1': 90}\n"
        "held = [torch.ones(mib << 20, dtype=torch.uint8, device=device) for device, mib in sizes.items()]"
    )
    ran = Ran(both, "--gpu", "h100:2")
    assert [use["peak_allocated_bytes"] >> 20 for use in ran.result["devices"]] == [40, 90], ran.result["devices"]
    hold = "import torch; held = torch.ones(64 << 20, dtype=torch.uint8, device='cuda')"
    children = f"import subprocess, sys\nfor _ in 1, 2: subprocess.run([sys.executable, '-c', {hold!r}], check=True)"
    ran = Ran(children, "-o", "tapes")
    device = ran.device
    assert device["processes"] == 2 and device["peak_allocated_bytes"] == 128 << 20, device
    tapes = [os.path.join(ran.folder, tape) for tape in ran.result["tapes"]]
    assert len(tapes) == 2 and all(map(os.path.exists, tapes)), tapes


def memory_of_libraries_is_outside():
    take = (
        "import ctypes, torch\nheld, addr = torch.ones(3, device='cuda'), ctypes.c_void_p()\n"
        "assert ctypes.CDLL('libcuda.so.1').cuMemAlloc_v2(ctypes.byref(addr), ctypes.c_size_t(1 << 30)) == 0"
    )
    device = Ran(take).device
    assert device["outside_bytes"] == GIB, device
    assert device["device_total_bytes"] == device["peak_reserved_bytes"] + device["context_bytes"] + GIB, device


def a_gpu_of_ones_own_and_a_size():
    ran = Ran(HOLD.format(3), "--gpu", "4GiB")
    assert ran.device["context_source"] is None and ran.device["memory_bytes"] == 4 * GIB, ran.device


def all_gpus_are_a_table():
    use = (
        "import torch\nheld = torch.ones(20 << 30, dtype=torch.uint8, device='cuda')\n"
        "small = torch.ones(64, 64, device='cuda')\nsmall @ small"
    )
    ran = Ran(use, "--gpu", "all")
    rows = {row["gpu"]: row for row in ran.result["gpus"]}
    assert len(rows) == 26 and [row["memory_bytes"] for row in ran.result["gpus"]] == sorted(
        row["memory_bytes"] for row in rows.values()
    )
    assert rows["t4"]["verdict"] == "does not fit" and rows["t4"]["ran_on"] == "t4", rows["t4"]
    assert rows["l4"]["verdict"] == "fits" and rows["l4"]["ran_on"] == "rtx6000-ada", rows["l4"]
    assert rows["rtx3080"]["verdict"] == "does not fit" and rows["rtx3080"]["needed_bytes"] > 20 * GIB, rows["rtx3080"]
    # The wheel of this PyTorch has no code for it.
    assert rows["v100-32gb"]["verdict"] == "failed" and "no kernel image" in ran.done.stderr, rows["v100-32gb"]
    workspaces = rows["h100"]["peak_allocated_bytes"] - rows["b200"]["peak_allocated_bytes"]
    assert workspaces == 33_554_432 - 8_519_680, workspaces
    assert "the smallest is a10" in ran.done.stdout and "capability 7.0: " in ran.done.stdout, ran.done.stdout


def differences_from_a_recorded_run_have_their_code():
    use = "import torch; x = torch.ones(64, 64, device='cuda')\ny = x @ x\n"
    recorded = Ran(use, "--gpu", "h100", "-o", "recorded")
    tape = os.path.join(recorded.folder, "recorded", "run.vtape")
    same = Ran(use, "--gpu", "h100", "--calibrate", tape).result["calibration"]
    assert same["run"] == tape and [device["differences"] for device in same["devices"]] == [[]], same
    other = Ran(use, "--gpu", "a100-80gb", "--calibrate", tape, "--markdown", "out.md")
    (device,) = other.result["calibration"]["devices"]
    # The workspaces of cuBLAS.
    less_bytes = 33_554_432 - 8_519_680
    for both in (device["peak_allocated_bytes"], *device["differences"]):
        assert both["recorded"] - both["dry_run"] == less_bytes, device
    assert [one["code"] for one in device["differences"]] == ["program.py:2"], device
    assert "-23.88 MiB" in other.done.stdout and "| program.py:2 |" in other.read("out.md"), other.said
    ran = Ran(use, "--calibrate", "program.py", code=USAGE)
    assert "error: --calibrate: program.py: begins with" in ran.done.stderr, ran.done.stderr
    ran = Ran("import torch; torch.cuda.init()", "--calibrate", tape, code=INCOMPLETE)
    assert "is not compared: nothing was allocated on a GPU" in ran.done.stderr, ran.done.stderr


def the_largest_batch_that_fits_is_found():
    hold = "import os, sys, torch; held = torch.ones({}, 1 << 30, dtype=torch.uint8, device='cuda')"
    flags = ("--gpu", "l4", "--fit", "batch=1..64")
    ran = Ran(hold.format("int(sys.argv[1])"), *flags, "--markdown", "out.md", words=["{batch}"])
    assert ran.result["largest"] == 21 and ran.result["parameter"] == {"name": "batch", "low": 1, "high": 64}
    tried = {row["value"]: row["verdict"] for row in ran.result["runs"]}
    assert tried[21] == "fits" and tried[22] == "does not fit" and len(tried) <= 6, tried
    assert "largest batch that fits on l4: 21" in ran.done.stdout and "| 21 |" in ran.read("out.md")
    ran = Ran(hold.format("64 * int(os.environ['batch'])"), *flags, code=DOES_NOT_FIT)
    assert ran.result["largest"] is None and "no batch of the range fits" in ran.done.stdout, ran.result
    ran = Ran("raise ValueError", *flags, code=FAILED)
    assert [row["verdict"] for row in ran.result["runs"]] == ["failed"], ran.result


def variants_and_settings_are_a_table():
    program = """
import os, torch
batch, keeps = int(os.environ["batch"]), "{keep}" == "yes"
held = [torch.empty(batch << 30, dtype=torch.uint8, device="cuda") for _ in range(2)]
if keeps:
    held.append(torch.empty(9 << 30, dtype=torch.uint8, device="cuda"))
del held[1]
torch.empty((batch << 30) + (600 << 20), dtype=torch.uint8, device="cuda")
"""
    flags = ("--gpu", "l4", "--vary", "batch=2,6", "--vary", "keep=no,yes", "--strategy", "expandable")
    source = "import sys; exec(open(sys.argv[1]).read().replace('{' + 'keep}', sys.argv[2]))"
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    with open(os.path.join(folder, "body.py"), "w") as file:
        file.write(program)
    ran = Ran(
        source,
        *flags,
        "--config",
        "max_split_size_mb:128",
        "--markdown",
        "out.md",
        words=["body.py", "{keep}"],
        folder=folder,
    )
    rows = {(*row["values"].values(), row["strategy"] or row["config"]): row for row in ran.result["variants"]}
    assert len(rows) == 12 and rows["2", "yes", ""]["values"] == {"batch": "2", "keep": "yes"}, rows
    as_run, expandable = rows["2", "no", ""], rows["2", "no", "expandable"]
    # The large request does not fit in the freed segment; an expandable one grows by the missing part.
    assert as_run["peak_reserved_bytes"] == 4 * GIB + 2 * GIB + (600 << 20), as_run
    assert expandable["peak_reserved_bytes"] < as_run["peak_reserved_bytes"], expandable
    less = as_run["peak_reserved_bytes"] - expandable["peak_reserved_bytes"]
    assert as_run["device_total_bytes"] - expandable["device_total_bytes"] == less, (as_run, expandable)
    assert rows["6", "yes", ""]["verdict"] == "does not fit" and rows["6", "no", ""]["verdict"] == "fits", rows
    assert rows["6", "yes", "expandable"]["why"] == ["not replayed: the verdict of the run is 'does not fit'"], rows
    assert "9 of 12 variants fit on l4; the least memory has batch=2, keep=no, expandable" in ran.done.stdout
    assert "| batch=2, keep=yes | max_split_size_mb:128 |" in ran.read("out.md"), ran.read("out.md")
    ran = Ran("raise ValueError", "--vary", "a=1,2", code=FAILED)
    assert [row["verdict"] for row in ran.result["variants"]] == ["failed", "failed"], ran.result


def a_search_takes_few_runs_and_its_answer_is_the_largest():
    """Memory that is nearly affine in the value, at random."""
    for seed in range(500):
        random = Random(seed)
        base, slope, memory = random.randint(0, 1000), random.randint(1, 300), random.randint(1000, 100_000)
        ripple, low, high = random.randint(0, 3), random.randint(1, 4), random.choice([8, 64, 512, 10_000])
        tried = []

        def used(value, base=base, slope=slope, ripple=ripple):
            return base + slope * value + ripple * (7919 * value % 13)

        def run(_job, value, used=used, memory=memory, tried=tried):
            tried.append(value)
            peak = min(used(value), memory)
            names = ("peak_allocated_bytes", "peak_reserved_bytes", "device_total_bytes")
            device = {**dict.fromkeys(names, peak), "memory_bytes": memory, "bounds": {}}
            return {"verdict": "fits" if used(value) <= memory else "does not fit", "why": [], "devices": [device]}

        job = Job(["train.py"], Gpu("l4", 1, is_default=False))
        found = search.largest(job, search.Parameter("batch", low, high), 0.0, run)["largest"]
        if found is None:
            assert used(low) > memory, seed
        else:
            assert used(found) <= memory and (found == high or used(found + 1) > memory), seed
        assert len(tried) == len(set(tried)) <= 14, (seed, tried)


def an_interrupted_run_is_incomplete():
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    with open(os.path.join(folder, "program.py"), "w") as file:
        file.write(f"{HOLD.format(1)}\nimport time\nprint('held', flush=True)\ntime.sleep(200)\n")
    with subprocess.Popen(
        [sys.executable, "-m", "vramtape", "dry-run", "--json", "out.json", "program.py"],
        cwd=folder,
        env=clean_environment(TMPDIR=SCRATCH.name, **PACKAGE),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # Ignored where a shell put us behind it.
    ) as child:
        assert child.stdout.readline() == "held\n"
        os.killpg(child.pid, signal.SIGINT)  # As a terminal does.
        child.stdout.read()
    assert child.returncode == INCOMPLETE, child.returncode
    with open(os.path.join(folder, "out.json")) as file:
        result = json.load(file)
    SEEN.check("dry-run", result)
    assert "interrupted" in result["why"][0] and result["devices"][0]["peak_allocated_bytes"] == GIB, result


def guesses_are_counted_in_every_form():
    ran = Ran("import torch; x = torch.randn(1000, device='cuda'); x[x > 0].sum().item()", "--markdown", "out.md")
    rows = {
        row["operator"]: (row["count"], row["shapes"], row["shaped_bytes"])
        for row in ran.result["guesses"]["operators"]
    }
    assert rows == {"index": (1, 1, 4000), "item": (1, 0, 0), "nonzero": (1, 1, 8000)}, rows
    for text in (ran.done.stdout, ran.read("out.md")):
        assert "guesses: 1 value of item, 1 shape of index, 1 shape of nonzero; up to " in text, text


def mistakes_are_found_before_the_program_runs():
    for flags, text in (
        (["--gpu", "h10O"], "did you mean h100?"),
        (["--gpu", "h100:99"], "write the number of GPUs, 1 to 16"),
        (["--steps", "0"], "write a whole number above 0"),
        (["--margin", "200"], "write percent"),
        (["--html", "nowhere/out.html"], "make it first"),
        (["--fit", "batch"], "write a name and a range of whole numbers"),
        (["--fit", "batch=9..3"], "is not empty"),
        (["--fit", "batch=1..9", "--gpu", "all"], "leave out --gpu all"),
        (["--vary", "batch"], "write a name and different values"),
        (["--vary", "batch=1,1"], "write a name and different values"),
        (["--vary", "a=1", "--vary", "a=2"], "name each parameter once"),
        (["--vary", "a=" + ",".join(map(str, range(99)))], "99 runs are too many"),
        (["--vary", "a=1,2", "--fit", "batch=1..9"], "leave out --fit"),
        (["--strategy", "best"], "no strategy `best`"),
        (["--config", "max_split_size_mb:x"], "max_split_size_mb"),
        (["--gpu", "all", "-o", "tapes"], "leave out -o"),
        (["--conf", "stacks:some"], "stacks"),
    ):
        ran = Ran("print('ran')", *flags, code=USAGE)
        assert text in ran.done.stderr and "ran" not in ran.done.stdout.split(), (flags, ran.done.stderr)
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    os.mkdir(os.path.join(folder, "full"))
    open(os.path.join(folder, "full", "file"), "w").close()
    assert "is not empty" in Ran("print(1)", "-o", "full", code=USAGE, folder=folder).done.stderr
    assert "no such script" in Ran(None, "nothing.py", code=USAGE).done.stderr
    assert "name the program" in Ran(None, code=USAGE).done.stderr


def python_has_it_too():
    call = (
        "import json, os, threading, vramtape\nbefore = dict(os.environ)\n"
        "def run(): print(json.dumps(vramtape.dry_run(['program.py'], gpu='l4', steps=2)))\n"
        "thread = threading.Thread(target=run); thread.start(); thread.join()\nassert dict(os.environ) == before\n"
    )
    folder = tempfile.mkdtemp(dir=SCRATCH.name)
    with open(os.path.join(folder, "program.py"), "w") as file:
        file.write(TRAIN)
    environment = clean_environment(TMPDIR=SCRATCH.name, **PACKAGE)
    done = subprocess.run([sys.executable, "-c", call], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    SEEN.check("dry-run", result)
    assert result["verdict"] == "fits" and result["program"]["steps"] == 2, result


def progress_has_steps_per_second():
    slow = "import time\n" + TRAIN.replace("    optimizer.step()", "    optimizer.step(); time.sleep(0.4)")
    ran = Ran(slow)
    assert " of " not in ran.done.stderr and " steps/s" in ran.done.stderr, ran.done.stderr
    Ran(slow, "-q", "--steps", "2")


CASES = [
    what_fits_is_measured_to_the_byte,
    the_gpu_decides_the_workspaces,
    pools_of_the_driver_are_a_model,
    compiled_programs_have_wider_bounds,
    programs_that_call_nvidia_smi_list_the_simulated_gpus,
    an_out_of_memory_does_not_fit,
    a_request_that_is_refused_and_handled_fits,
    what_comes_close_to_the_end_of_the_device_does_not_fit,
    a_program_that_fails_has_failed,
    choices_by_measured_times_are_the_same_in_every_run,
    what_is_left_out_is_named_and_never_fits,
    a_killed_process_has_all_that_it_allocated,
    two_gpus_and_two_processes_are_added_up,
    memory_of_libraries_is_outside,
    a_gpu_of_ones_own_and_a_size,
    all_gpus_are_a_table,
    differences_from_a_recorded_run_have_their_code,
    the_largest_batch_that_fits_is_found,
    variants_and_settings_are_a_table,
    a_search_takes_few_runs_and_its_answer_is_the_largest,
    an_interrupted_run_is_incomplete,
    guesses_are_counted_in_every_form,
    mistakes_are_found_before_the_program_runs,
    python_has_it_too,
    progress_has_steps_per_second,
]


def the_schema_has_nothing_that_is_never_printed():
    for _ in CASES:
        ENDED.acquire()
    name = "dry-run.json"
    never = {pointer for pointer in schemas.properties(name) if (name, pointer) not in SEEN.places}
    # test_dry_run_ranks.py prints these.
    never -= {pointer for pointer in never if pointer.startswith("/$defs/ranks/") or pointer == "/oneOf/3"}
    # training/test_dry_run_weights.py prints these.
    never -= {pointer for pointer in never if pointer.startswith("/$defs/run/properties/weights/items/")}
    assert not never, sorted(never)
    kept = [name for name in os.listdir(SCRATCH.name) if name.startswith("vramtape-dry-run-")]
    assert len(kept) == OUT_OF_MEMORY, "tapes are removed, unless memory was out"


def counted(case):
    """The case, whose end the last one waits for."""

    def run():
        try:
            return case()
        finally:
            ENDED.release()

    return run


if __name__ == "__main__":
    wanted = sys.argv[1:]
    cases = [(f"dry_run.{case.__name__}", counted(case)) for case in CASES]
    last = the_schema_has_nothing_that_is_never_printed
    cases = [*cases, (f"dry_run.{last.__name__}", last)]
    run_cases([(name, case) for name, case in cases if not wanted or name in wanted])
