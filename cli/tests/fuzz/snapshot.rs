//! PyTorch's memory snapshots, as JSON and as pickles, of the same programs.

use serde_json::{Map, Value, json};
use trace_format::{BlockStatus, Event, SegmentState};

use crate::program::{Program, SETTINGS};
use crate::rng::Rng;

/// A snapshot of up to some hundred events.
pub(crate) fn snapshot(rng: &mut Rng) -> Vec<u8> {
    let mut value = value(rng);
    let rarity = *rng.pick(&[0, 0, 200, 40]);
    if rarity > 0 {
        spoil(rng, rarity, &mut value);
    }
    encode(rng, &value)
}

fn encode(rng: &mut Rng, value: &Value) -> Vec<u8> {
    if rng.once_in(2) {
        return serde_json::to_vec(value).expect("JSON");
    }
    pickle(value)
}

/// A value as a pickle of protocol 4.
pub(crate) fn pickle(value: &Value) -> Vec<u8> {
    let mut out = b"\x80\x04".to_vec();
    put(&mut out, value);
    out.push(b'.');
    out
}

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(b'N'),
        Value::Bool(value) => out.push(if *value { 0x88 } else { 0x89 }),
        Value::Number(number) => {
            if let Some(float) = number.as_f64().filter(|_| number.is_f64()) {
                out.push(b'G');
                out.extend(float.to_bits().swap_bytes().to_le_bytes());
            } else {
                let positive = || i128::from(number.as_u64().unwrap_or_default());
                let wide = number.as_i64().map_or_else(positive, i128::from);
                out.extend([0x8a, 9]);
                out.extend(&wide.to_le_bytes()[..9]);
            }
        }
        Value::String(text) => {
            out.push(b'X');
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        }
        Value::Array(values) => {
            out.extend(b"](");
            for value in values {
                put(out, value);
            }
            out.push(b'e');
        }
        Value::Object(entries) => {
            out.extend(b"}(");
            for (key, value) in entries {
                put(out, &Value::String(key.clone()));
                put(out, value);
            }
            out.push(b'u');
        }
    }
}

fn value(rng: &mut Rng) -> Value {
    let devices = *rng.pick(&[1, 1, 1, 2, 4]);
    let has_pools = rng.once_in(2);
    let mut segments = Vec::new();
    let mut traces = Vec::new();
    for device in 0..devices {
        let mut program = Program::new(rng);
        let mut entries = Vec::new();
        let count = rng.below_one_of(&[4, 20, 60, 300]);
        let from = if rng.once_in(3) { rng.roll(count) } else { 0 };
        let mut time_us = rng.extreme() >> 12;
        for at in 0..count {
            let event = program.event(rng, 0);
            time_us = time_us.wrapping_add(rng.roll(1000) as u64);
            let entry = entry(&event, time_us, has_pools, rng);
            entries.extend(entry.into_iter().flatten().filter(|_| at >= from));
        }
        traces.push(Value::Array(entries));
        segments.extend(program.state(rng).iter().map(|found| segment(found, device, rng)));
    }
    let mut top = Map::new();
    top.insert("segments".to_owned(), Value::Array(segments));
    if !rng.once_in(20) {
        top.insert("device_traces".to_owned(), Value::Array(traces));
    }
    if rng.once_in(2) {
        top.insert(
            "allocator_settings".to_owned(),
            json!({"PYTORCH_CUDA_ALLOC_CONF": rng.pick(&SETTINGS), "expandable_segments": rng.once_in(2),
                "max_split_size": rng.extreme(),
                "garbage_collection_threshold": *rng.pick(&[0.0, 0.5, 1e-9, -1.0, 9.0]),
                "roundup_power2_divisions": {"1": rng.extreme(), "64": 3, "256": 4}}),
        );
    }
    if rng.once_in(4) {
        let stage = *rng.pick(&["START", "END", ""]);
        top.insert(
            "external_annotations".to_owned(),
            json!([{"device": 0, "time_us": rng.extreme(), "stage": stage, "name": "forward"}]),
        );
    }
    Value::Object(top)
}

fn segment(found: &SegmentState, device: usize, rng: &mut Rng) -> Value {
    let blocks: Vec<_> = found.blocks.iter().map(|block| {
        let state = match block.status {
            BlockStatus::Allocated => "active_allocated",
            BlockStatus::PendingFree => "active_pending_free",
            BlockStatus::Inactive => "inactive",
        };
        json!({"size": block.size_bytes, "requested_size": block.requested_bytes, "state": state,
            "address": block.addr.0, "frames": frames(rng)})
    }).collect();
    json!({"device": device, "address": found.addr.0, "total_size": found.size_bytes, "stream": found.stream.0,
        "segment_type": if found.is_large { "large" } else { "small" }, "is_expandable": found.is_expandable,
        "segment_pool_id": [found.pool.0, found.pool.1], "frames": [], "blocks": blocks})
}

fn frames(rng: &mut Rng) -> Value {
    let frame = json!({"name": "forward", "filename": "model.py", "line": rng.roll(9)});
    Value::Array(vec![frame; rng.roll(3)])
}

/// An event's entries; none for what snapshots do not show.
fn entry(event: &Event, time_us: u64, has_pools: bool, rng: &mut Rng) -> Option<Vec<Value>> {
    let of = |action: &str, addr: u64, size: u64, stream: u64, rng: &mut Rng| {
        let mut entry = json!({"action": action, "addr": addr, "size": size, "stream": stream,
            "time_us": time_us, "frames": frames(rng)});
        if has_pools {
            entry["pool_id"] = json!([0, rng.roll(3)]);
        }
        entry
    };
    Some(match *event {
        Event::Alloc { addr, requested_bytes, stream, .. } => {
            vec![of("alloc", addr.0, requested_bytes, stream.0, rng)]
        }
        Event::Free { addr, requested_bytes, pending, .. } => {
            let requested = of("free_requested", addr.0, requested_bytes, 0, rng);
            let completed = of("free_completed", addr.0, requested_bytes, 0, rng);
            if pending { vec![requested] } else { vec![requested, completed] }
        }
        Event::FreeCompleted { addr, requested_bytes, .. } => {
            vec![of("free_completed", addr.0, requested_bytes, 0, rng)]
        }
        Event::SegmentAlloc { addr, size_bytes, stream, .. } => {
            vec![of("segment_alloc", addr.0, size_bytes, stream.0, rng)]
        }
        Event::SegmentFree { addr, size_bytes, stream, .. } => {
            vec![of("segment_free", addr.0, size_bytes, stream.0, rng)]
        }
        Event::SegmentMap { addr, size_bytes, stream, .. } => {
            vec![of("segment_map", addr.0, size_bytes, stream.0, rng)]
        }
        Event::SegmentUnmap { addr, size_bytes, stream, .. } => {
            vec![of("segment_unmap", addr.0, size_bytes, stream.0, rng)]
        }
        Event::Oom { requested_bytes, device_free_bytes, stream, .. } => {
            let mut oom = of("oom", 0, requested_bytes, stream.0, rng);
            oom["device_free"] = json!(device_free_bytes);
            vec![oom]
        }
        Event::Snapshot { active_bytes } => vec![of("snapshot", 0, active_bytes, 0, rng)],
        Event::Mark { .. } => vec![of("user_defined", 0, 0, 0, rng)],
        Event::Category { .. } => {
            let mut annotate = of("annotate", 0, 0, 0, rng);
            annotate["user_metadata"] = json!("what it is");
            vec![annotate]
        }
        _ => return None,
    })
}

/// Puts wrong values and wrong types in some places.
fn spoil(rng: &mut Rng, rarity: usize, value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| spoil(rng, rarity, value)),
        Value::Object(entries) => {
            entries.values_mut().for_each(|value| spoil(rng, rarity, value));
            if rng.once_in(rarity * 4)
                && let Some(key) = entries.keys().next().cloned()
            {
                entries.remove(&key);
            }
        }
        _ if rng.once_in(rarity) => {
            *value = match rng.roll(6) {
                0 => Value::Null,
                1 => json!(-1),
                2 => json!(0.5),
                3 => json!("text"),
                4 => json!([]),
                _ => json!(rng.extreme()),
            };
        }
        _ => {}
    }
}
