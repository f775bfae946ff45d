"""Builds the libraries of the wheel with cargo, when pip builds the wheel."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile

from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# Each library, and the package of the workspace that it is made of.
LIBRARIES = {"vramtape": "ffi", "vramtape_lab": "python", "simcuda": "simcuda"}
# The simulated driver, under the three names that programs load; a wheel has no links, so each is a file.
SIMCUDA, SIMCUDA_FILES = "simcuda", ("libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1")
ASSEMBLE = "simcuda/assemble.sh"
CARGO = ["cargo", "build", "--release", "--locked"]
# The header that the bridge is compiled against on the user's machine.
HEADER = "ffi/include/vramtape.h"
# Names a folder with bridges that were built beforehand, which the wheel takes along: `cargo xtask wheel` fills it.
BRIDGES = "VRAMTAPE_BRIDGES"
# Names a lab that was built beforehand, which the wheel takes along: `cargo xtask test` has one.
LAB = "VRAMTAPE_PREBUILT_LAB"


class Libraries(BuildHookInterface):
    """Puts the libraries beside the Python files; the wheel is for any Python 3 on a Linux like this one or newer."""

    def initialize(self, version, build_data):
        """Called before the wheel is put together."""
        os.makedirs(self.directory, exist_ok=True)
        self.stripped = []
        built = build(self.root)
        for name in ("vramtape", "vramtape_lab"):
            self.include(build_data, built[name], f"vramtape/lib{name}.so")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["sh", os.path.join(self.root, ASSEMBLE), built[SIMCUDA], folder], check=True)
            for name in SIMCUDA_FILES:
                self.include(build_data, os.path.join(folder, name), f"vramtape/_sim/{name}")
        for bridge in bridges():
            self.include(build_data, bridge, f"vramtape/_bridge/prebuilt/{os.path.basename(bridge)}")
        build_data["force_include"][os.path.join(self.root, HEADER)] = "vramtape/_bridge/cpp/vramtape.h"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform(self.stripped)}"

    def include(self, build_data, library, place):
        """Takes a library along, without what only a debugger reads."""
        stripped = os.path.join(self.directory, os.path.basename(place))
        strip(library, stripped)
        self.stripped.append(stripped)
        build_data["force_include"][stripped] = place

    def finalize(self, version, build_data, artifact_path):
        """Called when the wheel is there."""
        for stripped in self.stripped:
            os.remove(stripped)


def build(root):
    """Builds the libraries and says where each is."""
    if shutil.which("cargo") is None:
        raise SystemExit("no cargo on PATH: install Rust with rustup (https://rustup.rs), then run pip again")
    built = prebuilt()
    packages = [flag for name, package in LIBRARIES.items() if name not in built for flag in ("--package", package)]
    command, output = [*CARGO, *packages], "--message-format=json-render-diagnostics"
    made = subprocess.run([*command, output], cwd=root, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        raise SystemExit(f"`{' '.join(command)}` failed in {root}; its errors are above")
    for message in map(json.loads, made.stdout.splitlines()):
        name = message.get("target", {}).get("name")
        if message.get("reason") == "compiler-artifact" and name in LIBRARIES:
            built.update((name, file) for file in message["filenames"] if file.endswith(".so"))
    missing = LIBRARIES.keys() - built
    if missing:
        raise SystemExit(f"cargo built no {' and no '.join(f'lib{name}.so' for name in sorted(missing))}")
    return built


def prebuilt():
    """The libraries that were built beforehand."""
    lab = os.environ.get(LAB)
    if lab and not os.path.isfile(lab):
        raise SystemExit(f"{LAB}={lab} is not a file: unset it, and the lab is built")
    return {"vramtape_lab": lab} if lab else {}


def bridges():
    """Those that were built beforehand."""
    folder = os.environ.get(BRIDGES)
    if not folder:
        return []
    found = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".so"))
    if not found:
        raise SystemExit(f"{BRIDGES}={folder} holds no bridge: `cargo xtask wheel` builds them")
    return found


def strip(library, to):
    """Leaves out what only a debugger reads, most of the file; names in backtraces stay."""
    if shutil.which("strip") is None:
        shutil.copyfile(library, to)
    else:
        subprocess.run(["strip", "--strip-debug", "-o", to, library], check=True)


def platform(libraries):
    """The oldest Linux that has what the libraries ask for: pip installs the wheel there and on newer ones."""
    minor = max(glibc_minor(library) for library in libraries)
    machine = sysconfig.get_platform().split("-", 1)[1].replace("-", "_").replace(".", "_")
    return f"manylinux_2_{minor}_{machine}"


def glibc_minor(library):
    """The newest GLIBC_2.N among the versions of the symbols that a library takes from others."""
    with open(library, "rb") as file:
        needed = next((s for s in ELFFile(file).iter_sections() if isinstance(s, GNUVerNeedSection)), None)
        names = [version.name for _, versions in needed.iter_versions() for version in versions] if needed else []
    found = (re.match(r"GLIBC_2\.(\d+)", name) for name in names)
    return max((int(version[1]) for version in found if version), default=0)
