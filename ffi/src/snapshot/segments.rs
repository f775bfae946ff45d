//! Segments and blocks under PyTorch's keys, and the stacks that they name by number.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;

use serde::Serialize;
use serde::ser::Serializer;
use trace_format::{BlockState, BlockStatus, Frame, SegmentState, StackId};

use crate::process::stacks;

#[derive(Serialize)]
pub(crate) struct Snapshot {
    pub(super) segments: Vec<Segment>,
    #[serde(flatten)]
    pub(super) names: Names,
}

#[derive(Serialize)]
pub(super) struct Segment {
    device: c_int,
    address: u64,
    total_size: u64,
    allocated_size: u64,
    active_size: u64,
    requested_size: u64,
    stream: u64,
    #[serde(rename = "segment_type")]
    class: &'static str,
    #[serde(rename = "segment_pool_id")]
    pool: (u64, u64),
    is_expandable: bool,
    #[serde(skip_serializing_if = "is_none", serialize_with = "number")]
    stack: StackId,
    blocks: Vec<Block>,
}

#[derive(Serialize)]
struct Block {
    address: u64,
    size: u64,
    requested_size: u64,
    state: &'static str,
    #[serde(skip_serializing_if = "is_none", serialize_with = "number")]
    stack: StackId,
}

/// Stacks by number, as the frames of their calls, innermost first; frames by their place in a list.
#[derive(Default, Serialize)]
pub(super) struct Names {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    stacks: BTreeMap<u32, Vec<usize>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frames: Vec<(String, String, u32)>,
    #[serde(skip)]
    known: HashMap<Frame, usize>,
}

impl Names {
    /// Sees to it that the stack is here.
    pub(super) fn add(&mut self, stack: StackId) {
        if stack == StackId::NONE || self.stacks.contains_key(&stack.0) {
            return;
        }
        let Some(frames) = stacks::names().frames(stack) else { return };
        let places = frames.iter().map(|frame| self.place_of(frame)).collect();
        self.stacks.insert(stack.0, places);
    }

    /// The same for the stacks that a segment and its blocks name.
    pub(super) fn add_of(&mut self, segment: &SegmentState) {
        self.add(segment.stack);
        segment.blocks.iter().for_each(|block| self.add(block.stack));
    }

    fn place_of(&mut self, frame: &Frame) -> usize {
        if let Some(place) = self.known.get(frame) {
            return *place;
        }
        self.frames.push(text_of(frame));
        self.known.insert(*frame, self.frames.len() - 1);
        self.frames.len() - 1
    }
}

/// The frames of a stack, innermost first: name, file and line. None where it is unknown.
pub(crate) fn frames_of(stack: StackId) -> Option<Vec<(String, String, u32)>> {
    Some(stacks::names().frames(stack)?.iter().map(text_of).collect())
}

fn text_of(frame: &Frame) -> (String, String, u32) {
    let text = |id| stacks::names().text(id).map_or_else(String::new, |text| text.to_string());
    (text(frame.name), text(frame.filename), frame.line)
}

impl Segment {
    pub(super) fn of(device: c_int, segment: &SegmentState) -> Self {
        let sum = |wanted: fn(BlockStatus) -> bool, size: fn(&BlockState) -> u64| {
            segment.blocks.iter().filter(|block| wanted(block.status)).map(size).sum()
        };
        let is_active = |status| status != BlockStatus::Inactive;
        Self {
            device,
            address: segment.addr.0,
            total_size: segment.size_bytes,
            allocated_size: sum(|s| s == BlockStatus::Allocated, |block| block.size_bytes),
            active_size: sum(is_active, |block| block.size_bytes),
            requested_size: sum(is_active, |block| block.requested_bytes),
            stream: segment.stream.0,
            class: if segment.is_large { "large" } else { "small" },
            pool: (segment.pool.0, segment.pool.1),
            is_expandable: segment.is_expandable,
            stack: segment.stack,
            blocks: segment.blocks.iter().map(Block::of).collect(),
        }
    }
}

impl Block {
    fn of(block: &BlockState) -> Self {
        Self {
            address: block.addr.0,
            size: block.size_bytes,
            requested_size: block.requested_bytes,
            state: match block.status {
                BlockStatus::Allocated => "active_allocated",
                BlockStatus::PendingFree => "active_pending_free",
                BlockStatus::Inactive => "inactive",
            },
            stack: block.stack,
        }
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_none(stack: &StackId) -> bool {
    *stack == StackId::NONE
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn number<S: Serializer>(stack: &StackId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(stack.0)
}
