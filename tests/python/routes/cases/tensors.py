"""Requests of tensors and the rest of torch to the allocator."""

from .case import MIB, Cases, tensor

CASES = Cases()


@CASES.add("torch.Tensor.record_stream")
def record_stream(torch):
    side = torch.cuda.Stream()
    used = tensor(torch, 3 * MIB)
    answer = used.record_stream(side)
    used.record_stream(torch.cuda.current_stream())
    del used
    during = torch.cuda.memory_stats()
    torch.cuda.synchronize()
    other = tensor(torch, 3 * MIB)
    return answer, during, torch.cuda.memory_stats(), other


@CASES.add("torch.UntypedStorage._share_cuda_")
def share(torch):
    kept = tensor(torch, 100)
    return len(kept.untyped_storage()._share_cuda_()), kept


@CASES.add("torch.cuda.ipc_collect")
def ipc_collect(torch):
    torch.cuda.init()
    return torch.cuda.ipc_collect()


@CASES.add("torch._C._has_Standard_Deleter")
def standard_deleter(torch):
    kept = tensor(torch, 100)
    return torch._C._has_Standard_Deleter(kept.untyped_storage()._cdata)


@CASES.add("torch._C._free_And_Remove_DeleterFn")
def free_and_remove_deleter(torch):
    kept = tensor(torch, 100)
    torch._C._free_And_Remove_DeleterFn(kept.untyped_storage()._cdata)
    return torch.cuda.memory_stats(), torch._C._has_Standard_Deleter(kept.untyped_storage()._cdata), kept


@CASES.add("torch.empty of nothing")
def empty(torch):
    nothing = torch.empty(0, device="cuda")
    return nothing.data_ptr(), torch.cuda.memory_stats()


@CASES.add("torch.Tensor.cpu")
def pinned(torch):
    kept = tensor(torch, 1000).to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return torch.cuda.memory_stats(), kept
