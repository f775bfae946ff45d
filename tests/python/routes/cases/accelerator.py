"""torch.accelerator's memory, which asks the allocator that c10 knows."""

from .case import Cases, work

CASES = Cases()

for name in ("memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):

    @CASES.add(f"torch.accelerator.{name}", f"accelerator.{name}")
    def read(torch, name=name):
        before = getattr(torch.accelerator, name)()
        kept = work(torch)
        return before, getattr(torch.accelerator, name)(), kept


for name in ("reset_peak_memory_stats", "reset_accumulated_memory_stats", "empty_cache"):

    @CASES.add(f"torch.accelerator.{name}", f"accelerator.{name}")
    def change(torch, name=name):
        kept = work(torch)
        kept.pop()
        answer = getattr(torch.accelerator, name)()
        return answer, torch.accelerator.memory_stats(), kept


@CASES.add("torch.accelerator.get_memory_info", "accelerator.get_memory_info")
def get_memory_info(torch):
    work(torch)
    free, total = torch.accelerator.get_memory_info()
    return free < total, total
