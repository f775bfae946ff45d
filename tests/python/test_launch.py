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
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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
    """What `allocate.py` prints: the backend, the process and how often it allocated."""
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
    # A forked child shares its parent's name.
    assert set(found) == expected and set(found.values()) == {1}, (found, said)
    line = done.stderr.splitlines()[-1]
    assert line.startswith(f"vramtape: the {len(found)} tapes are ") and all(name in line for name in found), line


def every_rank_has_a_tape(folder):
    """Under torchrun, as a module and as a command; ranks are in the names."""
    flags = ("--standalone", "--nproc-per-node", "2", script("rank"))
    done = run("-m", "torch.distributed.run", *flags, folder=folder)
    ranks = re.findall(r"^rank (\d) (\d+) ", done.stdout, re.M)
    assert sorted(rank for rank, _ in ranks) == ["0", "1"], done.stdout
    assert set(tapes(folder)) == {f"vramtape-{rank}-{pid}.vtape" for rank, pid in ranks}, os.listdir(folder)
    assert "vramtape: the 2 tapes are vramtape-0-" in done.stderr, done.stderr
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    shown = run("torchrun", "--help", folder=folder, PATH=path)
    assert "--nproc" in shown.stdout


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
    """Its ring is where it was told, and the command was told the same."""
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
    settings_and_flags,
    settings_may_say_no_tape,
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
