"""Puts the GPU suite together, for a machine that has python3 with torch and a GPU, and nothing of ours.

    bundle.py LIBRARY OUT [PLANS]       OUT/vramtape-gpu/ and OUT/vramtape-gpu.tar.gz

PLANS has a plan for each of the recorded programs, PROGRAM.vplan, and batches.json of `batches.py`.

Run by a Python with the torch that the bridge is built for.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# It has to get through narrow doors.
BYTES_MAX = 32 << 20


def stage(library, folder, plans):
    """The suite, the package with its library, and the bridge built beforehand."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for script in HERE.glob("*.py"):
        if script.name != "bundle.py":
            shutil.copy(script, folder)
    shutil.copytree(ROOT / "tests/python/recordings", folder / "recordings", ignore=shutil.ignore_patterns("*.pyc"))
    if plans:
        shutil.copytree(plans, folder / "plans", ignore=shutil.ignore_patterns("*.vtape"))
    package = folder / "vramtape"
    shutil.copytree(ROOT / "python/vramtape", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    subprocess.run(["strip", "--strip-debug", "-o", str(package / "libvramtape.so"), str(library)], check=True)
    shutil.copy(ROOT / "ffi/include/vramtape.h", package / "_bridge/cpp")
    prebuild(package / "_bridge/prebuilt")


def prebuild(folder):
    """The bridge for the torch of this Python, compiled now or by an earlier run."""
    sys.path.insert(0, str(ROOT / "python"))
    import torch

    from vramtape._bridge import library

    folder.mkdir()
    built = library(torch)
    subprocess.run(["strip", "--strip-debug", "-o", str(folder / built.name), str(built)], check=True)


def main():
    library, out, *plans = map(Path, sys.argv[1:])
    sys.dont_write_bytecode = True
    folder = out / "vramtape-gpu"
    stage(library, folder, *(plans or [None]))
    archive = folder.with_suffix(".tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder, folder.name)
    n_bytes = archive.stat().st_size
    if n_bytes > BYTES_MAX:
        sys.exit(f"{archive} has {n_bytes >> 20} MiB, at most {BYTES_MAX >> 20} are wanted")
    print(f"{archive}: {n_bytes / (1 << 20):.1f} MiB")


if __name__ == "__main__":
    main()
