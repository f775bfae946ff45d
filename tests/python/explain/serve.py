"""Runs programs of `programs.py`, each in a fork of this process: torch is imported once.

A line of standard input is a job: {"program", "route", "output", "settings", "sim", "conf", "changes"}. The line that
answers it is {"served": true} or {"served": false}; the recorded run is in `output`. A failure is {"error": text}.
"""

import json
import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), HERE]

import harness

sys.path.insert(0, harness.PACKAGE["PYTHONPATH"])
harness.load_simcuda()
os.environ.setdefault("VRAMTAPE_LIBRARY", harness.LIBRARY)

import programs
import torch

SERVED, OUT_OF_MEMORY = 0, 7


def enter(job):
    """Enters the job's route with its settings; `native` is PyTorch alone, with its own history."""
    os.environ.update(job["sim"])
    if job["settings"]:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = job["settings"]
        torch._C._accelerator_setAllocatorSettings(job["settings"])  # It read the variable when it was imported.
    if job["route"] == "native":
        torch.cuda.memory._record_memory_history("all", stacks="python")
    else:
        import vramtape

        assert vramtape.install(job["route"], tape=job["output"], conf=job["conf"]) == job["route"]


def run(job):
    enter(job)
    program = getattr(programs, job["program"])
    try:
        program(programs.Run(**job["changes"]))
    except torch.OutOfMemoryError:
        if job["route"] == "native":
            torch.cuda.memory._dump_snapshot(job["output"])
        return OUT_OF_MEMORY
    return SERVED


def main():
    for line in sys.stdin:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            try:
                code = run(json.loads(line))
            except BaseException:
                os.write(writer, traceback.format_exc()[-4000:].encode())
                code = 1
            sys.exit(code)
        os.close(writer)
        with open(reader) as file:
            text = file.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        answer = (
            {"served": code == SERVED} if code in (SERVED, OUT_OF_MEMORY) else {"error": f"exit code {code}: {text}"}
        )
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
