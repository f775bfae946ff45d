"""Asks auditwheel, which knows what old Linuxes have, whether a wheel is fit for the oldest that its name promises.

audit.py WHEEL      prints the name's tag, or ends with what is wrong
"""

import json
import subprocess
import sys
from pathlib import Path

# Libraries that bridges use of the torch that they are loaded into.
OF_TORCH = {"libc10.so", "libc10_cuda.so", "libtorch_cpu.so", "libtorch_cuda.so"}

wheel = Path(sys.argv[1])
promised = wheel.stem.rsplit("-", 1)[-1]
show = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
report = json.loads(subprocess.run(show, check=True, stdout=subprocess.PIPE).stdout)
wrong = report["policy_upgrades"].get(promised, {})
libraries = set(wrong.get("libs_to_eliminate", ())) - OF_TORCH
symbols = wrong.get("blacklisted_symbols")
if report["sym_tag"] != promised or libraries or symbols or report["unsupported_isa"]:
    sys.exit(f"{wheel.name}: auditwheel says {report['sym_tag']}; in the way are {libraries}, {symbols}")
print(promised)
