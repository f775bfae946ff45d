"""Live parity: every workload once under PyTorch's own allocator and once under vramtape, placement for placement.

`vramtape verify --against` then walks the snapshot's events and the tape's in step: segment events, allocations by
offset in their segment, and both halves of every free.
"""

import json
import os
import subprocess
import sys
from importlib import metadata

from harness import COMMAND, run_cases, run_served
from parity.cases import CASES, SINCE


def parity(name):
    function, config, sim = CASES[name]
    snapshot, tape = os.path.abspath(f"{name}.pickle"), os.path.abspath(f"{name}.vtape")
    settings = {**sim, **({"PYTORCH_CUDA_ALLOC_CONF": config} if config else {})}
    run_served("parity/record.py", function, "native", snapshot, **settings)
    conf = f'record:file,tape_replace:True,tape:"{tape}"'
    run_served("parity/record.py", function, "vramtape", **settings, VRAMTAPE_CONF=conf)
    line = [COMMAND, "verify", tape, "--against", snapshot, "--json"]
    compared = subprocess.run(line, text=True, capture_output=True)
    if compared.returncode != 0:
        raise AssertionError(f"vramtape verify: {compared.stdout}{compared.stderr}")
    report = json.loads(compared.stdout)
    # A workload that allocated nothing, or never freed, would agree with anything.
    assert report["allocations"] > 20 and report["frees"] > 10 and report["segment_events"] > 2, report
    return f"({report['allocations']} allocations, {report['segment_events']} segment events)"


torch = tuple(int(part) for part in metadata.version("torch").split(".")[:2])
names = [name for name in sys.argv[1:] or CASES if torch >= SINCE.get(name, (0, 0))]
run_cases([(f"parity.{name}", lambda name=name: parity(name)) for name in names])
