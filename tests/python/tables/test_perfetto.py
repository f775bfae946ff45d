"""A trace for Perfetto, decoded by Perfetto's own Python package, has the numbers that the command prints."""

import json
import os
import pathlib
import subprocess

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackEvent

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMMAND = os.environ["VRAMTAPE_COMMAND"]
DATA = ROOT / "tests/data"
RUNS = {
    "gpt2": DATA / "traces/gpt2_train-default.pickle.zst",  # ranges
    "oom": DATA / "traces/resnet50_batchsweep-oom.pickle.zst",
    "devices": DATA / "snapshots/2.7-two-devices.pickle",
    "tape": DATA / "tapes/one-shot-side-stream.vtape",
}
PEAKS = {"allocated": "peak_allocated_bytes", "reserved": "peak_reserved_bytes"}


def vramtape(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments)], text=True, capture_output=True)
    assert done.returncode == 0, f"vramtape {arguments}: {done.stderr}"
    return json.loads(done.stdout)


def check(name, run):
    file = pathlib.Path(f"{name}.pftrace")
    assert vramtape("export", run, "-o", file, "--json")["size_bytes"] == file.stat().st_size
    packets = Trace.FromString(file.read_bytes()).packet
    tracks = {it.track_descriptor.uuid: it.track_descriptor for it in packets if it.HasField("track_descriptor")}
    processes = {uuid: it.process.process_name for uuid, it in tracks.items() if it.HasField("process")}
    devices = vramtape("info", run, "--json")["devices"]
    assert len(processes) == len(devices), processes
    values, open_slices, instants, last = {}, {}, [], {}
    for packet in packets:
        if not packet.HasField("track_event"):
            continue
        event, sequence = packet.track_event, packet.trusted_packet_sequence_id
        assert packet.timestamp >= last.get(sequence, 0), "time does not go back"
        last[sequence] = packet.timestamp
        track = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            assert track.counter.unit == CounterDescriptor.UNIT_SIZE_BYTES
            values.setdefault((track.parent_uuid, track.name), []).append(event.counter_value)
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.name
            open_slices[event.track_uuid] = open_slices.get(event.track_uuid, 0) + 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            open_slices[event.track_uuid] -= 1
            assert open_slices[event.track_uuid] >= 0, "a slice ends that has not begun"
        else:
            instants.append(event.name)
    assert not any(open_slices.values()), "every slice ends"
    for process, title in processes.items():
        [device] = [it for it in devices if title.endswith(f", device {it['id']}")]
        for counter, key in PEAKS.items():
            series = values[process, counter]
            assert max(series) == device[key], (counter, max(series), device[key])
            assert all(one != other for one, other in zip(series, series[1:])), "a sample for each change"
    ooms = sum(device["events"].get("oom", 0) for device in devices)
    assert sum(it.startswith("out of memory") for it in instants) == ooms and (name != "oom" or ooms > 0)
    assert name != "gpt2" or open_slices, "ranges"


for name, run in RUNS.items():
    check(name, run)
    print(f"PASS perfetto: {name}")
