#!/usr/bin/env python3
"""Writes src/not_simulated/list.rs: what PyTorch imports from CUDA's libraries and simcuda does not define.

    python3 simcuda/entry_points.py VENV [VENV ...]    # virtual environments with torch; needs nm
    python3 simcuda/entry_points.py --check VENV       # only says what is neither defined nor on the list

The imports are read from torch's own libraries, the driver functions that PyTorch looks up by name from their strings.
Run it for every supported torch version at once, and again when an entry point is added to the sources here.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
OUT = HERE / "src/not_simulated/list.rs"

# Library without its version -> what its functions are called here: CUDA 12 and 13 import the same names under other
# versions. Libraries that are not named stay real: NVRTC compiles on the host, cuFile and CUPTI are not part of
# training. NCCL's names have no version.
LIBRARIES = {
    "libcudart.so": "cudart",
    "libcublas.so": "cublas",
    "libcublasLt.so": "cublas",
    "libcudnn.so": "cudnn",
    "libcufft.so": "cufft",
    "libcusolver.so": "cusolver",
    "libcusparse.so": "cusparse",
}
# These work without a GPU in the real libraries: registration of kernels, versions, texts of errors.
REAL = re.compile(
    r"__cudaRegister|__cudaUnregister|cudaRuntimeGetVersion|cudaGetError|GetVersion$|GetErrorString|GetErrorName|"
    r"ncclGetLastError|cudnnGetCudartVersion|cudnnGetLastErrorString|cudnnGetProperty|"
    # Descriptors of cuDNN's legacy interface, and their sizes.
    r"cudnn(Create|Destroy)(Activation|CTCLoss|Convolution|Filter|Pooling|SpatialTransformer|Tensor)Descriptor|"
    r"cudnnSet(Activation|CTCLoss|Convolution|Filter|Pooling|SpatialTransformer|Tensor)|cudnnGet(Filter|Tensor)Nd"
)
NCCL_NAME = re.compile(r"p?nccl[A-Z][A-Za-z0-9]+")
DRIVER_NAME = re.compile(r"cu[A-Z][A-Za-z0-9]+(_v\d)?")
# Names that have the same arguments and the same body.
SHARED = re.compile(r"((?:\b\w+\s+)+)=> \(")
# Macros that define every name in them.
BLOCK = re.compile(r"^(?:operations|accepted|forward|unsupported)! \{(.*?)\}$", re.DOTALL | re.MULTILINE)
NOT_DRIVER = re.compile(r"cu(File|blas|dnn|fft|rand|solver|sparse|pti|tlass)")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def imports(venv):
    """(group, name) of everything that this torch takes from CUDA."""
    libraries = sorted(pathlib.Path(venv).glob("lib/python3*/site-packages/torch/lib/*.so"))
    if not libraries:
        sys.exit(f"{venv}: no torch in this virtual environment; pip install torch there first")
    for library in libraries:
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            name, _, version = line.split()[-1].partition("@")
            library_name = version.rpartition(".")[0]
            if library_name in LIBRARIES:
                yield LIBRARIES[library_name], name
            elif not version and NCCL_NAME.fullmatch(name):
                yield "nccl", name
            elif not version and DRIVER_NAME.fullmatch(name) and not NOT_DRIVER.match(name):
                yield "driver", name
        if library.name == "libc10_cuda.so":
            for text in re.findall(rb"\0(cu[A-Z][A-Za-z0-9]+)(?=\0)", library.read_bytes()):
                yield "driver", text.decode()


def defined():
    """Names that the sources define."""
    names = set()
    for source in HERE.glob("src/**/*.rs"):
        if source == OUT:
            continue
        text = source.read_text()
        names.update(re.findall(r"\bfn (\w+)\(", text))
        for block in (*BLOCK.findall(text), *SHARED.findall(text)):
            names.update(block.split())
    return names


def missing(venvs):
    """Group -> names that are imported and not defined."""
    have = defined()
    # cuGetProcAddress finds the newest version of a name, so a defined one with a suffix serves it.
    have |= {re.sub(r"_v\d$", "", name) for name in have}
    found = {}
    for venv in venvs:
        for group, name in imports(venv):
            if name not in have and not REAL.search(name):
                found.setdefault(group, set()).add(name)
    return found


def check(venv):
    listed = set(re.findall(r"^    (\w+)$", OUT.read_text(), re.MULTILINE))
    unlisted = {name for names in missing([venv]).values() for name in names} - listed
    if unlisted:
        sys.exit(f"{venv}: not in {OUT}: {', '.join(sorted(unlisted))}; write the list anew")


def write(venvs):
    found = missing(venvs)
    lines = ["//! Written by entry_points.py from the imports of PyTorch; do not edit.", "", "use super::answers;"]
    for group in sorted(found):
        lines += ["", f"answers! {{ {group}:"]
        lines += [f"    {name}" for name in sorted(found[group])]
        lines += ["}"]
    partial = OUT.with_suffix(".tmp")
    partial.write_text("\n".join(lines) + "\n")
    partial.replace(OUT)
    print(f"{OUT}: {sum(map(len, found.values()))} entry points")


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    if arguments[0] == "--check":
        for venv in arguments[1:]:
            check(venv)
    else:
        write(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
