"""The structures that simcuda fills have the layout of the CUDA headers installed beside torch."""

import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

SOURCES = pathlib.Path(__file__).parents[3] / "simcuda/src"
STRUCTURES = {
    "DeviceProperties": "struct cudaDeviceProp",
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
}


def claims():
    """C expressions with the value that an assertion in the sources gives them."""
    for source in sorted(SOURCES.glob("**/*.rs")):
        text = source.read_text()
        launch = "CUlaunchConfig" if source.parent.name == "driver" else "cudaLaunchConfig_t"
        name = lambda rust: launch if rust == "LaunchConfig" else STRUCTURES.get(rust)
        for rust, value in re.findall(r"assert!\(size_of::<(\w+)>\(\) == (\d+)\)", text):
            if name(rust):
                yield f"sizeof({name(rust)})", int(value)
        for rust, field, value in re.findall(r"offset_of!\((\w+), (\w+)\) == (\d+)\)", text):
            field = "hStream" if launch == "CUlaunchConfig" else FIELDS[field]
            yield f"offsetof({name(rust)}, {field})", int(value)


include = pathlib.Path(sysconfig.get_path("purelib")) / "nvidia/cu13/include"
if not (include / "crt/host_defines.h").exists():
    print(f"skipped: no CUDA headers in {include} (pip install nvidia-cuda-crt)")
    sys.exit()
checks = "\n".join(f'_Static_assert({left} == {right}, "{left} is not {right}");' for left, right in claims())
assert checks.count("_Static_assert") >= 10, checks
with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder, "layouts.c")
    source.write_text(f"#include <stddef.h>\n#include <cuda.h>\n#include <cuda_runtime_api.h>\n{checks}\n")
    subprocess.run(["cc", "-fsyntax-only", f"-I{include}", str(source)], check=True)
