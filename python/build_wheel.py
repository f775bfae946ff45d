"""Builds the library of the wheel with cargo, when pip builds the wheel."""

import json
import os
import shutil
import subprocess
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CARGO = ["cargo", "build", "--release", "--locked", "--package", "python"]


class Library(BuildHookInterface):
    """Puts libvramtape_lab.so beside the Python files; the wheel is for any Python 3 on this platform."""

    def initialize(self, version, build_data):
        """Called before the wheel is put together."""
        stripped = os.path.join(self.directory, "libvramtape_lab.so")
        os.makedirs(self.directory, exist_ok=True)
        strip(build(self.root), stripped)
        build_data["force_include"][stripped] = "vramtape/libvramtape_lab.so"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        self.stripped = stripped

    def finalize(self, version, build_data, artifact_path):
        """Called when the wheel is there."""
        os.remove(self.stripped)


def build(root):
    """Builds the library and says where it is."""
    if shutil.which("cargo") is None:
        raise SystemExit("no cargo on PATH: install Rust with rustup, then run pip again")
    command = [*CARGO, "--message-format=json-render-diagnostics"]
    made = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise SystemExit(f"`{' '.join(CARGO)}` failed in {root}; its errors are above")
    for message in map(json.loads, made.stdout.splitlines()):
        if message.get("target", {}).get("name") == "vramtape_lab":
            return next(name for name in message["filenames"] if name.endswith(".so"))
    raise SystemExit("cargo built no libvramtape_lab.so")


def strip(library, to):
    """Leaves out what only a debugger reads, most of the file; names in backtraces stay."""
    if shutil.which("strip") is None:
        shutil.copyfile(library, to)
    else:
        subprocess.run(["strip", "--strip-debug", "-o", to, library], check=True)
