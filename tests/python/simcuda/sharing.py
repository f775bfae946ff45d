"""Memory and events of another process, as the driver gives and refuses them. No torch: the driver's calls alone."""

import ctypes
import os
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

import common

SUCCESS, INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 0, 1, 201, 400
LAZY_PEER_ACCESS = 1
DISABLE_TIMING, INTERPROCESS = 2, 4
POSIX_FD = 1
PAGE = 2 * common.MIB


class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_ubyte * 64)]


class Properties(ctypes.Structure):
    _fields_ = [
        ("kind", c_uint),
        ("handle_types", c_uint),
        ("location", c_uint),
        ("device", c_int),
        ("metadata", c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


common.load()
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == SUCCESS
context = c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(byref(context), 0) == SUCCESS
assert cuda.cuCtxSetCurrent(context) == SUCCESS


def used():
    free, total = c_size_t(), c_size_t()
    assert cuda.cuMemGetInfo_v2(byref(free), byref(total)) == SUCCESS
    return total.value - free.value


def memory_handle(addr):
    handle = Handle()
    return cuda.cuIpcGetMemHandle(byref(handle), c_uint64(addr)), bytes(handle.bytes)


def open_memory(handle, flags=LAZY_PEER_ACCESS):
    addr = c_uint64()
    code = cuda.cuIpcOpenMemHandle_v2(byref(addr), Handle.from_buffer_copy(handle), flags)
    return code, addr.value


def open_event(handle):
    event = c_void_p()
    return cuda.cuIpcOpenEventHandle(byref(event), Handle.from_buffer_copy(handle)), event


def import_pages(descriptor):
    pages = c_uint64()
    code = cuda.cuMemImportFromShareableHandle(byref(pages), c_void_p(descriptor), POSIX_FD)
    return code, pages.value


def create_pages(handle_types):
    pages = c_uint64()
    properties = Properties(kind=1, handle_types=handle_types, location=1, device=0)
    assert cuda.cuMemCreate(byref(pages), c_size_t(3 * PAGE), byref(properties), c_uint64(0)) == SUCCESS
    return pages


def export_pages(pages):
    descriptor = c_int(-1)
    return cuda.cuMemExportToShareableHandle(byref(descriptor), pages, POSIX_FD, c_uint64(0)), descriptor.value


def other(words):
    """The other process: carries out one command per line and answers each."""
    for line in words:
        verb, *arguments = line.split()
        if verb == "memory":
            code, addr = open_memory(bytes.fromhex(arguments[0]))
            start, size = c_uint64(), c_size_t()
            if code == SUCCESS:
                assert cuda.cuMemGetAddressRange_v2(byref(start), byref(size), c_uint64(addr)) == SUCCESS
                assert cuda.cuMemsetD8Async(c_uint64(addr), 1, c_size_t(size.value), None) == SUCCESS
                assert cuda.cuMemFree_v2(c_uint64(addr)) == INVALID_VALUE, "it is not this process's to free"
                assert memory_handle(addr)[0] == INVALID_VALUE, "nor to share"
            print(code, addr, size.value, used(), flush=True)
        elif verb == "close":
            print(cuda.cuIpcCloseMemHandle(c_uint64(int(arguments[0]))), flush=True)
        elif verb == "event":
            code, event = open_event(bytes.fromhex(arguments[0]))
            done = cuda.cuEventQuery(event) if code == SUCCESS else None
            waited = cuda.cuStreamWaitEvent(None, event, 0) if code == SUCCESS else None
            print(code, done, waited, flush=True)
        elif verb == "pages":
            descriptor = os.pidfd_open(int(arguments[0]))
            ours = ctypes.CDLL(None).syscall(438, descriptor, int(arguments[1]), 0)  # pidfd_getfd
            code, pages = import_pages(ours)
            os.close(ours)
            addr = c_uint64()
            assert cuda.cuMemAddressReserve(byref(addr), c_size_t(3 * PAGE), c_size_t(0), c_uint64(0), c_uint64(0)) == 0
            mapped = cuda.cuMemMap(addr, c_size_t(3 * PAGE), c_size_t(0), c_uint64(pages), c_uint64(0))
            again = export_pages(c_uint64(pages))[0]
            print(code, mapped, again, used(), flush=True)


if sys.argv[1:] == ["other"]:
    other(sys.stdin)
    sys.exit()
if sys.argv[1:] == ["share"]:
    address = c_uint64()
    assert cuda.cuMemAlloc_v2(byref(address), c_size_t(1)) == SUCCESS
    print(memory_handle(address.value)[1].hex())
    sys.exit()

PIPE = subprocess.PIPE
process = subprocess.Popen([sys.executable, __file__, "other"], stdin=PIPE, stdout=PIPE, text=True)


def ask(*words):
    print(*words, file=process.stdin, flush=True)
    answer = process.stdout.readline()
    assert answer, "the other process has ended"
    return [None if word == "None" else int(word) for word in answer.split()]


descriptors = len(os.listdir("/proc/self/fd"))
addr = c_uint64()
assert cuda.cuMemAlloc_v2(byref(addr), c_size_t(3 * common.MIB)) == SUCCESS
assert len(os.listdir("/proc/self/fd")) == descriptors, "what is not shared has no file"
code, handle = memory_handle(addr.value)
assert code == SUCCESS and memory_handle(addr.value) == (SUCCESS, handle)
assert memory_handle(addr.value + PAGE)[0] == INVALID_VALUE
assert open_memory(handle) == (INVALID_CONTEXT, 0), "a process does not open its own"

# Opened twice it is the same memory, which is charged to its owner, and closed twice it is gone.
code, there, size, charged = ask("memory", handle.hex())
assert (code, size, charged) == (SUCCESS, 4 * common.MIB, 0)
assert ask("memory", handle.hex())[:2] == [SUCCESS, there]
assert [ask("close", there) for _ in range(3)] == [[SUCCESS], [SUCCESS], [INVALID_VALUE]]
assert used() == 4 * common.MIB

# Freed memory cannot be opened any more, nor can memory that was never shared; the next allocation is another one.
assert open_memory(handle, flags=0)[0] == INVALID_VALUE
assert cuda.cuMemFree_v2(addr) == SUCCESS
assert len(os.listdir("/proc/self/fd")) == descriptors
assert ask("memory", handle.hex())[0] == INVALID_VALUE
assert ask("memory", bytes(64).hex())[0] == INVALID_VALUE
assert cuda.cuMemAlloc_v2(byref(addr), c_size_t(3 * common.MIB)) == SUCCESS
code, second = memory_handle(addr.value)
assert code == SUCCESS and second != handle
assert ask("memory", handle.hex())[0] == INVALID_VALUE
assert ask("memory", second.hex())[0] == SUCCESS

event, timed, plain = c_void_p(), c_void_p(), c_void_p()
assert cuda.cuEventCreate(byref(timed), INTERPROCESS) == INVALID_VALUE
assert cuda.cuEventCreate(byref(event), INTERPROCESS | DISABLE_TIMING) == SUCCESS
assert cuda.cuEventCreate(byref(plain), DISABLE_TIMING) == SUCCESS
assert cuda.cuEventRecord(event, None) == SUCCESS
shared = Handle()
assert cuda.cuIpcGetEventHandle(byref(shared), plain) == INVALID_HANDLE
assert cuda.cuIpcGetEventHandle(byref(shared), event) == SUCCESS
assert ask("event", bytes(shared.bytes).hex()) == [SUCCESS, SUCCESS, SUCCESS]
assert ask("event", second.hex()) == [INVALID_HANDLE, None, None], "memory is no event"
assert cuda.cuEventDestroy_v2(event) == SUCCESS
assert ask("event", bytes(shared.bytes).hex()) == [INVALID_HANDLE, None, None]

# Physical memory goes as a file descriptor: here it is one more reference, in another process the other's.
pages, private = create_pages(POSIX_FD), create_pages(0)
assert export_pages(private)[0] == INVALID_VALUE
code, descriptor = export_pages(pages)
assert code == SUCCESS
assert import_pages(descriptor) == (SUCCESS, pages.value)
assert ask("pages", os.getpid(), descriptor) == [SUCCESS, SUCCESS, INVALID_VALUE, 0]
assert used() == 4 * common.MIB + 6 * PAGE
assert [cuda.cuMemRelease(pages) for _ in range(3)] == [SUCCESS, SUCCESS, INVALID_VALUE]
assert cuda.cuMemRelease(private) == SUCCESS and used() == 4 * common.MIB
os.close(descriptor)
assert import_pages(descriptor)[0] == INVALID_VALUE
with open(os.devnull) as stranger:
    assert import_pages(stranger.fileno())[0] == INVALID_VALUE

# A process that is gone shares nothing.
theirs = bytes.fromhex(
    subprocess.run([sys.executable, __file__, "share"], check=True, stdout=PIPE, text=True, timeout=60).stdout
)
assert open_memory(theirs) == (INVALID_VALUE, 0)
process.stdin.close()
assert process.wait(timeout=60) == 0
