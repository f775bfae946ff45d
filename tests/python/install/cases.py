"""One case of `vramtape.install()`, named on the command line, in a process of its own."""

import ctypes
import os
import subprocess
import sys
import warnings

import vramtape


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
    """A process forked from one with CUDA is told that it cannot have it, as PyTorch would."""
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
