"""The bridge is built once, found again, rebuilt for nothing, and says what is missing where it cannot be."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from vramtape import _runtime

_runtime.use_simcuda()
import torch

from vramtape._bridge import build, check, trust

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
    # Failures caused by the machine are not cached: next time it may have disk space, or memory.
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


def refused(library, *words):
    """The bridge is not taken from there, and the reason names it."""
    try:
        raise SystemExit(f"{build.library(torch)} was taken")
    except build.BuildFailed as error:
        assert all(word in str(error) for word in (str(library), *words)), error
    assert any(str(library) in problem for problem in check.check(torch).problems)


# A library that another user could have written is not loaded.
with tempfile.TemporaryDirectory() as folder:
    os.environ["VRAMTAPE_CACHE"] = folder
    cache = Path(folder) / "bridge"
    cache.mkdir(mode=0o700)
    library = cache / built.name
    library.write_bytes(built.read_bytes())
    library.chmod(0o755)
    assert build.library(torch) == library
    library.chmod(0o757)
    refused(library, "written by other users", "remove it")
    library.chmod(0o755)
    cache.chmod(0o777)
    refused(cache, "written by other users", "chmod 700")
    cache.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(library, 4711, -1)
        refused(library, "belongs to user 4711")
        os.chown(library, 0, -1)
        os.chown(cache, 4711, -1)
        refused(cache, "belongs to user 4711")
        os.chown(cache, 0, -1)
    moved = Path(folder) / "planted.so"
    library.rename(moved)
    library.symlink_to(moved)
    refused(library, "is a link")
    library.unlink()

    # A library that is empty, as a full disk leaves it, is built again; a compiler's timeout is not remembered.
    library.touch(mode=0o755)
    os.environ["CXX"] = str(Path(folder) / "compiler")
    Path(os.environ["CXX"]).write_text("#!/bin/sh\nexec sleep 60\n")
    Path(os.environ["CXX"]).chmod(0o755)
    build._LIMIT_SECONDS = 0.2
    for _ in range(2):
        try:
            build.library(torch)
            raise SystemExit("an empty library was taken, or a compiler that does nothing built one")
        except build.BuildFailed as error:
            assert "not done after" in str(error) and "remembered" not in str(error), error

with tempfile.TemporaryDirectory() as folder:
    os.environ["VRAMTAPE_CACHE"] = str(Path(folder) / "new")
    os.umask(0)
    trust.make_private(build.cache())
    assert build.cache().stat().st_mode & 0o777 == 0o700
