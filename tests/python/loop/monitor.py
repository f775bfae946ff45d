"""`vramtape.Monitor` under a route, or under PyTorch's own allocator (`native`)."""

import io
import logging
import pickle
import re
import resource
import sys
import tempfile
import warnings
from contextlib import redirect_stderr
from pathlib import Path

import vramtape
from vramtape import _runtime

route = sys.argv[1]
assert set(vramtape.get_memory_stats().values()) == {0}, "without torch"
if route == "native":
    _runtime.use_simcuda()
else:
    vramtape.install(route=route)
import torch

MIB = 1 << 20
assert set(vramtape.get_memory_stats().values()) == {0} and vramtape.get_memory_utilization() == 0.0
before = io.StringIO()
with redirect_stderr(before):
    vramtape.Monitor().report(0)
assert before.getvalue() == "" and not torch.cuda.is_initialized(), "asking begins nothing"

kept = torch.empty(96 * MIB, dtype=torch.uint8, device="cuda")
del_me = torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
del del_me
stats = vramtape.get_memory_stats()
total = torch.cuda.get_device_properties(0).total_memory
sizes = {"allocated": 96 * MIB, "peak": 224 * MIB, "reserved": torch.cuda.memory_reserved(), "total": total}
assert stats == {
    **{f"{name}_gb": size / (1 << 30) for name, size in sizes.items()},
    **{f"{name}_bytes": size for name, size in sizes.items()},
}, stats
assert vramtape.get_memory_utilization(0) == 224 * MIB / total

# The line of the documentation.
example = {"allocated_gb": 12.3, "peak_gb": 14.83, "reserved_gb": 16.0, "total_gb": 80.0}
line = vramtape.format_memory_stats({**example, "peak_bytes": 1483, "total_bytes": 8000}, step=7)
assert line == "[step 7] GPU mem: 12.3GiB allocated, 14.8GiB peak, 16.0GiB reserved / 80.0GiB total (19%)", line

with tempfile.TemporaryDirectory() as folder:
    lines = []
    monitor = vramtape.Monitor("cuda:0", snapshot_step=2, snapshot_dir=Path(folder) / "made" / "here", log=lines.append)
    answers = [monitor.report(step) for step in (1, 2)]
    assert [answer["peak_bytes"] for answer in answers] == [224 * MIB, 96 * MIB], "a report begins a new interval"
    assert re.fullmatch(r"\[step 1\] GPU mem: 0\.1GiB allocated, 0\.2GiB peak, .*GiB total \(\d+%\)", lines[0]), lines
    snapshot = monitor.snapshot_dir / "memory-rank0-device0-step2.pickle"
    suffixes = [".html", ".pickle"] if route == "native" else [".html", ".pickle", ".vtape"]
    assert sorted(monitor.snapshot_dir.iterdir()) == [snapshot.with_suffix(suffix) for suffix in suffixes]
    assert '"moments":' in snapshot.with_suffix(".html").read_text()
    data = pickle.loads(snapshot.read_bytes())
    assert sum(segment["allocated_size"] for segment in data["segments"]) == 96 * MIB
    actions = [event["action"] for event in data["device_traces"][0]]
    if route != "native":
        wanted = ["segment_alloc", "alloc", "segment_alloc", "alloc", "free_requested", "free_completed"]
        assert actions == wanted, f"no history was on: {actions}"
        assert vramtape.info(snapshot.with_suffix(".vtape"))["devices"][0]["end_allocated_bytes"] == 96 * MIB

    # A full disk: a warning, once.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        assert [monitor.snapshot(9), monitor.snapshot(9)] == [None, None]
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        nowhere = vramtape.Monitor(snapshot_step=1, snapshot_dir="/proc/nowhere", log=lines.append)
        nowhere.report(1)
    texts = [str(one.message) for one in said]
    assert len(texts) == 2 and all("training goes on" in text for text in texts), texts
    assert not [path for path in monitor.snapshot_dir.iterdir() if "step9" in path.name and path.suffix == ".pickle"]

    if route != "native":  # The tape fits, and what PyTorch's viewer reads does not: the tape stays, and is named.
        from vramtape import _profile

        export, _profile.export = _profile.export, lambda *_: (_ for _ in ()).throw(OSError("no space left"))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert vramtape.Monitor(snapshot_dir=monitor.snapshot_dir).snapshot(10) is None
        _profile.export = export
        tape = next(path for path in monitor.snapshot_dir.iterdir() if "step10" in path.name)
        assert tape.suffix == ".vtape" and str(tape) in str(said[0].message), said

# A device that is not there is a warning, and no snapshot of another.
with warnings.catch_warnings(record=True) as said, tempfile.TemporaryDirectory() as folder:
    warnings.simplefilter("always")
    wrong = [vramtape.Monitor(device, snapshot_dir=folder).snapshot(1) for device in (7, "cpu", True)]
    assert wrong == [None] * 3 and not list(Path(folder).iterdir()), wrong
for one, words in zip(said, ("there is no device 7", "device='cpu' names no CUDA", "device=True names no CUDA")):
    assert words in str(one.message), one.message

# Where a line goes without `log=`.
shown = io.StringIO()
with redirect_stderr(shown):
    vramtape.Monitor().report(3)
assert shown.getvalue().startswith("[step 3] GPU mem: "), "logging is not set up"
logged = io.StringIO()
logging.basicConfig(stream=logged, level=logging.INFO)
with redirect_stderr(shown):
    vramtape.Monitor().report(4)
assert "[step 4]" in logged.getvalue() and "[step 4]" not in shown.getvalue()

vramtape.reset_peak_memory()
assert torch.cuda.max_memory_allocated() == 96 * MIB
