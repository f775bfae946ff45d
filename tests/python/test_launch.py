"""`python -m vramtape run` as a new user meets it: the program is what it was, and each of its processes has a tape."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from harness import COMMAND, LIBRARY, ROOT, SIMCUDA, clean_environment, run_cases

SCRATCH = tempfile.TemporaryDirectory()
HERE = os.path.join(ROOT, "tests", "python", "launch")
ENVIRONMENT = {
    "PYTHONPATH": os.path.join(ROOT, "python"),
    "VRAMTAPE_LIBRARY": LIBRARY,
    "VRAMTAPE_SIMCUDA": SIMCUDA,
    "TMPDIR": SCRATCH.name,
}
RINGS = os.environ.get("VRAMTAPE_RINGS") or "/dev/shm"
RUN = ["-m", "vramtape", "run"]
LIMIT_SECONDS = 300


def script(name):
    return os.path.join(HERE, f"{name}.py")


def python(*arguments, folder=None, given=None, flags=(), **settings):
    """Runs Python in a folder; its exit code and what it wrote."""
    return subprocess.run(
        [sys.executable, *flags, *arguments],
        cwd=folder or ROOT,
        env=clean_environment(**{**ENVIRONMENT, **settings}),
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )


def run(*arguments, code=0, **options):
    """Runs `vramtape run`, which has to end so."""
    done = python(*RUN, *arguments, **options)
    assert done.returncode == code, f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def tapes(folder):
    """The tapes in a folder, and how often each was allocated; every one has its end."""
    found = {}
    for name in sorted(os.listdir(folder)):
        said = info(os.path.join(folder, name))
        assert said["end"] == "complete", (name, said["end"])
        found[name] = sum(device["events"]["alloc"] for device in said["devices"])
    return found


def info(tape):
    line = [COMMAND, "info", "--json", tape]
    return json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE).stdout)


def allocated(done):
    """The output of `allocate.py`: the backend, the process and the number of allocations."""
    backend, pid, count = done.stdout.split()
    return backend, pid, int(count)


def no_ring_is_left(pid):
    left = [name for name in os.listdir(RINGS) if name.startswith("vramtape-") and f"-{pid}-" in f"-{name}-"]
    assert not left, left


def the_program_is_what_it_was(folder):
    """The same words and the same end: as a script, a module or a text, with flags, whatever happens."""
    shutil.copy(script("report"), os.path.join(folder, "report.py"))
    zipped = os.path.join(folder, "folder")
    os.mkdir(zipped)
    shutil.copy(script("report"), os.path.join(zipped, "__main__.py"))
    ways = [
        (("report.py", "a", "--conf", "-o", "b"), {}),
        (("report.py", "raise"), {}),
        (("report.py", "exit"), {}),
        (("report.py", "interrupt"), {}),
        (("report.py", "killed"), {}),
        (("report.py", "read"), {"given": "the input"}),
        (("-m", "report", "exit", "-q"), {}),
        (("-c", "import sys; print(sys.argv, sys.path)", "-m", "x"), {}),
        (("folder", "a"), {}),
        (("report.py",), {"flags": ("-u", "-W", "error", "-X", "dev", "-O")}),
    ]
    for arguments, options in ways:
        plain = python(*arguments, folder=folder, **options)
        ours = python(*RUN, "--quiet", *arguments, folder=folder, **options)
        for what in ("returncode", "stdout", "stderr"):
            was, is_now = getattr(plain, what), getattr(ours, what)
            assert is_now == was, f"{arguments}: {what} was {was!r} and is {is_now!r}"
    assert not [name for name in os.listdir(folder) if name.endswith(".vtape")]


def a_tape_and_a_line(folder):
    done = run(script("allocate"), "5", folder=folder)
    backend, pid, _ = allocated(done)
    assert backend in ("pluggable", "native"), backend  # The bridge is called as PyTorch's own.
    name = f"vramtape-0-{pid}.vtape"
    assert tapes(folder) == {name: 5} and done.stderr.endswith(f"vramtape: the tape is {name}\n"), done.stderr
    no_ring_is_left(pid)


def settings_and_flags(folder):
    """Flags come before the settings of the command line, and these before the environment's."""
    flags = ("--route", "pluggable", "--conf", "ring_events:4096,tape:unused", "-o", 'a "b",c.vtape', "-q")
    done = run(*flags, script("allocate"), "3", "installs", folder=folder, VRAMTAPE_CONF="ring_events:64,stacks:none")
    assert done.stderr == "" and allocated(done)[0] == "pluggable", (done.stdout, done.stderr)
    assert tapes(folder) == {'a "b",c.vtape': 3}


def settings_may_say_no_tape(folder):
    done = run(script("report"), folder=folder, VRAMTAPE_CONF="record:ring")
    assert os.listdir(folder) == [] and "VRAMTAPE_CONF says record:ring" in done.stderr, done.stderr
    with tempfile.TemporaryDirectory(dir=RINGS) as rings:
        done = run("--conf", "record:ring", script("allocate"), "3", folder=folder, VRAMTAPE_RINGS=rings)
        line = f"no tape: the ring was the only record; `vramtape recover {allocated(done)[1]} -o run.vtape`"
        assert line in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
        assert os.listdir(folder) == [] and len(os.listdir(rings)) == 1


def children_are_followed(folder):
    """Of each kind of child, and none of DataLoader's workers, which use no GPU."""
    done = run("-o", "family.vtape", script("family"), folder=folder)
    said = dict(line.split()[:2] for line in done.stdout.splitlines())
    children = ("fork", "spawn", "forkserver", "subprocess")
    assert set(said) == {*children, "parent"}, done.stdout
    found = tapes(folder)
    for pid in said.values():
        no_ring_is_left(pid)
    expected = {"family.vtape"} | {f"family-0-{said[child]}.vtape" for child in children if child != "fork"}
    # A forked child shares its parent's name, and was the first to allocate.
    expected.add("family-2.vtape")
    assert set(found) == expected and set(found.values()) == {1}, (found, said)
    line = done.stderr.splitlines()[-1]
    assert line == f"vramtape: the 5 tapes are {min(found)} to {max(found)}", line


def a_tape_that_is_there_stays(folder):
    """A second run takes a free name and says so before it starts; `-f` replaces the first run's tape."""
    first = run("-o", "run.vtape", script("allocate"), "2", folder=folder)
    assert first.stderr.endswith("vramtape: the tape is run.vtape\n"), first.stderr
    second = run("-o", "run.vtape", script("allocate"), "3", folder=folder)
    said = [line for line in second.stderr.splitlines() if "run-2" in line]
    assert said == [
        "vramtape: the tape goes to run-2.vtape: run.vtape exists (-f replaces it)",
        "vramtape: the tape is run-2.vtape",
    ], second.stderr
    assert tapes(folder) == {"run.vtape": 2, "run-2.vtape": 3}
    for count, flags, settings in (4, ("--force",), {}), (5, (), {"VRAMTAPE_CONF": "tape_replace:True"}):
        again = run(*flags, "-o", "run.vtape", script("allocate"), str(count), folder=folder, **settings)
        assert again.stderr.endswith("vramtape: the tape is run.vtape\n"), again.stderr
        assert tapes(folder) == {"run.vtape": count, "run-2.vtape": 3}, flags


def a_tape_that_the_library_could_not_announce_is_named(folder):
    """As where no /proc is mounted, through which it opens the run's list."""
    code = "import os, torch; names = os.environ.pop('VRAMTAPE_RUN_NAMES'); held = torch.ones(1, device='cuda'); "
    code += "os.environ['VRAMTAPE_RUN_NAMES'] = names"
    done = run("-o", "run.vtape", "-c", code, folder=folder)
    assert done.stderr.splitlines()[-1] == "vramtape: the tape is run.vtape", done.stderr


def ranks_take_a_free_name_together(folder):
    run("-o", "rank{rank}.vtape", script("allocate"), "2", folder=folder, RANK="3")
    done = run("-o", "rank{rank}.vtape", script("allocate"), "5", folder=folder, RANK="4")
    assert "goes to rank{rank}-2.vtape: rank{rank}.vtape exists" in done.stderr, done.stderr
    assert tapes(folder) == {"rank3.vtape": 2, "rank4-2.vtape": 5}


def two_runs_at_once_have_two_tapes(folder):
    """Both start before either allocates, with one name: neither fails, and each one's last line names its own."""
    code = (
        "import os, sys, time, torch; open(f'here-{os.getpid()}', 'w')\n"
        "while len([name for name in os.listdir() if name.startswith('here-')]) < 2: time.sleep(0.01)\n"
        "held = [torch.empty(1 << 20, device='cuda') for _ in range(3)]; open(f'done-{os.getpid()}', 'w')\n"
        "while len([name for name in os.listdir() if name.startswith('done-')]) < 2: time.sleep(0.01)\n"
    )
    for flag in ([], ["-f"]):
        at_once = [
            subprocess.Popen(
                [sys.executable, *RUN, *flag, "-o", "run.vtape", "-c", code],
                cwd=folder,
                env=clean_environment(**ENVIRONMENT),
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        said = [one.communicate(timeout=LIMIT_SECONDS)[1] for one in at_once]
        assert [one.returncode for one in at_once] == [0, 0], said
        for name in os.listdir(folder):
            if not name.endswith(".vtape"):
                os.remove(os.path.join(folder, name))
        assert tapes(folder) == {"run.vtape": 3, "run-2.vtape": 3}
        lines = sorted(text.splitlines()[-1] for text in said)
        assert lines == ["vramtape: the tape is run-2.vtape", "vramtape: the tape is run.vtape"], said
        os.remove(os.path.join(folder, "run-2.vtape"))
        if not flag:
            os.remove(os.path.join(folder, "run.vtape"))


def every_rank_has_a_tape(folder):
    """Under torchrun, as a module and as a command; ranks are in the names."""
    flags = ("--standalone", "--nproc-per-node", "2", script("rank"))
    done = run("-m", "torch.distributed.run", *flags, folder=folder)
    ranks = re.findall(r"^rank (\d) (\d+) ", done.stdout, re.MULTILINE)
    assert sorted(rank for rank, _ in ranks) == ["0", "1"], done.stdout
    assert set(tapes(folder)) == {f"vramtape-{rank}-{pid}.vtape" for rank, pid in ranks}, os.listdir(folder)
    assert "vramtape: the 2 tapes are vramtape-0-" in done.stderr, done.stderr
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    shown = run("torchrun", "--help", folder=folder, PATH=path)
    assert "--nproc" in shown.stdout


def programs_start_as_they_are(folder):
    """By what a file says of itself: an interpreter's own Python, a script's first line, or this Python."""

    def write(name, text, mode=0o755):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)

    python_here = os.path.join(folder, "venv", "bin", "python")
    os.makedirs(os.path.dirname(python_here))
    with open(os.path.join(folder, "venv", "pyvenv.cfg"), "w", encoding="utf-8") as settings:
        settings.write(f"home = {os.path.dirname(os.path.realpath(sys.executable))}\n")
    os.symlink(os.path.realpath(sys.executable), python_here)
    says = "import sys; print(sys.prefix, *sys.argv)\n"
    write("says.py", says, 0o644)
    write("own.py", f"#!{python_here}\n{says}")
    write("own", f"#!{python_here}\n{says}", 0o644)
    write("env.py", f"#!/usr/bin/env python3\n{says}")
    write("plain.py", says)
    write("run.sh", '#!/bin/bash -e\necho "bash $BASH_VERSION" | cut -c1-4; exec venv/bin/python says.py "$@"\n')
    write("quiet.sh", '#!/bin/bash\nexec venv/bin/python says.py "$@"\n', 0o644)
    write("old.sh", 'venv/bin/python says.py "$@"; exit 7\n')
    there, here = os.path.join(folder, "venv"), sys.prefix
    for arguments, printed, code in [
        (("venv/bin/python", "says.py", "a"), f"{there} says.py a\n", 0),
        ((python_here, "says.py"), f"{there} says.py\n", 0),
        (("./own.py", "-q"), f"{there} ./own.py -q\n", 0),
        (("own.py",), f"{there} ./own.py\n", 0),
        (("own",), f"{there} ./own\n", 0),
        (("env.py",), f"{here} env.py\n", 0),
        (("./plain.py", "b"), f"{here} ./plain.py b\n", 0),
        (("says.py",), f"{here} says.py\n", 0),
        (("./run.sh", "c"), f"bash\n{there} says.py c\n", 0),
        (("run.sh",), f"bash\n{there} says.py\n", 0),
        (("quiet.sh", "d"), f"{there} says.py d\n", 0),
        (("./old.sh", "e"), f"{there} says.py e\n", 7),
    ]:
        done = run(*arguments, folder=folder, code=code)
        assert done.stdout == printed, (arguments, done.stdout)
        assert done.stderr == "vramtape: no tape: the program did not import torch\n", (arguments, done.stderr)
    shutil.copy(shutil.which("true"), os.path.join(folder, "program"))
    os.chmod(os.path.join(folder, "program"), 0o644)
    assert "chmod +x program" in run("program", folder=folder, code=2).stderr


def another_python_is_followed(folder):
    """An environment of its own, with torch and without vramtape, whose Python is named by its path."""
    made = os.path.join(folder, "venv", "bin", "python")
    os.makedirs(os.path.dirname(made))
    os.symlink(os.path.realpath(sys.executable), made)
    shutil.copy(os.path.join(sys.prefix, "pyvenv.cfg"), os.path.join(folder, "venv"))
    os.symlink(os.path.join(sys.prefix, "lib"), os.path.join(folder, "venv", "lib"))
    with open(os.path.join(folder, "train.sh"), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nexec {made} {script('allocate')} 4\n")
    os.chmod(os.path.join(folder, "train.sh"), 0o755)
    for program in ((made, script("allocate"), "4"), ("./train.sh",)):
        done = run("-f", "-o", "run.vtape", *program, folder=folder)
        assert info(os.path.join(folder, "run.vtape"))["devices"][0]["events"]["alloc"] == 4, done.stderr
        assert done.stderr.endswith("vramtape: the tape is run.vtape\n"), done.stderr


def a_gpu_is_simulated_on_request(folder):
    """As large as the one that is named; without `--sim` one line says that it exists."""
    code = "import torch; print(torch.cuda.mem_get_info()[1], torch.ones(2, device='cuda').device)"
    unset = {"VRAMTAPE_SIMCUDA": os.path.join(folder, "none")}
    listed = subprocess.run([COMMAND, "fit", "--gpu", "list", "--json"], check=True, stdout=subprocess.PIPE).stdout
    total_bytes = {gpu["name"]: gpu["total_bytes"] for gpu in json.loads(listed)}
    lacking = python(*RUN, "--sim", "-c", code, folder=folder, **unset)
    assert lacking.returncode == 2 and "none does not hold the simulated driver" in lacking.stderr, lacking.stderr
    with open(os.path.join(folder, "own.toml"), "w", encoding="utf-8") as file:
        file.write(
            'name = "own"\nmemory_gib = 2\ncapability = "9.0"\nmultiprocessors = 16\nl2_kib = 1024\n'
            "clock_mhz = 1000\nmemory_clock_mhz = 2000\nmemory_bus_bits = 1024\n"
        )
    l40s = "compute capability 8.9, 44.42 GiB with 0.42 GiB for the context"
    for flag, memory_bytes, words in [
        ("--sim", 80 << 30, "simulated GPU: "),
        ("--sim=l40s", total_bytes["l40s"], f"simulated GPU l40s ({l40s}): "),
        ("--sim=L40S", total_bytes["l40s"], "simulated GPU l40s ("),
        ("--sim=4090", total_bytes["rtx4090"], "simulated GPU rtx4090 ("),
        ("--sim=A100", total_bytes["a100-80gb"], "simulated GPU a100-80gb (compute capability 8.0, "),
        ("--sim=./own.toml", 2 << 30, "simulated GPU of ./own.toml: "),
        ("--sim=24GB", 24 << 30, "simulated GPU of 24.00 GiB: "),
        ("--sim=512MiB", 512 << 20, "simulated GPU of 0.50 GiB: "),
    ]:
        done = run(flag, "-f", "-o", "run.vtape", "-c", code, folder=folder)
        size_bytes, device = done.stdout.split()
        assert device == "cuda:0" and int(size_bytes) == memory_bytes, (flag, done.stdout)
        first = done.stderr.splitlines()[0]
        assert first.startswith(f"vramtape: {words}") and "values (losses, metrics) are not" in first, done.stderr
    for gpu, words in (
        ("100", "a100-80gb"),
        ("rtx4080", "did you mean rtx"),
        ("1MiB", "from 2MiB"),
        ("no.toml", "no such file"),
    ):
        refused = run(f"--sim={gpu}", "-c", code, folder=folder, code=2)
        assert f"--sim={gpu}" in refused.stderr and words in refused.stderr, refused.stderr
    done = python("-m", "vramtape", "record", "--sim", "-q", "-c", code, folder=folder)
    assert done.returncode == 0 and done.stdout.endswith("cuda:0\n") and done.stderr == "", done.stderr


def a_compiled_program_runs_on_a_simulated_gpu(folder):
    """Triton finds the driver, and attention takes cuDNN's kernel, without a setting of the user."""
    code = (
        "import torch, torch.nn.functional as F\n"
        "x = torch.ones(2, 4, 128, 64, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
        "y = torch.compile(lambda x: F.scaled_dot_product_attention(x.sin(), x, x))(x)\n"
        "y.sum().backward()\n"
        "from torch._inductor import metrics\n"
        "print(metrics.generated_kernel_count > 0, torch.cuda.get_device_capability(), x.grad.shape == x.shape)\n"
    )
    caches = {name: os.path.join(folder, name) for name in ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")}
    done = python(*RUN, "--sim=h100", "-o", "run.vtape", "-c", code, folder=folder, **caches)
    assert (done.returncode, done.stdout) == (0, "True (9, 0) True\n"), done.stderr
    assert "not simulated" not in done.stderr, done.stderr


def the_example_runs_any_script(folder):
    """`getDeviceStats` raises under PyTorch's pluggable allocator without the package."""
    code = "import sys, torch; held = torch.ones(2, device='cuda'); print(sys.argv, torch.cuda.memory_allocated())\n"
    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
        file.write(code)
    example = os.path.join(ROOT, "examples", "with_vramtape.py")
    done = python(example, "train.py", "a", folder=folder, PYTHONPATH="")
    assert (done.returncode, done.stdout) == (0, "['train.py', 'a'] 512\n"), done.stderr


def a_program_may_install_before_torch(folder):
    """Its import of torch inside `install()` comes back to `install()`, on the launcher's behalf."""
    code = "import vramtape; route = vramtape.install(); import torch; print(route == vramtape.active_route())\n"
    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
        file.write(code)
    assert run("train.py", folder=folder).stdout == "True\n"


def a_program_may_end_after_backward(folder):
    """Autograd's thread still wants the interpreter's lock then, and PyTorch 2.15 by itself aborts (pytorch#190489)."""
    run("-q", script("backward"), folder=folder)


def an_interrupted_run_has_its_tape(folder):
    """Python ends by the signal then, without a word to the library."""
    done = run("-o", "stopped.vtape", script("allocate"), "7", "interrupted", folder=folder, code=-signal.SIGINT)
    assert tapes(folder) == {"stopped.vtape": 7}
    assert "KeyboardInterrupt" in done.stderr and done.stderr.endswith("vramtape: the tape is stopped.vtape\n")
    no_ring_is_left(allocated(done)[1])


def a_killed_run_is_recovered(folder):
    """Its ring is in the folder that VRAMTAPE_RINGS names, and the command looks there too."""
    killed = ("-o", "killed.vtape", script("allocate"), "7", "killed")
    with tempfile.TemporaryDirectory(dir=RINGS) as rings:
        done = run(*killed, folder=folder, code=-signal.SIGKILL, VRAMTAPE_RINGS=rings)
        no_ring_is_left(allocated(done)[1])
        os.remove(os.path.join(folder, "killed.vtape"))  # Killed at once, it had perhaps nothing; the ring has it all.
        line = [COMMAND, "recover", allocated(done)[1], "-o", os.path.join(folder, "saved.vtape")]
        subprocess.run(line, check=True, stdout=subprocess.PIPE, env={**os.environ, "VRAMTAPE_RINGS": rings})
        assert tapes(folder) == {"saved.vtape": 7} and len(os.listdir(rings)) == 1
        doctor = python("-m", "vramtape", "doctor", "--json", folder=folder, VRAMTAPE_RINGS=rings)
        assert json.loads(doctor.stdout)["rings"]["files"] == 1, doctor.stdout


def mistakes_are_2_and_say_what_to_do(folder):
    for arguments, words in [
        ((), ("name the program", "torchrun")),
        (("nowhere.py",), ("nowhere.py: no such script",)),
        (("./nowhere",), ("./nowhere: no such script",)),
        (("--rout", "bridge", "x.py"), ("--rout",)),
        (("--route", "brigde", "x.py"), ("brigde", "bridge")),
        (("-m",), ("-m needs the module",)),
        (("--conf", "recor:off", script("report")), ("recor", "did you mean record?")),
        (("-o", "a/b.vtape", script("report")), ("a: no such folder",)),
        (("-o", "{host}.vtape", script("report")), ("{host}", "{rank}")),
        (("-o", str(folder), script("report")), (f"{folder} is a folder", "-o")),
        (("-o", "/dev/null", script("report")), ("/dev/null is a folder, a device", "-o")),
    ]:
        done = run(*arguments, folder=folder, code=2)
        assert done.stdout == "" and all(word in done.stderr for word in words), done.stderr
    done = python("-E", *RUN, script("report"), folder=os.path.join(ROOT, "python"))
    assert done.returncode == 2 and "ignore the environment" in done.stderr, done.stderr


def without_torch(folder):
    done = run(script("report"), folder=folder)
    assert done.stderr == "vramtape: no tape: the program did not import torch\n", done.stderr


def without_a_gpu_the_program_goes_on(folder):
    done = run("-c", "import torch; print(torch.ones(2).sum())", folder=folder, CUDA_VISIBLE_DEVICES="")
    assert done.stdout == "tensor(2.)\n", done.stdout
    assert "no GPU" in done.stderr and "runs without vramtape" in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    code = "from vramtape import _install; print(_install._simulate())"
    done = python("-c", code, VRAMTAPE_SIMCUDA="")
    assert done.stdout == "; `vramtape run --sim` simulates one\n", done


def an_own_sitecustomize_still_comes(folder):
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as own:
        own.write("import builtins, sys; builtins.came = [sys.path[0] == __file__.rsplit('/', 1)[0], __name__]")
    path = os.pathsep.join([folder, ENVIRONMENT["PYTHONPATH"]])
    done = run("-q", "-c", "import sitecustomize; print(came, sitecustomize.__file__)", PYTHONPATH=path)
    assert done.stdout == f"[True, 'sitecustomize'] {folder}/sitecustomize.py\n", done.stdout


def doctor_says_which_route_is_taken(folder):
    done = python("-m", "vramtape", "doctor", "--json", folder=folder, VRAMTAPE_CONF="route:pluggable,record:off")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["route"] == {"active": "pluggable", "why": ""}, report
    assert (report["settings"]["route"], report["settings"]["record"]) == ("pluggable", "off"), report
    assert report["torch"]["cuda"] and report["driver"]["cuda"] and report["driver"]["simulated"] == SIMCUDA, report
    assert [gpu["memory_bytes"] for gpu in report["driver"]["gpus"]] == [80 << 30], report


def in_a_folder(case):
    def within():
        with tempfile.TemporaryDirectory() as folder:
            case(os.path.realpath(folder))

    return within


CASES = (
    children_are_followed,
    every_rank_has_a_tape,
    the_program_is_what_it_was,
    a_tape_and_a_line,
    a_tape_that_is_there_stays,
    a_tape_that_the_library_could_not_announce_is_named,
    ranks_take_a_free_name_together,
    two_runs_at_once_have_two_tapes,
    programs_start_as_they_are,
    another_python_is_followed,
    a_gpu_is_simulated_on_request,
    a_compiled_program_runs_on_a_simulated_gpu,
    the_example_runs_any_script,
    settings_and_flags,
    settings_may_say_no_tape,
    a_program_may_install_before_torch,
    a_program_may_end_after_backward,
    an_interrupted_run_has_its_tape,
    a_killed_run_is_recovered,
    mistakes_are_2_and_say_what_to_do,
    without_torch,
    without_a_gpu_the_program_goes_on,
    an_own_sitecustomize_still_comes,
    doctor_says_which_route_is_taken,
)
chosen = [case for case in CASES if not sys.argv[1:] or case.__name__ in sys.argv[1:]]
run_cases([(f"launch.{case.__name__}", in_a_folder(case)) for case in chosen])
