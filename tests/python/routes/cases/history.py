"""torch.cuda.memory._record_memory_history and what entries carry besides.

Never with native frames: PyTorch takes minutes for them, and which there are is a matter of unwinding.
"""

from .case import MIB, Cases, tensor

CASES = Cases()


def passing(torch):
    """Allocations and frees from different lines; what is left is to be kept."""
    first = tensor(torch, 30 * MIB)
    second = tensor(torch, 100)
    del first
    torch.cuda.empty_cache()
    third = tensor(torch, 30 * MIB)
    return second, third


def recorded(torch, *arguments, **options):
    torch.cuda.memory._record_memory_history(*arguments, **options)
    kept = passing(torch)
    torch.cuda.memory._snapshot()
    return torch.cuda.memory._snapshot(), torch._C._cuda_isHistoryEnabled(), kept


SCRIPTS = {
    "()": {"stacks": "python"},
    "(context=None)": {"stacks": "python", "context": None},
    "(context='state')": {"stacks": "python", "context": "state"},
    "(context='alloc')": {"stacks": "python", "context": "alloc"},
    "(max_entries=3)": {"stacks": "python", "max_entries": 3},
    "(skip_actions=...)": {"stacks": "python", "skip_actions": ["free_requested", "segment_alloc"]},
    "(skip_actions of nothing)": {"stacks": "python", "skip_actions": ["nothing"]},
    "(stacks='some')": {"stacks": "some"},
    "(context='some')": {"context": "some"},
}
for label, options in SCRIPTS.items():
    needs = () if "skip" not in label else ("cuda.memory._record_memory_history_impl",)

    @CASES.add(f"torch.cuda.memory._record_memory_history{label}", *needs)
    def record(torch, options=options):
        return recorded(torch, **options)


@CASES.add("torch.cuda.memory._record_memory_history('state')")
def of_state(torch):
    return recorded(torch, "state", stacks="python")


@CASES.add("torch.cuda.memory._record_memory_history('some')")
def of_some(torch):
    return recorded(torch, "some")


@CASES.add("torch.cuda.memory._record_memory_history(None)")
def ended(torch):
    recorded(torch, stacks="python")
    torch.cuda.memory._record_memory_history(None)
    return torch.cuda.memory._snapshot(), torch._C._cuda_isHistoryEnabled()


@CASES.add("torch.cuda.memory._record_memory_history(clear_history=True)")
def cleared(torch):
    kept = recorded(torch, stacks="python")
    return recorded(torch, stacks="python", clear_history=True), kept


@CASES.add("torch.cuda.memory._record_memory_history(True)")
def legacy(torch):
    return recorded(torch, True, trace_alloc_max_entries=100, trace_alloc_record_context=True)


@CASES.add("torch.cuda.memory._record_memory_history(record_pinned_host_memory=True)", "_C._cuda_allocationTraceback")
def of_pinned_memory(torch):
    torch.cuda.memory._record_memory_history(stacks="python", record_pinned_host_memory=True)
    kept = torch.empty(1000, pin_memory=True)
    snapshot = torch.cuda.memory._snapshot()
    return len(snapshot["host_segments"]), len(snapshot["host_traces"]), kept


@CASES.add("torch.cuda.memory._record_memory_history(global_record_annotations=True)")
def annotated(torch):
    torch.cuda.memory._record_memory_history(stacks="python", global_record_annotations=True)
    with torch.profiler.record_function("a range"):
        kept = passing(torch)
    return len(torch.cuda.memory._snapshot()["external_annotations"]), kept


@CASES.add("torch._C._cuda_isHistoryEnabled")
def is_enabled(torch):
    torch.cuda.init()
    return torch._C._cuda_isHistoryEnabled()


@CASES.add("torch.cuda.memory._set_memory_metadata", "cuda.memory._set_memory_metadata")
def metadata(torch):
    torch.cuda.memory._record_memory_history(stacks="python")
    torch.cuda.memory._set_memory_metadata("layer 3")
    kept = passing(torch)
    answer = torch.cuda.memory._get_memory_metadata()
    torch.cuda.memory._set_memory_metadata("")
    return answer, torch.cuda.memory._get_memory_metadata(), torch.cuda.memory._snapshot(), kept


@CASES.add("torch.cuda.memory._memory_metadata_supported", "cuda.memory._memory_metadata_supported")
def metadata_supported(torch):
    torch.cuda.init()
    return torch.cuda.memory._memory_metadata_supported()


@CASES.add("torch.cuda.memory._annotate_tensor", "cuda.memory._annotate_tensor")
def annotate_tensor(torch):
    torch.cuda.memory._record_memory_history(stacks="python", context="state")
    kept = tensor(torch, 1000)
    answer = torch.cuda.memory._annotate_tensor(kept, "weights")
    return answer, torch.cuda.memory._snapshot()


@CASES.add("torch._C._cuda_annotateMemory(no allocation)", "_C._cuda_annotateMemory")
def annotate_nothing(torch):
    torch.cuda.memory._record_memory_history(stacks="python")
    return torch._C._cuda_annotateMemory(5, "weights")


@CASES.add("torch.cuda.memory._allocation_traceback", "cuda.memory._allocation_traceback")
def allocation_traceback(torch):
    before = tensor(torch, 100)
    torch.cuda.memory._record_memory_history(stacks="python")
    after = tensor(torch, 100)
    ask = torch.cuda.memory._allocation_traceback
    return ask(before.data_ptr()), ask(after.data_ptr()), ask(5)
