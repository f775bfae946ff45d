"""What things cost: an allocation and its free in Python, and each call of the driver that an allocator makes."""

import ctypes
import statistics
import time

import torch

MIB = 1 << 20


def run_empty(simulated):
    """Nanoseconds of `torch.empty` and the free of what it made, median of 11 rounds."""
    pairs = 200 if simulated else 20_000
    results = {}
    for name, n_bytes in (("512 B", 512), ("4 MiB", 4 * MIB)):
        rounds = []
        for _ in range(11):
            began = time.perf_counter_ns()
            for _ in range(pairs):
                torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
            rounds.append((time.perf_counter_ns() - began) / pairs)
        results[name] = round(statistics.median(rounds), 1)
    return {"pair_ns": results}


class Property(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of one device."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", ctypes.c_int),
        ("device", ctypes.c_int),
        ("windows", ctypes.c_void_p),
        ("flags", ctypes.c_uint8 * 8),
    ]


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", ctypes.c_int), ("device", ctypes.c_int), ("flags", ctypes.c_int)]


def run_driver(simulated):
    """Microseconds of each call, median of several, by size where the size matters."""
    driver = ctypes.CDLL("libcuda.so.1")
    torch.empty(1, device="cuda")
    times = {}

    def call(label, name, *arguments):
        function = getattr(driver, name)
        began = time.perf_counter_ns()
        code = function(*arguments)
        times.setdefault(label, []).append((time.perf_counter_ns() - began) / 1000)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    u64 = ctypes.c_uint64
    sizes = [2 * MIB, 20 * MIB] + ([] if simulated else [256 * MIB, 1024 * MIB])
    for _ in range(3 if simulated else 15):
        for size in sizes:
            at = f"{size // MIB} MiB"
            address, handle = u64(), u64()
            call(f"cuMemAlloc {at}", "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            call(f"cuMemFree {at}", "cuMemFree_v2", address)
            room, zero = ctypes.c_size_t(size), u64(0)
            call(f"cuMemAddressReserve {at}", "cuMemAddressReserve", ctypes.byref(address), room, zero, zero, zero)
            made = Property(kind=1, location=1, device=0)
            call(f"cuMemCreate {at}", "cuMemCreate", ctypes.byref(handle), room, ctypes.byref(made), zero)
            call(f"cuMemMap {at}", "cuMemMap", address, room, zero, handle, zero)
            access = Access(location=1, device=0, flags=3)
            call(f"cuMemSetAccess {at}", "cuMemSetAccess", address, room, ctypes.byref(access), ctypes.c_size_t(1))
            call(f"cuMemUnmap {at}", "cuMemUnmap", address, room)
            call(f"cuMemRelease {at}", "cuMemRelease", handle)
            call(f"cuMemAddressFree {at}", "cuMemAddressFree", address, room)
        event = ctypes.c_void_p()
        call("cuEventCreate", "cuEventCreate", ctypes.byref(event), ctypes.c_uint(2))
        call("cuEventRecord", "cuEventRecord", event, ctypes.c_void_p(0))
        call("cuEventSynchronize", "cuEventSynchronize", event)
        call("cuEventQuery", "cuEventQuery", event)
        call("cuEventDestroy", "cuEventDestroy_v2", event)
        call("cuStreamSynchronize", "cuStreamSynchronize", ctypes.c_void_p(0))
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        call("cuMemGetInfo", "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return {"microseconds": {label: round(statistics.median(all_), 2) for label, all_ in times.items()}}
