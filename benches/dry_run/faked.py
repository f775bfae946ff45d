"""Runs a program under FakeGPU's FakeCUDA, which executes on the CPU. PYTHONPATH names its checkout."""

import os
import runpy
import sys

import fakegpu

fakegpu.init(runtime="fakecuda", device_count=1, force=True)
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
print("FIGURE changed_lines 0")
runpy.run_path(sys.argv[0], run_name="__main__")
