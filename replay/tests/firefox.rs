//! A profile for the Firefox Profiler has the bytes of the run, by stack and over time, and the form of its format.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use replay::export::write_firefox;
use replay::import::RunLimits;
use replay::tape::{Device, Tape};
use serde_json::Value;
use trace_format::{
    Addr, BlockStatus, DeviceId, Event, MarkKind, Meta, PoolId, Record, StackId, State, Stream,
    ThreadId, Writer,
};

/// Bytes by stack, outermost frame first.
type BytesByStack = BTreeMap<Vec<String>, i64>;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

fn read(path: &Path) -> Tape {
    Tape::open(path, &RunLimits::default()).unwrap()
}

fn exported(tape: &Tape, file: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(file);
    let devices: Vec<&Device> = tape.devices.iter().collect();
    write_firefox(&file, "run", &tape.stacks, &devices).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut content = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut content).unwrap();
        bytes = content;
    }
    serde_json::from_slice(&bytes).unwrap()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("{key}: {value}"))
}

fn index(value: &Value) -> Option<usize> {
    value.as_u64().map(|place| place as usize)
}

/// The frames of a stack of a thread, outermost first.
fn frames(thread: &Value, stack: &Value) -> Vec<String> {
    let (mut names, mut stack) = (Vec::new(), index(stack));
    while let Some(place) = stack {
        let frame = index(&thread["stackTable"]["frame"][place]).unwrap();
        let func = index(&thread["frameTable"]["func"][frame]).unwrap();
        let name = index(&thread["funcTable"]["name"][func]).unwrap();
        names.push(thread["stringArray"][name].as_str().unwrap().to_owned());
        stack = index(&thread["stackTable"]["prefix"][place]);
    }
    names.reverse();
    names
}

/// The same of a stack of the tape.
fn frames_of(tape: &Tape, stack: StackId) -> Vec<String> {
    let text = |id| tape.stacks.text(id);
    let frames =
        tape.stacks.frames_of(stack).map(|frame| match (text(frame.filename), frame.line) {
            ("", _) => text(frame.name).to_owned(),
            (file, 0) => format!("{} ({file})", text(frame.name)),
            (file, line) => format!("{} ({file}:{line})", text(frame.name)),
        });
    let mut frames: Vec<String> = frames.collect();
    if frames.is_empty() {
        frames.push("no stack recorded".to_owned());
    }
    frames.reverse();
    frames
}

/// The blocks at the end of a device's records, by stack.
fn live_at_end(tape: &Tape, device: &Device) -> BytesByStack {
    let mut blocks = BTreeMap::new();
    for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
        if block.status == BlockStatus::Allocated {
            blocks.insert(block.addr, (block.stack, block.size_bytes));
        }
    }
    for record in &device.records {
        match record.event {
            Event::Alloc { addr, size_bytes, .. } => {
                blocks.insert(addr, (record.stack, size_bytes));
            }
            Event::Free { addr, .. } => drop(blocks.remove(&addr)),
            _ => {}
        }
    }
    let mut bytes = BytesByStack::new();
    for (stack, size_bytes) in blocks.into_values() {
        *bytes.entry(frames_of(tape, stack)).or_default() += size_bytes.cast_signed();
    }
    bytes
}

/// The most allocated and reserved bytes of a device.
fn peaks(device: &Device) -> [i64; 2] {
    let mut state = State::from_base(&device.base).unwrap();
    let bytes =
        |state: &State| [state.allocated_bytes(), state.reserved_bytes()].map(u64::cast_signed);
    let mut most = bytes(&state);
    for record in &device.records {
        state.apply(record).unwrap();
        for (most, bytes) in most.iter_mut().zip(bytes(&state)) {
            *most = bytes.max(*most);
        }
    }
    most
}

/// Every column of a table has its length, and every index in it is a row of the table that it names.
fn is_well_formed(thread: &Value) {
    let length = |table: &str| {
        if table == "stringArray" {
            list(thread, table).len()
        } else {
            index(&thread[table]["length"]).unwrap()
        }
    };
    for name in ["stackTable", "frameTable", "funcTable", "samples", "nativeAllocations", "markers"]
    {
        let Some(table) = thread[name].as_object() else { continue };
        for (column, values) in table.iter().filter(|(_, values)| values.is_array()) {
            assert_eq!(values.as_array().unwrap().len(), length(name), "{name}.{column}");
        }
    }
    for (table, column, of) in [
        ("stackTable", "frame", "frameTable"),
        ("stackTable", "prefix", "stackTable"),
        ("frameTable", "func", "funcTable"),
        ("funcTable", "name", "stringArray"),
        ("nativeAllocations", "stack", "stackTable"),
        ("markers", "name", "stringArray"),
    ] {
        let rows = thread[table][column].as_array().into_iter().flatten().filter_map(index);
        let bad: Vec<usize> = rows.filter(|row| *row >= length(of)).collect();
        assert!(bad.is_empty(), "{table}.{column} is not in {of}: {bad:?}");
    }
}

fn check(name: &str, tape: &Tape) {
    let profile = exported(tape, "run.firefox.json");
    assert_eq!(profile, exported(tape, "run.firefox.json.gz"), "{name}");
    assert_eq!(profile["meta"]["preprocessedProfileVersion"], 55);
    let (threads, counters) = (list(&profile, "threads"), list(&profile, "counters"));
    assert_eq!(threads.len(), tape.devices.len(), "{name}");
    assert_eq!(counters.len(), 2 * tape.devices.len(), "{name}");
    for device in &tape.devices {
        let title = format!("run, device {}", device.id);
        let place = threads.iter().position(|thread| thread["name"] == title).expect(&title);
        let thread = &threads[place];
        is_well_formed(thread);
        let samples = &thread["nativeAllocations"];
        let mut bytes = BytesByStack::new();
        let mut last_ms = 0.0;
        for at in 0..index(&samples["length"]).unwrap_or(0) {
            let weight = samples["weight"][at].as_i64().unwrap();
            *bytes.entry(frames(thread, &samples["stack"][at])).or_default() += weight;
            let time_ms = samples["time"][at].as_f64().unwrap();
            assert!(time_ms >= last_ms, "{name}: sample {at}");
            last_ms = time_ms;
        }
        bytes.retain(|_, bytes| *bytes != 0);
        assert_eq!(bytes, live_at_end(tape, device), "{name}, {title}");
        for (counter, peak) in ["allocated", "reserved"].into_iter().zip(peaks(device)) {
            let is_it = |it: &&Value| it["name"] == counter && it["pid"] == thread["pid"];
            let it = counters.iter().find(is_it).expect(counter);
            assert_eq!(
                (&it["category"], index(&it["mainThreadIndex"])),
                (&"Memory".into(), Some(place))
            );
            let (mut now, mut most) = (0.0, 0.0_f64);
            for delta in list(&it["samples"], "count") {
                now += delta.as_f64().unwrap();
                most = most.max(now);
            }
            assert_eq!(most as i64, peak, "{name}, {title}: {counter}");
            let deltas_ms =
                list(&it["samples"], "timeDeltas").iter().map(|it| it.as_f64().unwrap());
            assert!(deltas_ms.clone().all(|delta_ms| delta_ms >= 0.0), "{name}: {counter}");
            assert_eq!(deltas_ms.len(), list(&it["samples"], "count").len());
        }
        let events = |is_it: fn(&Event) -> bool| {
            device.records.iter().filter(|record| is_it(&record.event)).count()
        };
        let ooms = markers(thread).filter(|(_, data)| data["type"] == "vramtape-oom").count();
        assert_eq!(ooms, events(|event| matches!(event, Event::Oom { .. })), "{name}");
    }
}

/// Names and fields of the markers of a thread.
fn markers(thread: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let markers = &thread["markers"];
    let names = list(markers, "name").iter();
    let names = names.map(|name| thread["stringArray"][index(name).unwrap()].as_str().unwrap());
    names.zip(list(markers, "data"))
}

#[test]
fn allocation_samples_add_up_to_the_live_bytes_and_counters_reach_the_peaks() {
    for run in [
        "traces/gpt2_train-default.pickle.zst",
        "traces/resnet50_batchsweep-oom.pickle.zst",
        "snapshots/2.7-two-devices.pickle",
        "tapes/one-shot-side-stream.vtape",
    ] {
        check(run, &read(&data(run)));
    }
}

#[test]
fn marks_are_markers_with_their_fields() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vtape");
    let mut writer = Writer::create(&path, &Meta::default()).unwrap();
    let [step, phase, range, note] =
        ["step 1", "forward", "attention", "loaded"].map(|name| writer.string(name).unwrap());
    let (addr, stream, pool) = (Addr(2 << 20), Stream(7), PoolId::DEFAULT);
    let mark = |kind, name| Event::Mark { kind, name };
    let size_bytes = 2 << 20;
    let events = [
        Event::SegmentAlloc { addr, size_bytes, stream, pool, is_large: false },
        mark(MarkKind::RangeEnd, range),
        mark(MarkKind::Step, step),
        mark(MarkKind::Phase, phase),
        Event::Alloc { addr, requested_bytes: 1000, size_bytes: 1024, stream, pool },
        mark(MarkKind::RangeBegin, range),
        mark(MarkKind::Instant, note),
        mark(MarkKind::RangeEnd, range),
        Event::Oom { requested_bytes: 5000, size_bytes: 5120, device_free_bytes: 77, stream, pool },
        mark(MarkKind::Step, step),
    ];
    for (at, event) in (1..).zip(events) {
        let (time_ns, thread, stack) = (at * 1_000_000, ThreadId(1), StackId::NONE);
        writer.push(DeviceId(0), &Record { time_ns, thread, stack, event }).unwrap();
    }
    writer.finish().unwrap();
    let tape = read(&path);
    let profile = exported(&tape, "run.firefox.json");
    let thread = &list(&profile, "threads")[0];
    is_well_formed(thread);
    let text = |value: &Value| thread["stringArray"][index(value).unwrap()].as_str().unwrap();
    let times = |at: usize| ["startTime", "endTime"].map(|key| thread["markers"][key][at].as_f64());
    let mut seen = Vec::new();
    for (at, (name, data)) in markers(thread).enumerate() {
        let title = data.get("title").map_or("", text);
        seen.push((name, title, times(at)));
        match name {
            "Out of memory" => {
                for (key, bytes) in [
                    ("requested", 5000),
                    ("size", 5120),
                    ("free", 77),
                    ("allocated", 1024),
                    ("reserved", 2 << 20),
                ] {
                    assert_eq!(data[key].as_f64().map(|it| it as u64), Some(bytes), "{key}");
                }
                assert_eq!([&data["stream"], &data["pool"]].map(text), ["7", "(0, 0)"]);
            }
            "Phase" => {
                let bytes = ["begin", "end"].map(|key| data[key].as_f64().unwrap() as u64);
                assert_eq!(bytes, [0, 1024]);
            }
            _ => {}
        }
    }
    let span = |begin: f64, end: f64| [Some(begin), Some(end)];
    // The end of an instant has no meaning.
    let moment = |at: f64| [Some(at), Some(0.0)];
    let expected = [
        ("Mark", "loaded", moment(6.0)),
        ("Range", "attention", span(5.0, 7.0)),
        ("Out of memory", "", moment(8.0)),
        ("Phase", "forward", span(3.0, 9.0)),
        ("Step", "step 1", span(2.0, 9.0)),
        ("Step", "step 1", span(9.0, 9.0)),
    ];
    assert_eq!(seen, expected);
    let schemas: Vec<&Value> =
        list(&profile["meta"], "markerSchema").iter().map(|schema| &schema["name"]).collect();
    assert_eq!(schemas, ["vramtape-moment", "vramtape-oom", "vramtape-span"]);
}
