"""The bridge is built once, found again, rebuilt for nothing, and says what is missing where it cannot be."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import vramtape
from vramtape import _runtime

_runtime.use_simcuda()
import torch

from vramtape._bridge import build, check, toolchain

built = build.library(torch)
assert built.is_file() and str(torch.version.git_version)[:12] in built.name
assert build.library(torch) == built and check.check(torch).problems == ()

with tempfile.TemporaryDirectory() as folder:
    os.environ["VRAMTAPE_CACHE"] = folder
    os.environ["CXX"] = "no-such-compiler"
    try:
        build.library(torch)
        raise SystemExit("it was built without a compiler")
    except build.BuildFailed as error:
        assert "no C++ compiler" in str(error), error
    assert "no C++ compiler" in check.check(torch).problems[0]
    compiler = Path(folder) / "compiler"
    os.environ["CXX"] = str(compiler)
    # What the machine is to blame for is not remembered: next time it may have room, or memory.
    for script, words in [
        ("echo 'fatal error: x.o: No space left on device' >&2; exit 1", "No space left"),
        ("kill -9 $$", "killed by signal 9"),
    ]:
        compiler.write_text(f"#!/bin/sh\n{script}\n")
        compiler.chmod(0o755)
        for _ in range(2):
            try:
                build.library(torch)
                raise SystemExit("it was built with a compiler that fails")
            except build.BuildFailed as error:
                assert words in str(error) and "remembered" not in str(error), error
    os.environ["VRAMTAPE_CACHE"] = "/proc/nowhere"
    try:
        build.library(torch)
        raise SystemExit("it was kept where nothing can be")
    except build.BuildFailed as error:
        assert "/proc/nowhere" in str(error) and "VRAMTAPE_CACHE" in str(error), error
    os.environ["VRAMTAPE_CACHE"] = folder
    os.environ["CXX"] = "false"  # A compiler that always fails, and says nothing.
    for attempt in range(2):
        try:
            build.library(torch)
            raise SystemExit("it was built with a compiler that fails")
        except build.BuildFailed as error:
            assert ("remembered" in str(error)) == (attempt == 1), error
    assert [path.suffix for path in sorted((Path(folder) / "bridge").iterdir())] == [".failed", ".lock"]
    code = "import vramtape, warnings; warnings.simplefilter('error'); vramtape.install()"
    child = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert "remembered" in child.stderr, child.stderr
