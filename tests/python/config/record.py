"""Records how a real PyTorch parses every settings string in cases.py.

Run by that PyTorch's own interpreter; no GPU is needed:

    python record.py            write golden-<version>.jsonl beside this file
    python record.py --check    compare with it instead; exit status 1 where they differ

`cargo test -p allocator` compares the allocator's parser with the same golden files.
"""

import ctypes
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from cases import CASES, ENVIRONMENT


def numbers_of_c10():
    """The settings that Python cannot see, from their places in c10 (equal in 2.11 and 2.15)."""
    lib = Path(torch.__file__).parent / "lib"
    common = ctypes.CDLL(str(lib / "libc10.so"))
    instance = common._ZN3c1016CachingAllocator26AcceleratorAllocatorConfig8instanceEv
    instance.restype = ctypes.c_void_p
    large, _, rounding = (ctypes.c_uint64 * 3).from_address(instance())
    cuda = ctypes.CDLL(str(lib / "libc10_cuda.so"))
    config = ctypes.c_void_p.in_dll(
        cuda, "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig8instanceEvE10s_instance"
    )
    fraction = ctypes.c_double.from_address(config.value + 24).value if config.value else 1.0
    return {
        "large_segment_size": large,
        "max_non_split_rounding_size": rounding,
        "per_process_memory_fraction": fraction,
    }


def values():
    settings = torch._C._cuda_memorySnapshot(None)["allocator_settings"]
    kept = [
        "max_split_size",
        "garbage_collection_threshold",
        "expandable_segments",
        "release_lock_on_cudamalloc",
        "graph_capture_record_stream_reuse",
    ]
    return {
        **{key: settings[key] for key in kept},
        "roundup_power2_divisions": list(settings["roundup_power2_divisions"].values()),
        **numbers_of_c10(),
    }


def refusal(error):
    # An internal assertion names PyTorch's own file and line first.
    message = str(error).split("please report a bug to PyTorch. ")[-1]
    return {"type": type(error).__name__, "message": message}


def apply(texts):
    for index, text in enumerate(texts):
        try:
            torch._C._accelerator_setAllocatorSettings(text)
        except Exception as error:
            return {"refused_at": index, **refusal(error)}
    return {"values": values()}


def read_environment():
    """The settings that a process parses from its environment, as its last line of output."""
    try:
        print(json.dumps({"values": values()}))
    except Exception as error:
        print(json.dumps(refusal(error)))


def in_a_new_environment(text):
    command = [sys.executable, __file__, "--environment"]
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": text}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode != 0:
        return {"died": run.returncode}
    return json.loads(run.stdout.splitlines()[-1])


def in_a_fresh_process(texts):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.write(write, json.dumps(apply(texts)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        return {"died": status}
    return json.loads(answer)


def main():
    if sys.argv[1:] == ["--environment"]:
        read_environment()
        return
    for name in ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"]:
        if name in os.environ:
            sys.exit(f"unset {name} first: the golden file starts from PyTorch's defaults")
    version = ".".join(torch.__version__.split(".")[:2])
    path = Path(__file__).with_name(f"golden-{version}.jsonl")
    lines = [json.dumps({"settings": list(texts), **in_a_fresh_process(texts)}) for texts in CASES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for text, answer in zip(ENVIRONMENT, pool.map(in_a_new_environment, ENVIRONMENT)):
            lines.append(json.dumps({"environment": text, **answer}))
    if "--check" not in sys.argv[1:]:
        path.write_text("".join(line + "\n" for line in lines))
        print(f"{path}: {len(lines)} cases of torch {torch.__version__}")
        return
    recorded = path.read_text().splitlines()
    differing = [(old, new) for old, new in zip(recorded, lines) if old != new]
    for old, new in differing:
        print(f"recorded {old}\nnow      {new}")
    if differing or len(recorded) != len(lines):
        sys.exit(
            f"{path}: {len(differing)} of {len(lines)} cases differ, {len(recorded)} are recorded; "
            "run record.py without --check and review the change"
        )
    print(f"{path}: all {len(lines)} cases as recorded")


if __name__ == "__main__":
    main()
