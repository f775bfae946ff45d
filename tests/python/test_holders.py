"""The tape of a training says which line of the program holds its memory, with nothing set."""

import base64
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

from harness import COMMAND, PACKAGE, ROOT, clean_environment, run_cases

SCRIPT = os.path.join(ROOT, "tests", "python", "holders", "train.py")
LIMIT_SECONDS = 300
# Frames of the Python package, of the library and of the bridge.
OURS = r"/python/vramtape/|libvramtape|-cxx11abi"


def line_of(mark):
    with open(SCRIPT) as file:
        return next(number for number, line in enumerate(file, 1) if f"# LINE {mark}" in line)


FORWARD = f"train.py:{line_of('forward')}"


def trained(folder, *flags, verb="run", arguments=(), conf=""):
    """Trains under a verb; the tape and what the program printed."""
    tape = os.path.join(folder, "run.vtape")
    command = [sys.executable, "-m", "vramtape", verb, "-o", tape, *flags, SCRIPT, *arguments]
    environment = clean_environment(**PACKAGE, VRAMTAPE_CONF=conf)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return tape, done.stdout


def info(tape):
    line = [COMMAND, "info", "--json", tape]
    return json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE).stdout)


def holders(tape):
    """The holders of the device, whose rows add up."""
    (device,) = info(tape)["devices"]
    found = device["holders"]
    for moment in [found["peak"], *found["ooms"]]:
        if moment is not None:
            assert sum(row["allocated_bytes"] for row in moment["rows"]) == moment["allocated_bytes"], moment
            assert sum(row["blocks"] for row in moment["rows"]) == moment["blocks"], moment
    if found["peak"] is not None:
        assert found["peak"]["allocated_bytes"] == device["peak_allocated_bytes"]
    return found


def of_kind(moment, kind):
    return [row for row in moment["rows"] if row["kind"] == kind]


def is_forward(label):
    return label in (f"{FORWARD} forward", f"{FORWARD} Net.forward")  # Python 3.11 knows the class.


def check_forward(peak):
    """The forward pass is the first of the user's lines, and all but small blocks are attributed."""
    first = of_kind(peak, "code")[0]
    assert is_forward(first["label"]), peak["rows"]
    assert "main" in first["callers"] and "frames of torch" in first["callers"], first
    stack = first["stacks"][0]["frames"]
    assert not any(re.search(OURS, frame["file"]) for frame in stack), stack
    missing = sum(row["allocated_bytes"] for row in of_kind(peak, "not_sampled"))
    assert missing < peak["allocated_bytes"] // 100, peak["rows"]


def by_default():
    with tempfile.TemporaryDirectory() as folder:
        tape, _ = trained(folder, "--route", "pluggable")
        assert "stacks_every:1MiB" in info(tape)["meta"]["vramtape_conf"]
        peak = holders(tape)["peak"]
        text = subprocess.run([COMMAND, "info", tape], check=True, capture_output=True, text=True).stdout
        waste = subprocess.run([COMMAND, "waste", tape], check=True, capture_output=True, text=True).stdout
    check_forward(peak)
    # Without the bridge nothing says which forward call a backward pass is of.
    assert of_kind(peak, "autograd_backward"), peak["rows"]
    for words in (text, waste):
        assert "largest holders at the peak" in words and FORWARD in words, words


def with_the_bridge(verb):
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--route", "bridge"] if verb == "run" else []
        tape, _ = trained(folder, *flags, verb=verb)
        peak = holders(tape)["peak"]
    check_forward(peak)
    backward = of_kind(peak, "backward_of_code")
    assert backward and is_forward(backward[0]["label"].replace("backward of ", "")), peak["rows"]
    node = backward[0]["stacks"][0]["frames"][0]
    assert node["library"] == "backward" and "Backward" in node["function"], node


def out_of_memory():
    with tempfile.TemporaryDirectory() as folder:
        tape, _ = trained(folder, "--route", "pluggable", arguments=["oom"])
        (oom,) = holders(tape)["ooms"]
    assert oom["refused"]["label"] == f"train.py:{line_of('refused')} main", oom["refused"]
    assert oom["rows"], oom


def settings_win():
    with tempfile.TemporaryDirectory() as folder:
        tape, _ = trained(folder, "--route", "pluggable", "--conf", "stacks:none")
        found = holders(tape)
        assert found["peak"] is None and "stacks_every:1MiB" in found["note"], found
        tape, _ = trained(tempfile.mkdtemp(dir=folder), "--route", "pluggable", conf="stacks:all")
        conf = info(tape)["meta"]["vramtape_conf"]
        assert "stacks:all" in conf and "stacks_every" not in conf, conf
        found = holders(tape)
    assert found["sampled_every_bytes"] is None and not of_kind(found["peak"], "not_sampled"), found["peak"]["rows"]


def native_frames():
    with tempfile.TemporaryDirectory() as folder:
        tape, _ = trained(folder, "--route", "bridge", "--conf", "stacks_native:True,stacks_every:1MiB")
        snapshot = os.path.join(folder, "run.json")
        subprocess.run([COMMAND, "export", "--force", "-o", snapshot, tape], check=True, capture_output=True)
        with open(snapshot) as file:
            entries = json.load(file)["device_traces"][0]
        peak = holders(tape)["peak"]
    check_forward(peak)
    stacks = [entry["frames"] for entry in entries if entry["action"] == "alloc" and entry.get("frames")]
    assert any("libtorch" in frames[0]["filename"] for frames in stacks), stacks[:1]
    ours = [frame for frames in stacks for frame in frames if re.search(OURS, frame["filename"])]
    assert not ours, ours[0]


def profiled():
    with tempfile.TemporaryDirectory() as folder:
        page = os.path.join(folder, "block.html")
        _, printed = trained(folder, "--route", "pluggable", arguments=["profile", page])
        with open(page) as file:
            text = file.read()
    assert printed.strip(), "the largest holder of the block"
    names = json.loads(gzip.decompress(base64.b64decode(re.search(r'id="d0/names">([^<]*)<', text)[1])))
    labels = [label for labels in names["groups"] for label in labels]
    assert any(is_forward(label) for label in labels), labels


run_cases(
    [
        ("holders.default", by_default),
        ("holders.bridge", lambda: with_the_bridge("run")),
        ("holders.record", lambda: with_the_bridge("record")),
        ("holders.oom", out_of_memory),
        ("holders.settings_win", settings_win),
        ("holders.native", native_frames),
        ("holders.profile", profiled),
    ]
)
