"""`vramtape.profile` around a block, a function, blocks in blocks and in threads, and out of memory."""

import pickle
import resource
import tempfile
import threading
import warnings
from contextlib import contextmanager
from pathlib import Path

import vramtape
from vramtape import _files, _runtime

vramtape.install(route="pluggable")
import torch

MIB = 1 << 20


def empty(mib, device=0):
    return torch.empty(mib * MIB, dtype=torch.uint8, device=f"cuda:{device}")


def stats(p):
    names = ("start_allocated_bytes", "peak_allocated_bytes", "end_allocated_bytes")
    return tuple(p.memory_stats[name] // MIB for name in names)


def library(name, which):
    return _runtime.answer("stats", 0)[name]["all"][which]


@contextmanager
def limited(size_bytes):
    """Files as small as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refused(error, words, call):
    try:
        answer = call()
    except error as found:
        assert words in str(found), found
    else:
        raise AssertionError(f"{answer!r} and no {error}: {words}")


kept = empty(32)
highest = empty(300)
del highest
reserved = library("reserved_bytes", "current")
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    with vramtape.profile(folder / "block.html") as p:
        passing = empty(100)
        del passing
        staying = empty(8)
    assert stats(p) == (32, 132, 40), p.memory_stats
    assert p.memory_stats["lost"] == 0 and p.memory_stats["events"]["alloc"] == 2
    assert p.memory_stats["end_reserved_bytes"] == reserved, "nothing was emptied"
    assert library("reserved_bytes", "current") == reserved, "nothing was emptied"
    assert library("allocated_bytes", "peak") == 332 * MIB, "the peak was not reset"
    assert "<html" in (folder / "block.html").read_text()

    # The block's own events, and the memory that was there before and is there after.
    p.save_pickle(folder / "block.pickle")
    data = pickle.loads((folder / "block.pickle").read_bytes())
    assert [one["action"] for one in data["device_traces"][0] if one["action"] == "alloc"] == ["alloc"] * 2
    assert sum(segment["allocated_size"] for segment in data["segments"]) == 40 * MIB
    p.save_tape(folder / "block.vtape")
    assert vramtape.info(folder / "block.vtape")["devices"][0]["start_allocated_bytes"] == 32 * MIB
    assert vramtape.replay(folder / "block.vtape")["peak_allocated_bytes"] == 132 * MIB
    assert sorted(path.name for path in folder.iterdir()) == ["block.html", "block.pickle", "block.vtape"]

    # A block in a block, the same profile again in itself, and a function that calls itself.
    with vramtape.profile() as outer:
        first = empty(16)
        with vramtape.profile() as inner, outer:
            second = empty(64)
            del second
        assert stats(inner) == stats(outer) == (56, 120, 56)
        del first
    assert stats(outer) == (40, 120, 40)

    counted = vramtape.profile(device=0)

    @counted
    def recurse(depth):
        """Words."""
        held = empty(10)
        if depth:
            recurse(depth - 1)
        return depth, held.numel()

    assert recurse(2) == (2, 10 * MIB) and recurse.__doc__ == "Words." and stats(counted) == (40, 70, 40)

    # An exception ends a block and is the program's.
    failing = vramtape.profile()
    try:
        with failing:
            large = empty(20)
            raise KeyError("mine")
    except KeyError as error:
        assert error.args == ("mine",)
    assert stats(failing) == (40, 60, 60)
    del large

    # Threads: each block has what the device did meanwhile.
    together, blocks = threading.Barrier(2), {}

    def work(mib):
        with vramtape.profile() as own:
            together.wait()
            held = empty(mib)
            together.wait()
            del held
        blocks[mib] = own

    threads = [threading.Thread(target=work, args=[mib]) for mib in (24, 48)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert [stats(block)[1] for block in blocks.values()] == [40 + 24 + 48] * 2

    # Several devices: one tape, numbers and a page for each.
    with vramtape.profile(device=1) as p:
        other = empty(48, device=1)
        del other
    assert (p.memory_stats["id"], stats(p)) == (1, (0, 48, 0))
    p.save_html(folder / "other.html")
    p.save_html(folder / "zero.html", device=0)
    p.save_pickle(folder / "both.pickle")
    data = pickle.loads((folder / "both.pickle").read_bytes())
    assert {segment["device"] for segment in data["segments"]} == {0, 1}

    # A device is named as in torch.cuda; one that was never used has no numbers, least of all another's.
    with vramtape.profile(device="cuda:1") as p:
        pass
    assert p.memory_stats["id"] == 1
    for device, error in [("cpu", ValueError), (-1, ValueError), ("first", ValueError), (1.5, TypeError)]:
        refused(error, f"device={device!r} names no CUDA device", lambda device=device: vramtape.profile(device=device))
    with vramtape.profile(device=torch.device("cuda", 7)) as p:
        pass
    refused(RuntimeError, "nothing is recorded of device 7, only of 0, 1", lambda: p.memory_stats)

    # A snapshot is one, whatever it is called; what is no file is not replaced by one.
    with vramtape.profile() as p:
        pass
    p.save_pickle(folder / "named.pkl")
    assert pickle.loads((folder / "named.pkl").read_bytes())["segments"]
    p.save_pickle(folder / "named.json")
    assert (folder / "named.json").read_text().startswith("{")
    link = folder / "device"
    link.symlink_to("/dev/null")
    for save in (p.save_html, p.save_pickle, p.save_tape):
        refused((OSError, vramtape.Error), "which a file must not replace", lambda save=save: save(folder))
        refused((OSError, vramtape.Error), "which a file must not replace", lambda save=save: save(link))
    assert link.is_symlink()
    (folder / "full").mkdir()
    with limited(100):
        target = str(folder / "full" / "block.vtape")
        refused(OSError, f"File too large: '{target}'", lambda: p.save_tape(target))
    assert not list((folder / "full").iterdir())

    def read_another():
        with _files.whole(folder / "full" / "block.vtape"):
            (folder / "gone").read_bytes()

    refused(FileNotFoundError, f"'{folder / 'gone'}'", read_another)
    refused(TypeError, "brackets", lambda: vramtape.profile(recurse))
    refused(TypeError, "int", lambda: vramtape.profile().dump_on_oom(5))

    # Out of memory: the exception is PyTorch's, and the block is kept.
    ooms = folder / "ooms"
    for _ in range(2):  # As a search for the largest batch does: the first is saved.
        before = None
        try:
            with vramtape.profile(folder / "oom.vtape").dump_on_oom(ooms) as p:
                before = empty(12)
                empty(1 << 30)
        except torch.OutOfMemoryError:
            pass
    assert p.memory_stats["events"]["oom"] == 1 and stats(p)[1] == 52
    assert sorted(path.suffix for path in ooms.iterdir()) == [".html", ".pickle", ".vtape"], list(ooms.iterdir())
    assert all(path.name.startswith("oom-rank0-pid") for path in ooms.iterdir())
    assert (folder / "oom.vtape").exists()
    del before

    # A failed save is a warning at the end of a block, and an error of an explicit call.
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with vramtape.profile("/proc/nowhere/block.vtape") as p:
            pass
    assert len(said) == 1 and "not saved" in str(said[0].message), said
    for broken in (lambda: p.save_tape("/proc/nowhere/t.vtape"), lambda: p.save_pickle("/proc/nowhere/t.pickle")):
        try:
            broken()
        except (OSError, vramtape.Error):
            continue
        raise AssertionError("the file cannot be there")

try:
    vramtape.profile("run.txt")
except ValueError as error:
    assert ".html, .pickle, .json, .vtape" in str(error)
try:
    _ = vramtape.profile().memory_stats
except RuntimeError as error:
    assert "no block has ended" in str(error)
