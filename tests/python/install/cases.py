"""One case of `vramtape.install()`, named on the command line, in a process of its own."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import vramtape

COMMAND = os.environ["VRAMTAPE_COMMAND"]


def importing_starts_nothing():
    code = "import sys, vramtape; print(*{'torch', 'ctypes', 'json', 'threading'} & set(sys.modules))"
    loaded = subprocess.run([sys.executable, "-S", "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert loaded == "\n", f"`import vramtape` imported {loaded}"
    for name in vramtape.__all__:
        assert getattr(vramtape, name).__name__ == name
    assert set(vramtape.__all__) == set(vramtape._NAMES), "__all__ and _MODULES name the same"


def installs():
    """The library answers for what PyTorch allocates, and a second call changes nothing."""
    assert vramtape.active_route() is None
    route = vramtape.install(route="pluggable")
    assert (route, vramtape.active_route()) == ("pluggable", "pluggable")
    import torch

    tensor = torch.empty(1000, device="cuda")
    assert library_has_bytes() == 4096
    assert vramtape.install() == "pluggable" and vramtape.install(route="pluggable") == "pluggable"
    expect("the route pluggable is active already", "--route observe", vramtape.observe)
    del tensor
    assert library_has_bytes() == 0


def auto_says_what_it_took():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        route = vramtape.install()
    assert route in ("bridge", "pluggable")
    assert len(said) == (route == "pluggable"), [str(one.message) for one in said]


def writes_the_tape_that_is_asked_for():
    """Where the call was made, wherever the process goes until it first allocates."""
    with scratch() as folder:
        vramtape.install(route="pluggable", tape="run-{rank}.vtape", conf="ring_events:4096,stacks:alloc")
        os.chdir("/")
        allocate()
        assert os.listdir(folder) == ["run-0.vtape"], os.listdir(folder)
        same = {"tape": os.path.join(folder, "run-{rank}.vtape"), "conf": "stacks:alloc"}
        assert vramtape.install(**same) == vramtape.install() == "pluggable"
        os.chdir(folder)
        for other in {"tape": "other.vtape"}, {"conf": "stacks:all"}, {"conf": "tape_max:2GiB"}:
            refused = "active already, with VRAMTAPE_CONF='ring_events:4096"
            expect(refused, "at the first call", lambda other=other: vramtape.install(**other))
        assert vramtape.install(**same) == "pluggable"


def observes_onto_the_tape_that_is_asked_for():
    with scratch() as folder:
        torch = torch_on_simcuda()
        held = torch.empty(1000, device="cuda")
        try:
            route = vramtape.observe(tape=folder / "run.vtape")
        except vramtape.InstallError as error:
            assert "tracker" in str(error), error
            return
        assert route == "observe"
        allocate()
        assert held.is_cuda
        expect("active already", "tape=", lambda: vramtape.observe(tape="other.vtape"))


def observes_without_a_tracker():
    """The tape is made at the end, under a free name if need be."""
    with scratch() as folder:
        (folder / "run.vtape").write_text("another run's")
        code = "from vramtape.routes import observe\nfrom vramtape._bridge import BuildFailed\n"
        code += "def library(torch): raise BuildFailed('no compiler')\nobserve.library = library\n"
        code += "import vramtape; vramtape.observe(tape='run.vtape')\n" + ALLOCATE
        said = python(code).stderr
        assert "the tape is" in said and "run-2.vtape" in said, said
        assert (folder / "run.vtape").read_text() == "another run's"
        assert events(folder / "run-2.vtape") == 1


def a_tape_that_is_there_stays():
    with scratch() as folder:
        (folder / "run.vtape").write_text("another run's")
        code = "import vramtape; vramtape.install(route='pluggable', tape='run.vtape', conf=CONF)\n" + ALLOCATE
        said = python(code.replace("CONF", "None")).stderr
        assert said.count("the tape goes to ") == 1 and "run-2.vtape: run.vtape exists" in said, said
        assert (folder / "run.vtape").read_text() == "another run's" and events(folder / "run-2.vtape") == 1
        replaces = code.replace("CONF", "'tape_replace:True'")
        said = python(replaces).stderr
        assert "it is not a tape" in said and (folder / "run.vtape").read_text() == "another run's", said
        (folder / "run-2.vtape").rename(folder / "run.vtape")
        before = (folder / "run.vtape").stat().st_mtime_ns
        said = python(replaces).stderr
        assert said == "" and events(folder / "run.vtape") == 1, said
        assert (folder / "run.vtape").stat().st_mtime_ns > before


def other_settings_come_too_late():
    """The library reads its settings once, by whatever call it begins."""
    from vramtape import _runtime

    _runtime.call("wants_marks")
    with scratch():
        expect("in force already", "at the first call", lambda: vramtape.install(tape="run.vtape"))
        assert "VRAMTAPE_CONF" not in os.environ
        assert vramtape.install(route="pluggable", conf="record:ring") == "pluggable"


def settings_are_refused():
    with scratch():
        expect("recor", "did you mean record?", lambda: vramtape.install(conf="recor:off"))
        expect("no such folder", "make it", lambda: vramtape.install(tape="none/run.vtape"))
        expect("{host}", "{rank}", lambda: vramtape.install(tape="{host}.vtape"))
        assert "VRAMTAPE_CONF" not in os.environ and vramtape.active_route() is None


def without_a_tape_the_ring_is_recovered():
    """One line says that the ring was the only record, and the command in it makes a tape."""
    install = "import os, sys, vramtape; print(os.getpid()); vramtape.install(route='pluggable')\n"
    with scratch() as folder:
        ends = ("", 0, "exit"), ("sys.exit(3)", 3, "exit"), ("raise ValueError('mine')", 1, "exception")
        for end, code, kind in ends:
            done = python(install + ALLOCATE + end, code=code)
            pid = done.stdout.split()[0]
            line = done.stderr.splitlines()[-1]
            advice = f"`vramtape recover {pid} -o run.vtape`"
            assert line.startswith("vramtape: no tape: ") and advice in line and 'tape="run.vtape"' in line, done.stderr
            assert done.stderr.count("vramtape: ") == 1, done.stderr
            command = advice.strip("`").split()
            subprocess.run([COMMAND, *command[1:]], check=True, stdout=subprocess.DEVNULL)
            assert events(folder / "run.vtape") == 1
            info = [COMMAND, "info", "--json", folder / "run.vtape"]
            said = json.loads(subprocess.run(info, check=True, stdout=subprocess.PIPE).stdout)
            assert said["meta"]["end"]["kind"] == kind, (end, said["meta"])
            (folder / "run.vtape").unlink()
        for code, settings in [
            (install + "import torch", {}),
            (install + ALLOCATE, {"VRAMTAPE_RUN": "quiet"}),
            (install + ALLOCATE, {"VRAMTAPE_CONF": "record:off"}),
            (install + ALLOCATE, {"VRAMTAPE_CONF": f"tape:{folder}/run.vtape"}),
            (install + ALLOCATE, {"RANK": "3", "LOCAL_RANK": "3"}),
        ]:
            done = python(code, **settings)
            assert done.stderr == "", (settings, done.stderr)


def without_a_ring_file_the_line_says_so():
    code = "import vramtape; vramtape.install(route='pluggable')\n" + ALLOCATE
    with scratch():
        said = python(code, VRAMTAPE_RINGS="/nowhere").stderr.splitlines()[-1]
        assert "the ring was the only record" in said and "is gone" in said and "recover" not in said, said


def under_the_launcher_the_settings_are_its_own():
    code = "import torch, vramtape; vramtape.install(tape='mine.vtape', conf='stacks:all')\n" + ALLOCATE
    with scratch() as folder:
        line = [sys.executable, "-m", "vramtape", "run", "--route", "pluggable", "-o", "run.vtape", "-c", code]
        done = subprocess.run(line, check=True, stderr=subprocess.PIPE, text=True)
        assert "has decided about tape and settings" in done.stderr, done.stderr
        assert os.listdir(folder) == ["run.vtape"], os.listdir(folder)


ALLOCATE = "import torch; held = torch.empty(1000, device='cuda')\n"


def allocate():
    import torch

    return torch.empty(1000, device="cuda")


@contextlib.contextmanager
def scratch():
    """A folder to work in, and rings of its own."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        os.environ.setdefault("VRAMTAPE_RINGS", rings)
        os.chdir(folder)
        try:
            yield Path(folder).resolve()
        finally:
            os.chdir("/")


def python(text, code=0, **settings):
    """Runs a text in a process of its own, which has to end with this exit code."""
    line, environment = [sys.executable, "-c", text], {**os.environ, **settings}
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert done.returncode == code, f"{done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def events(tape):
    """How often was allocated, as a tape has it."""
    said = subprocess.run([COMMAND, "info", "--json", tape], check=True, stdout=subprocess.PIPE).stdout
    return sum(device["events"]["alloc"] for device in json.loads(said)["devices"])


def too_late():
    torch = torch_on_simcuda()
    torch.empty(1, device="cuda")
    expect("too late", "python -m vramtape run", vramtape.install)
    assert vramtape.active_route() is None


def another_allocator():
    torch = torch_on_simcuda()
    library = os.environ["VRAMTAPE_LIBRARY"]
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "vramtape_malloc", "vramtape_free")
    torch.cuda.memory.change_current_allocator(allocator)
    expect("another allocator", "change_current_allocator", vramtape.install)


def no_gpu():
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    expect("no GPU (CUDA_VISIBLE_DEVICES='')", "nvidia-smi", vramtape.install, vramtape.NoCuda)


def no_driver():
    del os.environ["VRAMTAPE_SIMCUDA"]
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        expect("no NVIDIA driver", "nvidia-smi", vramtape.install, vramtape.NoCuda)


def old_torch():
    torch_on_simcuda().__version__ = "2.6.0+cu124"
    expect("torch 2.6.0+cu124 is too old", "pip install -U torch", vramtape.install)


def torch_without_cuda():
    torch_on_simcuda().version.cuda = None
    expect("built without CUDA", "pytorch.org", vramtape.install, vramtape.NoCuda)


def no_torch():
    sys.modules["torch"] = None  # As if it were not installed.
    expect("has no torch", "install PyTorch", vramtape.install)


def no_such_route():
    expect("route='bridges'", "bridge, pluggable, observe", lambda: vramtape.install(route="bridges"))


def forked():
    """CUDA in a process forked from one with CUDA is refused, as PyTorch refuses it."""
    torch = torch_on_simcuda()
    torch.empty(1, device="cuda")
    child = os.fork()
    if child == 0:
        try:
            expect("forked", "spawn", vramtape.install)
        except BaseException as error:
            print(error, flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def no_library():
    os.environ["VRAMTAPE_LIBRARY"] = "/nowhere/libvramtape.so"
    expect("/nowhere/libvramtape.so", "VRAMTAPE_LIBRARY", vramtape.install, ImportError)


def expect(reason, advice, call, kind=vramtape.InstallError):
    """The call has to refuse, and to say why and what to do."""
    try:
        call()
    except kind as error:
        assert reason in str(error) and advice in str(error), error
    else:
        raise AssertionError(f"nothing refused: {reason}")


def torch_on_simcuda():
    from vramtape import _runtime

    _runtime.use_simcuda()
    import torch

    return torch


def library_has_bytes():
    from vramtape import _runtime

    return _runtime.answer("stats", 0)["allocated_bytes"]["all"]["current"]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
