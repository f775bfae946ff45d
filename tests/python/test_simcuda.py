"""simcuda under real PyTorch: every program of simcuda/, each in a process of its own because torch is set up once."""

import sys

from harness import run_cases, run_served

EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
LAG = {"VRAMTAPE_SIM_EVENT_LAG": "5"}
SMALL = {"VRAMTAPE_SIM_MEMORY": "256MiB"}
TWO = {"VRAMTAPE_SIM_DEVICES": "2", "VRAMTAPE_SIM_MEMORY": "1GiB"}
# Name -> program and settings.
CASES = {
    "driver": ("driver", {}),
    "layouts": ("layouts", {}),
    "entry_points": ("entry_points", {}),
    "training": ("training", {}),
    "training_expandable": ("training", EXPANDABLE),
    "operations": ("operations", {}),
    "streams": ("streams", LAG),
    "streams_expandable": ("streams", LAG | EXPANDABLE),
    "graphs": ("graphs", {}),
    "graphs_expandable": ("graphs", EXPANDABLE),
    "presets": ("presets", {}),
    "compiled": ("compiled", {"VRAMTAPE_SIM_GPU": "h100"}),
    "compiled_generic": ("compiled", {}),
    "memory": ("memory", SMALL),
    "memory_expandable": ("memory", SMALL | EXPANDABLE),
    "devices": ("devices", TWO),
    "devices_expandable": ("devices", TWO | EXPANDABLE),
    "sharing": ("sharing", {}),
    "visible": ("visible", {"VRAMTAPE_SIM_DEVICES": "3"}),
    "libraries": ("libraries", {}),
    "libraries_sm90": ("libraries", {"VRAMTAPE_SIM_GPU": "h100"}),
    "cudnn": ("cudnn", {}),
    "cudnn_sm86": ("cudnn", {"VRAMTAPE_SIM_GPU": "a40"}),
    "cudnn_sm120": ("cudnn", {"VRAMTAPE_SIM_GPU": "rtx5090"}),
    "attention_sm90": ("attention", {"VRAMTAPE_SIM_GPU": "h100"}),
    "attention_sm100": ("attention", {"VRAMTAPE_SIM_GPU": "b200"}),
    "refusals": ("refusals", {}),
}


def run(name):
    program, settings = CASES[name]
    output = run_served(f"simcuda/{program}.py", **settings)
    assert "Could not load symbol" not in output, output  # cuDNN, of a driver function that does not exist.
    return output.strip() if output.startswith("skipped") else ""


run_cases([(f"simcuda.{name}", lambda name=name: run(name)) for name in sys.argv[1:] or CASES])
