"""Writes tests/data/snapshots: one small run as every generation of PyTorch would have written it.

Which keys a generation has is read from the sources named at each; the run is made up, and the same for all of them:
two segments on one stream, an emptied cache, a mark, and what the generation can say besides.
"""

import json
import pathlib
import pickle
import struct

MIB = 1 << 20
SMALL, LARGE, POOL = 0x7F0000000000, 0x7F0010000000, 0x7F0020000000
STREAM = 0
FRAMES = [
    {"name": "forward", "filename": "model.py", "line": 7},
    {"name": "<module>", "filename": "train.py", "line": 31},
]


def event(action, addr, size, **more):
    return {"action": action, "addr": addr, "size": size, "stream": STREAM, **more}


def freed(addr, size):
    return [event("free_requested", addr, size), event("free_completed", addr, size)]


# The run. Live at most: 100 + 1000 + 4 MiB, in blocks of 512 + 1024 + 4 MiB.
RUN = [
    event("segment_alloc", SMALL, 2 * MIB),
    event("alloc", SMALL, 100),
    event("alloc", SMALL + 512, 1000),
    event("segment_alloc", LARGE, 20 * MIB),
    event("alloc", LARGE, 4 * MIB),
    event("snapshot", 0, 4 * MIB + 1536),
    *freed(LARGE, 4 * MIB),
    event("segment_free", LARGE, 20 * MIB),
    *freed(SMALL, 100),
    event("alloc", SMALL, 512),
]
# The final segments: (address, size, blocks of (size, requested, state)).
USED = "active_allocated"
SEGMENTS = [(SMALL, 2 * MIB, [(512, 512, USED), (1024, 1000, USED), (2 * MIB - 1536, 0, "inactive")])]
SETTINGS = {
    "PYTORCH_CUDA_ALLOC_CONF": "",
    "max_split_size": -1,
    "garbage_collection_threshold": 0.0,
    "expandable_segments": False,
    "pinned_num_register_threads": 1,
    "release_lock_on_cudamalloc": False,
    "pinned_use_cuda_host_register": False,
    "roundup_power2_divisions": {str(1 << power): 0 for power in range(16)},
}


def segments(block, device=0, stream=STREAM, found=SEGMENTS, **more):
    """The final segments; `block` makes a block's dict."""
    made = []
    for address, total, blocks in found:
        at, dicts = address, []
        for size, requested, state in blocks:
            dicts.append(block(at, size, requested, state))
            at += size
        live = sum(size for size, _, state in blocks if state != "inactive")
        sizes = {"total_size": total, "allocated_size": live, "active_size": live}
        kind = {"stream": stream, "segment_type": "small" if total == 2 * MIB else "large"}
        made.append({"device": device, "address": address, **sizes, **kind, "blocks": dicts, **more})
    return made


def old_block(cpp):
    """A block with a history of what it held, before 2.1 (`Module.cpp`, `THCPModule_memorySnapshot`, `History`)."""

    def block(at, size, requested, state):
        made = {"size": size, "state": state}
        if cpp:
            made["requested_size"] = requested
        if state != "inactive":
            entry = {"addr": at, "real_size": requested, "frames": FRAMES}
            made["history"] = [{**entry, "cpp_frames": ["at::empty"]} if cpp else entry]
        return made

    return block


def new_block(at, size, requested, state):
    return {"address": at, "size": size, "requested_size": requested, "state": state, "frames": FRAMES}


def trace(events, **more):
    """Events with the keys of a generation. An out-of-memory has what the device had free in place of an address."""
    made = []
    for number, one in enumerate(events):
        one = dict(one)
        if one["action"] == "oom":
            one["device_free"] = one.pop("addr")
        timed = {"time_us": 1_700_000_000_000_000 + number} if more.get("time_us") else {}
        more_keys = {key: value for key, value in more.items() if key != "time_us"}
        made.append({**one, **timed, "frames": list(FRAMES), **more_keys, **{k: one[k] for k in one if k in more_keys}})
    return made


class CppPickler:
    """Encodes as `torch::jit::Pickler` does for `_memory_snapshot_pickled` (torch/csrc/cuda/memory_snapshot.cpp and
    torch/csrc/jit/serialization/pickler.cpp): protocol 2, one APPENDS for a whole list, integers of eight bytes, and
    only strings memoised.
    """

    def __init__(self):
        self.out, self.texts = bytearray(b"\x80\x02"), {}

    def dumps(self, value):
        self.push(value)
        return bytes(self.out + b".")

    def push(self, value):
        if isinstance(value, dict):
            self.out += b"}("
            for key, item in value.items():
                self.push(key)
                self.push(item)
            self.out += b"u"
        elif isinstance(value, list):
            self.out += b"]("
            for item in value:
                self.push(item)
            self.out += b"e"
        elif isinstance(value, tuple):
            for item in value:
                self.push(item)
            self.out += {1: b"\x85", 2: b"\x86", 3: b"\x87"}[len(value)]
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, bool):
            self.out += b"\x88" if value else b"\x89"
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif 0 <= value < 256:
            self.out += b"K" + struct.pack("<B", value)
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def text(self, text):
        if text in self.texts:
            self.out += b"h" + struct.pack("<B", self.texts[text])
            return
        number = self.texts[text] = len(self.texts)
        data = text.encode()
        self.out += b"X" + struct.pack("<I", len(data)) + data + b"q" + struct.pack("<B", number)


POOLED = {"segment_pool_id": (0, 0), "is_expandable": False, "requested_size": 1512, "frames": FRAMES}
# A mark of 2.3 to 2.6: `recordAnnotation` put it into the trace (`TraceEntry::USER_DEFINED`).
MARKED = [event("user_defined", 0, 0), *RUN]
ANNOTATIONS = [
    {"stage": stage, "name": "Optimizer.step#SGD.step", "device": 0, "time_us": 1_700_000_000_000_000 + at}
    for stage, at in (("START", 2), ("END", 8))
]
# Since 2.12 events name their pool, so that of a segment that is gone is known too (`TraceEntry::mempool_`).
IN_POOL = [
    event("segment_alloc", POOL, 2 * MIB, pool_id=(0, 1)),
    event("alloc", POOL, 3000, pool_id=(0, 1)),
    *({**half, "pool_id": (0, 1)} for half in freed(POOL, 3000)),
    event("segment_free", POOL, 2 * MIB, pool_id=(0, 1)),
]
# 2.15: `_annotate_tensor`, and allocations of the allocator itself (`internal_metadata`).
ANNOTATED = [*RUN[:3], event("annotate", SMALL, 0, user_metadata="weights of layer 1"), *RUN[3:]]
ANNOTATED[1] = {**ANNOTATED[1], "internal_metadata": "mallocWithAddress"}
# Pages mapped and unmapped under expandable segments; one entry is of an unknown kind.
EXPANDABLE = [
    event("segment_map", SMALL, 2 * MIB),
    event("alloc", SMALL, 100),
    event("alloc", SMALL + 512, 1000),
    event("segment_map", LARGE, 20 * MIB),
    event("alloc", LARGE, 4 * MIB),
    *freed(LARGE, 4 * MIB),
    event("segment_unmap", LARGE, 20 * MIB),
    *freed(SMALL, 100),
    event("alloc", SMALL, 512),
    event("teleport", SMALL, 512),
]
ELSEWHERE = [event("oom", 1 << 30, 80 << 30), event("segment_alloc", SMALL, 2 * MIB), event("alloc", SMALL, 512)]
ELSEWHERE_END = [(SMALL, 2 * MIB, [(512, 512, "active_allocated"), (2 * MIB - 512, 0, "inactive")])]


def whole(found, *traces, **more):
    return {"segments": found, "device_traces": list(traces), **more}


def modern(events, **more):
    keys = {"time_us": True, "compile_context": "N/A", "user_metadata": ""}
    return whole(segments(new_block, **POOLED), trace(events, **keys), allocator_settings=SETTINGS, **more)


def two_devices():
    made = modern(RUN, external_annotations=ANNOTATIONS)
    made["segments"] += segments(new_block, device=1, found=ELSEWHERE_END, **POOLED)
    made["device_traces"].append(trace(ELSEWHERE, time_us=True))
    return made


def newest(events):
    events = [{"pool_id": (0, 0), **one} for one in events]
    return modern(events, external_annotations=[])


def expandable():
    made = modern(EXPANDABLE)
    made["segments"] = segments(new_block, **{**POOLED, "is_expandable": True})
    made["allocator_settings"] = {**SETTINGS, "expandable_segments": True}
    return made


GENERATIONS = {
    # torch.cuda.memory_snapshot() alone, which has no events in any version.
    "1.13-segments.pickle": (segments(old_block(False)), 3),
    "2.0-history.pickle": (whole(segments(old_block(True), requested_size=1512), trace(RUN)), 3),
    "2.1-frames.pickle": (whole(segments(new_block, **POOLED), trace(RUN)), 4),
    "2.2-cpp.pickle": (whole(segments(new_block, **POOLED), trace(RUN, time_us=True), allocator_settings=SETTINGS), 0),
    "2.4-user_defined.pickle": (modern(MARKED), 2),
    "2.7-two-devices.pickle": (two_devices(), 4),
    "2.8-overflow.pickle": (modern(RUN[6:]), 4),
    "2.9-expandable.pickle": (expandable(), 1),
    "2.15-pools.pickle": (newest([*IN_POOL, *ANNOTATED]), 5),
}

folder = pathlib.Path(__file__).parents[2] / "data" / "snapshots"
for name, (made, protocol) in GENERATIONS.items():
    data = CppPickler().dumps(made) if "cpp" in name else pickle.dumps(made, protocol=protocol)
    (folder / name).write_bytes(data)
(folder / "2.7-two-devices.json").write_text(json.dumps(two_devices()))
