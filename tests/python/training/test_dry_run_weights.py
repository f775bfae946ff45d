"""Weights under `vramtape dry-run`: of a model only the configuration or the headers are needed, and the memory of the
host does not grow with the model."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "python"))
import model_hub

from harness import PACKAGE, ROOT, clean_environment, run_cases
from vramtape._weights import hollow

PROGRAMS = Path(ROOT, "tests", "python", "dry_run", "weights")
LIMIT_SECONDS = 300
MODEL = "acme/large"
# 8,190,735,360 parameters of bfloat16.
PARAMETERS_BYTES = 16_381_470_720
# Of the buffers of the model, and of two tokens.
MORE_BYTES = 32 << 20
HOST_MAX_BYTES = 1 << 30
FOLDER = Path(tempfile.mkdtemp())


def environment(**settings):
    settings.setdefault("HF_HUB_OFFLINE", "1")
    return clean_environment(**PACKAGE, HF_HOME=str(FOLDER / "hub"), TMPDIR=str(FOLDER), **settings)


def python(*words, code=0, **settings):
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=FOLDER,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{words} ended with {done.returncode}:\n{said}"
    return said


def dry_run(program, *words, code=0, **settings):
    """The result, and everything that was printed."""
    with tempfile.TemporaryDirectory() as folder:  # Two run at a time.
        result = Path(folder) / "result.json"
        line = ("-m", "vramtape", "dry-run", "--quiet", "--json", result, PROGRAMS / program, *words)
        said = python(*line, code=code, **settings)
        return json.loads(result.read_text()), said


def numbers(said, name):
    (line,) = (line for line in said.splitlines() if line.startswith(name))
    return [int(word) for word in line.split()[1:]]


def a_configuration_takes_the_memory_of_its_checkpoint():
    python(PROGRAMS / "make_small.py")
    whole, said = dry_run("small.py")
    assert whole["weights"] == [], whole["weights"]
    peaks = numbers(said, "peaks")
    weights = [*FOLDER.glob("language/*.safetensors"), *FOLDER.glob("pipeline/unet/*.safetensors")]
    sizes_bytes = [hollow.file_data_bytes(file) for file in weights]
    for file in weights:
        file.unlink()
    alone, said = dry_run("small.py")
    assert numbers(said, "peaks") == peaks, (peaks, said)
    assert [one["source"] for one in alone["weights"]] == ["config.json"] * 2, alone["weights"]
    assert [one["size_bytes"] for one in alone["weights"]] == sizes_bytes, (alone["weights"], sizes_bytes)
    assert all(set(one) == {"name", "source", "size_bytes"} for one in alone["weights"]), alone["weights"]
    assert not list(FOLDER.glob("language/*.safetensors"))
    return f"{peaks[0]} bytes"


def without_a_configuration_it_fails_as_on_a_gpu():
    result, said = dry_run("large.py", "loaded", "./absent", code=3)
    assert result["verdict"] == "failed" and "OSError" in said and "absent" in said, said


def a_large_model_takes_little_of_the_host():
    python(PROGRAMS / "make_large.py")
    _, said = dry_run("large.py", "loaded", "large")
    size_bytes, allocated_bytes, host_bytes = numbers(said, "large")
    assert size_bytes == PARAMETERS_BYTES, size_bytes
    assert 0 <= allocated_bytes - size_bytes < MORE_BYTES, allocated_bytes
    assert host_bytes < HOST_MAX_BYTES, host_bytes
    return f"{host_bytes >> 20} MiB"


def a_large_model_is_made_on_the_host_without_its_memory():
    _, said = dry_run("large.py", "made", "large")
    size_bytes, allocated_bytes, host_bytes = numbers(said, "large")
    assert size_bytes == PARAMETERS_BYTES, size_bytes
    assert 0 <= allocated_bytes - size_bytes < MORE_BYTES, allocated_bytes
    assert host_bytes < HOST_MAX_BYTES, host_bytes
    return f"{host_bytes >> 20} MiB"


def downloads_end_after_the_headers():
    remote = FOLDER / "remote"
    python(PROGRAMS / "make_shards.py")
    with model_hub.serve(MODEL, remote) as hub:
        settings = {"HF_ENDPOINT": hub.endpoint, "HF_HUB_OFFLINE": "0"}
        result, said = dry_run("large.py", "downloaded", MODEL, **settings)
        sent_bytes = sum(hub.sent_bytes.values())
    assert numbers(said, "large")[0] == PARAMETERS_BYTES, said
    assert sum(one["size_bytes"] for one in result["weights"]) == PARAMETERS_BYTES, result["weights"]
    assert {one["source"] for one in result["weights"]} == {"header"}, result["weights"]
    assert len(result["weights"]) == len(list(remote.glob("*.safetensors"))) > 1, result["weights"]
    assert sent_bytes < 100 << 20, sent_bytes
    # Another program would take them for weights.
    assert not list(FOLDER.glob("hub/**/*.safetensors"))
    assert list(FOLDER.glob("hub/**/config.json"))
    return f"{sent_bytes >> 20} MiB sent"


CASES = (
    a_configuration_takes_the_memory_of_its_checkpoint,
    a_large_model_takes_little_of_the_host,
    a_large_model_is_made_on_the_host_without_its_memory,
    downloads_end_after_the_headers,
    without_a_configuration_it_fails_as_on_a_gpu,
)
try:
    run_cases([(f"dry_run_weights.{case.__name__}", case) for case in CASES])
finally:
    shutil.rmtree(FOLDER, ignore_errors=True)
