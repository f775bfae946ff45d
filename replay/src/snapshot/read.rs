//! From the values of a pickle to the model.

use std::fmt;

use recorder::{TraceAction, TraceEntry};
use settings::Compat;
use trace_format::{Addr, PoolId};

use super::fields::Fields;
use super::model::{Annotation, Block, HostBlock, Segment, Settings, Snapshot};
use super::stacks::StackReader;
use super::values::{
    NodePath, Result, device_of, integer, is_metadata, mismatch, pool_of, request_of, size_of,
    status_of, stream_of, time_of,
};
use crate::pickle::{Node, Tree, Value};

/// Reads a snapshot out of a pickle.
///
/// # Errors
/// Where the pickle's shape is not a snapshot's.
pub fn from_tree(tree: &Tree) -> Result<Snapshot> {
    let mut reader = Reader {
        tree,
        segment: Fields::new(tree, SEGMENT_KEYS),
        block: Fields::new(tree, BLOCK_KEYS),
        entry: Fields::new(tree, ENTRY_KEYS),
        actions: actions(tree),
        history: Fields::new(tree, HISTORY_KEYS),
        stacks: StackReader::new(tree),
        out: Snapshot::default(),
        seen: Seen::default(),
        room: tree.cell_count().min(tree.records_max),
    };
    reader.top()?;
    let mut out = reader.out;
    out.stacks = reader.stacks.finish();
    out.left_out = reader.seen.left_out();
    Ok(out)
}

const SEGMENT_KEYS: [&str; 9] = [
    "device",
    "address",
    "total_size",
    "stream",
    "segment_type",
    "segment_pool_id",
    "is_expandable",
    "frames",
    "blocks",
];
const BLOCK_KEYS: [&str; 5] = ["size", "requested_size", "state", "frames", "history"];
const HISTORY_KEYS: [&str; 2] = ["frames", "real_size"];
const ENTRY_KEYS: [&str; 12] = [
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "time_us",
    "pool_id",
    "segment_pool_id",
    "frames",
    "user_metadata",
    "compile_context",
    "internal_metadata",
];

struct Reader<'a> {
    tree: &'a Tree,
    segment: Fields<9>,
    block: Fields<5>,
    entry: Fields<12>,
    history: Fields<2>,
    /// The action that each string is.
    actions: Vec<Option<TraceAction>>,
    stacks: StackReader<'a>,
    out: Snapshot,
    seen: Seen,
    /// Events, segments and blocks that may still come: as many as the file holds values. A file in which one list is
    /// used many times could ask for any number.
    room: usize,
}

/// The events' fields that the model does not have.
#[derive(Default)]
struct Seen {
    metadata: bool,
    internal: u64,
    unknown: u64,
    /// The first action that is not known.
    unknown_action: String,
}

impl Seen {
    fn left_out(self) -> Vec<String> {
        let metadata = "user_metadata and compile_context of events".to_owned();
        let internal = format!(
            "that {} events are PyTorch's own (internal_metadata): they are replayed like any other",
            self.internal
        );
        let unknown = format!(
            "{} events of kinds that are not known here, such as {:?}",
            self.unknown, self.unknown_action
        );
        let notes = [
            self.metadata.then_some(metadata),
            (self.internal > 0).then_some(internal),
            (self.unknown > 0).then_some(unknown),
        ];
        notes.into_iter().flatten().collect()
    }
}

fn actions(tree: &Tree) -> Vec<Option<TraceAction>> {
    let mut actions = vec![None; tree.text_count()];
    for action in TraceAction::ALL {
        if let Some(text) = tree.find_text(action.name()) {
            actions[text.index()] = Some(action);
        }
    }
    actions
}

impl Reader<'_> {
    fn top(&mut self) -> Result<()> {
        let tree = self.tree;
        let top = match tree.root() {
            Value::Dict(top) => top,
            // torch.cuda.memory_snapshot(): the segments alone.
            segments @ (Value::List(_) | Value::Tuple(_)) => return self.segments(segments),
            other => return Err(mismatch("the snapshot", "a dict", tree, other)),
        };
        let get = |key| tree.get(top, key).unwrap_or(Value::None);
        self.segments(get("segments"))?;
        self.traces(get("device_traces"))?;
        if let Value::Dict(settings) = get("allocator_settings") {
            self.out.settings = read_settings(tree, settings);
            self.out.has_settings = true;
        }
        for (at, annotation) in tree.items(get("external_annotations")).enumerate() {
            self.annotation(at, annotation)?;
        }
        self.host(get("host_segments"), get("host_traces"))
    }

    /// Pinned host memory: since PyTorch 2.14, and empty where its history was not asked for.
    fn host(&mut self, segments: Value, trace: Value) -> Result<()> {
        let tree = self.tree;
        for (at, segment) in tree.items(segments).enumerate() {
            let place = NodePath::of("host_segments", at);
            self.take_room(place)?;
            let Value::Dict(segment) = segment else {
                return Err(mismatch(place, "a dict", tree, segment));
            };
            let get = |key| tree.get(segment, key).unwrap_or(Value::None);
            let size_bytes = size_of(tree, place.key("total_size"), get("total_size"))?;
            let is_active = get("active_size").as_u64().is_some_and(|bytes| bytes > 0);
            self.out.host_blocks.push(HostBlock { size_bytes, is_active });
        }
        for (at, entry) in tree.items(trace).enumerate() {
            let place = NodePath::of("host_traces", at);
            self.take_room(place)?;
            let Value::Dict(entry) = entry else {
                return Err(mismatch(place, "a dict", tree, entry));
            };
            let entry = self.entry(place, entry)?;
            self.out.host_trace.extend(entry);
        }
        Ok(())
    }

    fn list(&self, place: impl fmt::Display, value: Value) -> Result<Node> {
        match value {
            Value::List(node) | Value::Tuple(node) => Ok(node),
            other => Err(mismatch(place, "a list", self.tree, other)),
        }
    }

    fn segments(&mut self, value: Value) -> Result<()> {
        let tree = self.tree;
        let node = self.list("segments", value)?;
        for (at, segment) in tree.values(node).enumerate() {
            let place = NodePath::of("segments", at);
            self.take_room(place)?;
            let Value::Dict(segment) = segment else {
                return Err(mismatch(place, "a dict", tree, segment));
            };
            let [device, address, total_size, stream, kind, pool, expandable, frames, blocks] =
                self.segment.read(tree, segment);
            let address = integer(tree, place.key("address"), address)?;
            let total_size = size_of(tree, place.key("total_size"), total_size)?;
            let segment = Segment {
                device: device_of(tree, place.key("device"), device)?,
                address,
                total_size,
                stream: stream_of(stream),
                pool: pool_of(tree, pool).unwrap_or(PoolId::DEFAULT),
                is_large: match kind {
                    Value::Text(text) => tree.text(text) == "large",
                    _ => total_size != allocator::size::SMALL_SEGMENT_BYTES,
                },
                is_expandable: expandable == Value::Bool(true),
                stack: self.stacks.stack(frames),
                blocks: self.blocks(place, address, blocks)?,
            };
            self.out.segments.push(segment);
        }
        Ok(())
    }

    fn blocks(&mut self, place: NodePath, mut address: u64, value: Value) -> Result<Vec<Block>> {
        let tree = self.tree;
        let node = self.list(place.key("blocks"), value)?;
        let mut blocks = Vec::with_capacity(tree.len(node).min(self.room));
        for block in tree.values(node) {
            self.take_room(place.key("blocks"))?;
            let Value::Dict(block) = block else {
                return Err(mismatch(place.key("blocks"), "a list of dicts", tree, block));
            };
            let [size, requested, state, mut frames, history] = self.block.read(tree, block);
            let size = size_of(tree, place.key("blocks: size"), size)?;
            let mut requested = requested.as_u64();
            // PyTorch before 2.1 kept a history of uses in the block; the first is the current one.
            if let Some(Value::Dict(last)) = tree.items(history).next() {
                let [then, real_size] = self.history.read(tree, last);
                frames = if then == Value::None { frames } else { then };
                requested = requested.or(real_size.as_u64());
            }
            let status = match state {
                Value::Text(text) => status_of(tree.text(text)),
                _ => None,
            };
            let Some(status) = status else {
                let needs = "active_allocated, active_pending_free or inactive";
                return Err(mismatch(place.key("blocks: state"), needs, tree, state));
            };
            let requested_size = requested.unwrap_or(size);
            let stack = self.stacks.stack(frames);
            blocks.push(Block { address, size, requested_size, status, stack });
            address = address.saturating_add(size);
        }
        Ok(blocks)
    }

    fn traces(&mut self, value: Value) -> Result<()> {
        let tree = self.tree;
        let traces = self.list("device_traces", value)?;
        for (device, trace) in tree.values(traces).enumerate() {
            let place = NodePath::of("device_traces", device);
            device_of(tree, place, Value::Int(device as i64))?;
            let trace = self.list(place, trace)?;
            let mut entries = Vec::with_capacity(tree.len(trace).min(self.room));
            for (at, entry) in tree.values(trace).enumerate() {
                let place = place.at(at);
                self.take_room(place)?;
                let Value::Dict(entry) = entry else {
                    return Err(mismatch(place, "a dict", tree, entry));
                };
                entries.extend(self.entry(place, entry)?);
            }
            self.out.traces.push(entries);
        }
        Ok(())
    }

    fn take_room(&mut self, place: NodePath) -> Result<()> {
        let room = self.room.checked_sub(1);
        let needs = if self.tree.cell_count() > self.tree.records_max {
            "an end (a file of this size is expected to hold less: --trust-factor 10 where it is trusted)"
        } else {
            "a list of its own (one is used over and over)"
        };
        self.room = room.ok_or_else(|| mismatch(place, needs, self.tree, Value::None))?;
        Ok(())
    }

    /// An event; `None` for one of a kind that is not known.
    fn entry(&mut self, place: NodePath, entry: Node) -> Result<Option<TraceEntry>> {
        let tree = self.tree;
        let [
            action,
            addr,
            free,
            size,
            stream,
            time,
            pool,
            segment_pool,
            frames,
            metadata,
            context,
            internal,
        ] = self.entry.read(tree, entry);
        let Value::Text(name) = action else {
            return Err(mismatch(place.key("action"), "an action of PyTorch", tree, action));
        };
        let Some(action) = self.actions[name.index()] else {
            if self.seen.unknown == 0 {
                self.seen.unknown_action = tree.text(name).chars().take(40).collect();
            }
            self.seen.unknown += 1;
            return Ok(None);
        };
        let has_addr = action.has_addr();
        let addr = match action {
            TraceAction::Oom => free.as_u64().or(addr.as_u64()).unwrap_or(0),
            _ if has_addr => integer(tree, place.key("addr"), addr)?,
            _ => 0,
        };
        let size = match size {
            Value::None if !has_addr && action != TraceAction::Oom => 0,
            size if matches!(action, TraceAction::Alloc | TraceAction::Oom) => {
                request_of(tree, place.key("size"), size)?
            }
            size => size_of(tree, place.key("size"), size)?,
        };
        let stack = if let (TraceAction::Annotate, Value::Text(name)) = (action, metadata) {
            self.stacks.named(name, frames)
        } else {
            let is_more = is_metadata(tree, metadata, "") || is_metadata(tree, context, "N/A");
            self.seen.metadata |= is_more;
            self.stacks.stack(frames)
        };
        self.seen.internal += u64::from(is_metadata(tree, internal, ""));
        Ok(Some(TraceEntry {
            action,
            addr: Addr(addr),
            size_bytes: size,
            stream: stream_of(stream),
            pool: pool_of(tree, pool).or_else(|| pool_of(tree, segment_pool)),
            time_us: time_of(time),
            cuts_segment: false,
            stack,
        }))
    }

    fn annotation(&mut self, at: usize, value: Value) -> Result<()> {
        let tree = self.tree;
        let Value::Dict(annotation) = value else {
            let place = NodePath::of("external_annotations", at);
            return Err(mismatch(place, "a dict", tree, value));
        };
        let get = |key| tree.get(annotation, key).unwrap_or(Value::None);
        let text = |value| match value {
            Value::Text(text) => tree.text(text),
            _ => "",
        };
        self.out.annotations.push(Annotation {
            device: device_of(
                tree,
                NodePath::of("external_annotations", at).key("device"),
                get("device"),
            )?,
            time_us: time_of(get("time_us")),
            is_start: text(get("stage")) == "START",
            name: text(get("name")).to_owned(),
        });
        Ok(())
    }
}

fn read_settings(tree: &Tree, node: Node) -> Settings {
    let get = |key| tree.get(node, key).unwrap_or(Value::None);
    let mut settings = Settings {
        text: match get("PYTORCH_CUDA_ALLOC_CONF") {
            Value::Text(text) => Some(tree.text(text).to_owned()),
            _ => None,
        },
        // Unlimited is written as -1.
        max_split_size: get("max_split_size").as_u64(),
        garbage_collection_threshold: match get("garbage_collection_threshold") {
            Value::Float(threshold) => threshold,
            _ => 0.0,
        },
        expandable_segments: get("expandable_segments") == Value::Bool(true),
        compat: match get("vramtape_compat") {
            Value::Text(text) => Compat::from_name(tree.text(text)),
            _ => None,
        },
        ..Settings::default()
    };
    if let Value::Dict(divisions) = get("roundup_power2_divisions") {
        for (at, slot) in settings.roundup_power2_divisions.iter_mut().enumerate() {
            let divisions = tree.get(divisions, &(1_u64 << at).to_string());
            *slot = divisions.and_then(Value::as_u64).unwrap_or(0);
        }
    }
    settings
}
