"""The structures that simcuda fills have the layout of the CUDA headers installed beside torch."""

import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

SOURCES = pathlib.Path(__file__).parents[3] / "simcuda/src"
STRUCTURES = {
    "Cuda12Properties": "struct cudaDeviceProp",
    "Cuda13Properties": "struct cudaDeviceProp",
    "FunctionAttributes": "struct cudaFuncAttributes",
    "PointerAttributes": "struct cudaPointerAttributes",
    "AllocationProperties": "CUmemAllocationProp",
    "AccessDescription": "CUmemAccessDesc",
    "LaunchConfig": {"execution.rs": "cudaLaunchConfig_t", "driver": "CUlaunchConfig"},
}
FIELDS = {
    "total_global_mem": "totalGlobalMem",
    "multi_processor_count": "multiProcessorCount",
    "shared_mem_per_block_optin": "sharedMemPerBlockOptin",
    "stream": "stream",
    "device_pointer": "devicePointer",
    "host_pointer": "hostPointer",
}
# Layouts of one CUDA version only.
ONLY_IN = {"Cuda12Properties": 12, "sizeof(struct cudaPointerAttributes)": 12, "Cuda13Properties": 13}


def claims(cuda):
    """C expressions with the value that an assertion in the sources gives them for this CUDA."""
    for source in sorted(SOURCES.glob("**/*.rs")):
        text = source.read_text()
        launch = "CUlaunchConfig" if source.parent.name == "driver" else "cudaLaunchConfig_t"
        names = {**STRUCTURES, "LaunchConfig": launch}
        for rust, value in re.findall(r"assert!\(size_of::<(\w+)>\(\) == (\d+)\)", text):
            expression = f"sizeof({names.get(rust)})"
            if rust in names and cuda == ONLY_IN.get(rust, ONLY_IN.get(expression, cuda)):
                yield expression, int(value)
        for rust, field, value in re.findall(r"offset_of!\((\w+), (\w+)\) == (\d+)\)", text):
            field = "hStream" if launch == "CUlaunchConfig" else FIELDS[field]
            if cuda == ONLY_IN.get(rust, cuda):
                yield f"offsetof({names.get(rust)}, {field})", int(value)


nvidia = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia"
cuda = 13 if (nvidia / "cu13").exists() else 12
wheels = ["cu13"] if cuda == 13 else ["cuda_runtime", "cuda_nvcc"]  # CUDA 12 has a folder for each wheel.
include = [nvidia / wheel / "include" for wheel in wheels]
if not (include[-1] / "crt/host_defines.h").exists():
    wheel = "nvidia-cuda-crt" if cuda == 13 else "nvidia-cuda-nvcc-cu12"
    print(f"skipped: no CUDA headers in {include[-1]} (pip install {wheel})")
    sys.exit()
checks = "\n".join(f'_Static_assert({left} == {right}, "{left} is not {right}");' for left, right in claims(cuda))
assert checks.count("_Static_assert") >= 10, checks
with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder, "layouts.c")
    source.write_text(f"#include <stddef.h>\n#include <cuda.h>\n#include <cuda_runtime_api.h>\n{checks}\n")
    subprocess.run(["cc", "-fsyntax-only", *(f"-I{folder}" for folder in include), str(source)], check=True)
