"""The compared runs: each workload, the settings it runs under and the driver it runs on. Imports no torch."""

LAG = {"VRAMTAPE_SIM_EVENT_LAG": "3"}  # How many queries of a finished event still say "not ready".
SMALL = {"VRAMTAPE_SIM_MEMORY": "1GiB"}
TIGHT = {**LAG, "VRAMTAPE_SIM_MEMORY": "700MiB"}
EXPANDABLE = "expandable_segments:True"
MANY_SETTINGS = "max_split_size_mb:64,roundup_power2_divisions:[64:8,256:4,>:1]"

# The first PyTorch that knows the settings of a run.
SINCE = {"streams_reserve": (2, 15)}

# name: (function in workloads.py, PYTORCH_CUDA_ALLOC_CONF, environment of the simulated driver)
CASES = {
    "train_gpt": ("train_gpt", "", {}),
    "train_gpt_settings": ("train_gpt", MANY_SETTINGS, {}),
    "train_gpt_expandable": ("train_gpt", EXPANDABLE, {}),
    "streams": ("streams", "", LAG),
    "streams_expandable": ("streams", EXPANDABLE, LAG),
    "streams_reserve": ("streams", f"{EXPANDABLE},expandable_segments_reserve:0.03G", LAG),
    "graphs": ("graphs", "", {}),
    "graphs_expandable": ("graphs", EXPANDABLE, {}),
    "tight": ("tight", "", TIGHT),
    "tight_expandable": ("tight", EXPANDABLE, TIGHT),
    "limited": ("limited", "garbage_collection_threshold:0.6", SMALL),
    "out_of_memory": ("out_of_memory", "", SMALL),
    "out_of_memory_expandable": ("out_of_memory", EXPANDABLE, SMALL),
}
