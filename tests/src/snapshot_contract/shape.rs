//! The keys and types that readers use, and the sums within segments.

use std::fmt;

use replay::pickle::{Node, Tree, Value};

use super::Demand;
use super::fault::{Faults, Rule};

pub(super) fn check(tree: &Tree, demand: Demand, faults: &mut Faults) {
    let Value::Dict(top) = tree.root() else {
        faults.add(Rule::Key, "the snapshot", "not a dict");
        return;
    };
    let mut shape = Shape {
        tree,
        demand,
        faults,
        checked_frames: vec![false; tree.node_count()],
        has_category: false,
        has_unknown_category: false,
    };
    for key in TOP {
        shape.key("the snapshot", key, tree.get(top, key.name).unwrap_or(Value::None));
    }
    for (at, segment) in shape.items(top, "segments").enumerate() {
        shape.segment(at, segment);
    }
    for (device, trace) in shape.items(top, "device_traces").enumerate() {
        for (at, entry) in tree.items(trace).enumerate() {
            shape.entry(format_args!("device_traces[{device}][{at}]"), entry);
        }
    }
    if shape.has_category && !shape.has_unknown_category {
        faults.add(Rule::Category, "device_traces", "no event has it");
    }
}

/// The type a key must have.
#[derive(Clone, Copy)]
enum Type {
    Unsigned,
    Text,
    Bool,
    List,
    Dict,
    /// Two unsigned integers.
    Pool,
    /// Whatever it is, it must be there.
    Any,
}

/// A key and when it has to be there.
#[derive(Clone, Copy)]
struct Key {
    name: &'static str,
    kind: Type,
    needed: Demand,
}

const fn must(name: &'static str, kind: Type) -> Key {
    Key { name, kind, needed: Demand::Readable }
}

const fn ours(name: &'static str, kind: Type) -> Key {
    Key { name, kind, needed: Demand::Complete }
}

const TOP: [Key; 4] = [
    must("segments", Type::List),
    must("device_traces", Type::List),
    ours("allocator_settings", Type::Dict),
    ours("external_annotations", Type::List),
];
const SEGMENT: [Key; 12] = [
    must("device", Type::Unsigned),
    must("address", Type::Unsigned),
    must("total_size", Type::Unsigned),
    must("blocks", Type::List),
    ours("stream", Type::Unsigned),
    ours("segment_type", Type::Text),
    ours("segment_pool_id", Type::Pool),
    ours("is_expandable", Type::Bool),
    ours("allocated_size", Type::Unsigned),
    ours("active_size", Type::Unsigned),
    ours("requested_size", Type::Unsigned),
    ours("frames", Type::List),
];
const BLOCK: [Key; 5] = [
    must("size", Type::Unsigned),
    must("state", Type::Text),
    must("requested_size", Type::Unsigned),
    ours("address", Type::Unsigned),
    ours("frames", Type::List),
];
const ENTRY: [Key; 10] = [
    must("action", Type::Text),
    must("size", Type::Unsigned),
    ours("addr", Type::Unsigned),
    ours("device_free", Type::Unsigned),
    ours("stream", Type::Unsigned),
    ours("time_us", Type::Unsigned),
    ours("frames", Type::List),
    ours("pool_id", Type::Pool),
    ours("segment_pool_id", Type::Pool),
    ours("category", Type::Text),
];
const FRAME: [Key; 3] =
    [must("name", Type::Text), must("filename", Type::Text), must("line", Type::Any)];

struct Shape<'a, 'f> {
    tree: &'a Tree,
    demand: Demand,
    faults: &'f mut Faults,
    /// Frame lists already looked at, by node: they are shared.
    checked_frames: Vec<bool>,
    has_category: bool,
    has_unknown_category: bool,
}

impl<'a> Shape<'a, '_> {
    fn items(&self, dict: Node, key: &str) -> impl Iterator<Item = Value> + use<'a> {
        self.tree.items(self.tree.get(dict, key).unwrap_or(Value::None))
    }

    /// The values under the keys; `None` where there is none.
    fn read<const N: usize>(&self, dict: Node, keys: [Key; N]) -> [Value; N] {
        keys.map(|key| self.tree.get(dict, key.name).unwrap_or(Value::None))
    }

    /// That a value has its key's type, or may be missing.
    fn key(&mut self, place: impl fmt::Display, key: Key, value: Value) {
        let is_right = match (key.kind, value) {
            (_, Value::None) => self.demand == Demand::Readable && key.needed == Demand::Complete,
            (Type::Unsigned, value) => value.as_u64().is_some(),
            (Type::Text, Value::Text(_))
            | (Type::Bool, Value::Bool(_))
            | (Type::List, Value::List(_))
            | (Type::Dict, Value::Dict(_))
            | (Type::Any, _) => true,
            (Type::Pool, pool) => {
                let parts = self.tree.items(pool);
                parts.len() == 2 && { parts }.all(|part| part.as_u64().is_some())
            }
            _ => false,
        };
        if !is_right {
            let found = if value == Value::None { "missing" } else { value.type_name() };
            self.faults.add(Rule::Key, format_args!("{place}.{}", key.name), found);
        }
    }

    fn segment(&mut self, at: usize, segment: Value) {
        let place = format!("segments[{at}]");
        let Value::Dict(segment) = segment else { return };
        let values = self.read(segment, SEGMENT);
        for (key, value) in SEGMENT.into_iter().zip(values) {
            self.key(&place, key, value);
        }
        let [_, address, total, blocks, .., allocated, active, requested, frames] = values;
        self.frames(&place, frames);
        let mut end = address.as_u64().unwrap_or(0);
        let mut sums = [0_u64; 4];
        let tree = self.tree;
        for (number, block) in tree.items(blocks).enumerate() {
            let place = format!("{place}.blocks[{number}]");
            let Value::Dict(block) = block else { continue };
            let values = self.read(block, BLOCK);
            for (key, value) in BLOCK.into_iter().zip(values) {
                self.key(&place, key, value);
            }
            let [size, state, block_requested, address, frames] = values;
            self.frames(&place, frames);
            if address.as_u64().is_some_and(|address| address != end) {
                self.faults.add(Rule::Tiling, &place, format_args!("does not start at {end:#x}"));
            }
            let size = size.as_u64().unwrap_or(0);
            let counts = match state {
                Value::Text(text) => match self.tree.text(text) {
                    "active_allocated" => [true, true],
                    "active_pending_free" => [false, true],
                    _ => [false, false],
                },
                _ => [false, false],
            };
            let parts = [
                size,
                if counts[0] { size } else { 0 },
                if counts[1] { size } else { 0 },
                if counts[1] { block_requested.as_u64().unwrap_or(0) } else { 0 },
            ];
            for (sum, part) in sums.iter_mut().zip(parts) {
                *sum = sum.saturating_add(part);
            }
            end = end.saturating_add(size);
        }
        let names = ["total_size", "allocated_size", "active_size", "requested_size"];
        for ((name, value), sum) in
            names.into_iter().zip([total, allocated, active, requested]).zip(sums)
        {
            if value.as_u64().is_some_and(|value| value != sum) {
                let what = format_args!("is not the {sum} that its blocks sum to");
                self.faults.add(Rule::Tiling, format_args!("{place}.{name}"), what);
            }
        }
    }

    fn entry(&mut self, place: impl fmt::Display, entry: Value) {
        let Value::Dict(entry) = entry else { return };
        let values = self.read(entry, ENTRY);
        let [action, .., frames, _, _, category] = values;
        let is_oom = matches!(action, Value::Text(text) if self.tree.text(text) == "oom");
        for (key, value) in ENTRY.into_iter().zip(values) {
            // An out-of-memory has `device_free` in place of `addr`, and only some writers have categories.
            let is_other = key.name == if is_oom { "addr" } else { "device_free" };
            if !is_other && key.name != "category" {
                self.key(&place, key, value);
            }
        }
        if let Value::Text(category) = category {
            self.has_category = true;
            self.has_unknown_category |= self.tree.text(category) == "unknown";
        }
        self.frames(place, frames);
    }

    fn frames(&mut self, place: impl fmt::Display, frames: Value) {
        let (Value::List(node) | Value::Tuple(node)) = frames else { return };
        if std::mem::replace(&mut self.checked_frames[node.index()], true) {
            return;
        }
        let tree = self.tree;
        for (number, frame) in tree.values(node).enumerate() {
            let Value::Dict(frame) = frame else {
                let place = format_args!("{place}.frames[{number}]");
                self.faults.add(Rule::Key, place, "not a dict");
                continue;
            };
            if std::mem::replace(&mut self.checked_frames[frame.index()], true) {
                continue;
            }
            let values = self.read(frame, FRAME);
            for (key, value) in FRAME.into_iter().zip(values) {
                self.key(format_args!("{place}.frames[{number}]"), key, value);
            }
        }
    }
}
