"""Settings at run time."""

from .case import MIB, Cases, tensor, work

CASES = Cases()
SET = "_C._accelerator_setAllocatorSettings"

for text in (
    "max_split_size_mb:100",
    "expandable_segments:True",
    "garbage_collection_threshold:0.5,roundup_power2_divisions:4",
    "roundup_power2_divisions:[64:8,>:2]",
    "backend:native",
    "pinned_num_register_threads:8,pinned_use_cuda_host_register:True",
    "nothing:1",
    "max_split_size_mb:3",
    "expandable_segments:maybe",
    "backend:cudaMallocAsync",
    "",
):

    @CASES.add(f"torch._C._accelerator_setAllocatorSettings({text!r})", SET)
    def set_settings(torch, text=text):
        torch.cuda.init()
        answer = torch._C._accelerator_setAllocatorSettings(text)
        kept = work(torch)
        return answer, torch.cuda.memory._snapshot(), torch.cuda.memory_stats(), kept


@CASES.add("torch._C._accelerator_setAllocatorSettings(5)", SET)
def no_text(torch):
    return torch._C._accelerator_setAllocatorSettings(5)


@CASES.add("torch.cuda.memory._set_allocator_settings", "cuda.memory._set_allocator_settings")
def deprecated(torch):
    torch.cuda.init()
    answer = torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    kept = tensor(torch, 30 * MIB)
    return answer, torch.cuda.memory._snapshot()["allocator_settings"], torch.cuda.memory_snapshot(), kept


@CASES.add("torch._C._accelerator_getAllocatorSettings", "_C._accelerator_getAllocatorSettings")
def get_settings(torch):
    torch.cuda.init()
    torch._C._accelerator_setAllocatorSettings("max_split_size_mb:100")
    return torch._C._accelerator_getAllocatorSettings()
