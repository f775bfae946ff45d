"""The C ABI inside a real PyTorch, set up with the two functions of PyTorch's documentation and nothing else."""

from harness import run_cases, run_served

LAG = {"VRAMTAPE_SIM_EVENT_LAG": "3"}  # How many queries of a finished event still say "not ready".
SMALL = {"VRAMTAPE_SIM_MEMORY": "1GiB"}


def case(script, *arguments, **settings):
    name = " ".join([script, *arguments])
    return (f"ffi.{name}", lambda: run_served(f"ffi/{script}.py", *arguments, **settings) and None)


run_cases(
    [
        case("out_of_memory", **SMALL),
        case("killed_after_oom", **SMALL),
        case("record_stream", **LAG),
        case("record_stream", "expandable", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True", **LAG),
        case("record_stream", "opened-early", **LAG),
        case("graphs", **LAG),
        case("first_in_capture"),
        case("indirect"),
        case("settings", "good", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:64"),
        case("settings", "bad-pytorch", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:3"),
        case("settings", "bad-vramtape", VRAMTAPE_CONF="recor:off"),
        case("fork"),
        case("threads", **LAG),
        case("alive_at_exit"),
    ]
)
