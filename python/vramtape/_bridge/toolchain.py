"""The tools to compile against the installed torch: a C++ compiler, torch's headers and CUDA's."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

# Headers that torch's own include, and the wheel that has each.
_CUDA_HEADERS = {"cuda_runtime_api.h": "runtime", "crt/host_defines.h": "crt"}
# The first torch whose headers are C++20.
_CXX20_SINCE = (2, 12)


@dataclass
class Toolchain:
    """A compiler and where its headers are; what is missing is said in ``missing``, one sentence each."""

    compiler: str = ""
    includes: list[Path] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def find(torch: Any) -> Toolchain:
    """Returns the tools on this machine for the torch in this process."""
    found = Toolchain()
    compiler = _compiler()
    if compiler is None:
        found.missing.append("no C++ compiler: install g++ or clang++, or name one in CXX")
    found.compiler = compiler or ""
    own = Path(torch.__file__).parent / "include"
    found.includes.append(own)
    if not (own / "torch/csrc/cuda/CUDAPluggableAllocator.h").is_file():
        found.missing.append(f"torch's headers are not in {own}: install torch from its wheel")
    folders = list(_cuda_folders(torch))
    wanted = dict(_CUDA_HEADERS)
    for folder in folders:
        has = [header for header in wanted if (folder / header).is_file()]
        if has:
            found.includes.append(folder)
        for header in has:
            del wanted[header]
    if wanted:
        wheels = " ".join(_wheel(torch, part) for part in wanted.values())
        found.missing.append(
            f"no CUDA headers ({', '.join(wanted)}): run `pip install {wheels}`, or name a CUDA toolkit in CUDA_HOME"
        )
    return found


def flags(torch: Any) -> list[str]:
    """How the compiler is called, besides includes and files."""
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    return [
        "-std=c++20" if version >= _CXX20_SINCE else "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
    ]


def libraries(torch: Any) -> list[str]:
    """Returns the linker flags. Torch has loaded these libraries already, so they are found by their names."""
    return [f"-L{Path(torch.__file__).parent / 'lib'}", "-lc10", "-lc10_cuda", "-ltorch_cpu", "-ltorch_cuda"]


def _compiler() -> Optional[str]:
    named = os.environ.get("CXX")
    for name in [named] if named else ["c++", "g++", "clang++"]:
        found = shutil.which(name)
        if found:
            return found
    return None


def _cuda_folders(torch: Any) -> Iterator[Path]:
    """Where CUDA's headers may be: those of torch's own CUDA first, as its wheels bring them."""
    site = Path(torch.__file__).parent.parent
    major = str(torch.version.cuda).split(".", 1)[0]
    yield site / f"nvidia/cu{major}/include"
    yield site / "nvidia/cuda_runtime/include"
    yield site / "nvidia/cuda_nvcc/include"
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        yield Path(home) / "include"
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield Path(nvcc).resolve().parent.parent / "include"
    yield Path("/usr/local/cuda/include")
    # Triton brings what its own compiler needs; of another release of CUDA perhaps, but these two are stable.
    yield site / "triton/backends/nvidia/include"


def _wheel(torch: Any, part: str) -> str:
    """The requirement that pip is given for CUDA's headers, of the version of the runtime that torch came with."""
    major = int(str(torch.version.cuda).split(".", 1)[0])
    name = f"nvidia-cuda-{part}" + (f"-cu{major}" if major < 13 else "")
    if part == "crt" and major < 13:
        name = f"nvidia-cuda-nvcc-cu{major}"  # Has the same headers; there is no wheel of them alone.
    try:
        runtime = metadata.version("nvidia-cuda-runtime" + (f"-cu{major}" if major < 13 else ""))
    except metadata.PackageNotFoundError:
        return f"'{name}=={torch.version.cuda}.*'"
    minor = ".".join(runtime.split(".")[:2])
    return f"'{name}=={minor}.*'"
