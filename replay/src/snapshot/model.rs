//! A PyTorch memory snapshot, typed. Sizes are bytes, times microseconds since the Unix epoch.

use recorder::TraceEntry;
use settings::{Compat, ROUNDUP_INTERVALS};
use trace_format::{BlockStatus, Frame, FrameId, PoolId, StackId, Stream, StringId};

/// A whole snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// The final segments of all devices.
    pub segments: Vec<Segment>,
    /// The events of each device, oldest first; the index is the device.
    pub traces: Vec<Vec<TraceEntry>>,
    /// The allocator's settings, as far as they are known.
    pub settings: Settings,
    /// Whether the file holds settings at all.
    pub has_settings: bool,
    /// `record_function` ranges of the profiler.
    pub annotations: Vec<Annotation>,
    /// The events of pinned host memory, oldest first. Sizes are those of blocks.
    pub host_trace: Vec<TraceEntry>,
    /// The blocks of pinned host memory at the end.
    pub host_blocks: Vec<HostBlock>,
    /// The call stacks that entries, segments and blocks name; the first is empty.
    pub stacks: Stacks,
    /// The file's fields that this model does not have, each once.
    pub left_out: Vec<String>,
}

/// One final segment, or one mapped run of an expandable segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// CUDA ordinal of the device.
    pub device: u32,
    /// Where it starts.
    pub address: u64,
    /// Its size.
    pub total_size: u64,
    /// The stream it serves.
    pub stream: Stream,
    /// The pool it serves.
    pub pool: PoolId,
    /// `segment_type` is `large`.
    pub is_large: bool,
    /// Part of an expandable segment.
    pub is_expandable: bool,
    /// Stack of the allocation that made it.
    pub stack: StackId,
    /// Its blocks, ascending.
    pub blocks: Vec<Block>,
}

/// One block of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it starts; the sum of the sizes before it.
    pub address: u64,
    /// Its size.
    pub size: u64,
    /// Bytes last asked for.
    pub requested_size: u64,
    /// Whether it is in use.
    pub status: BlockStatus,
    /// Stack of the allocation.
    pub stack: StackId,
}

/// One block of pinned host memory, which is a segment of `host_segments`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBlock {
    /// Its size.
    pub size_bytes: u64,
    /// Whether it is in use, or waits for a stream that uses it.
    pub is_active: bool,
}

/// `allocator_settings`, as far as replays need them. Missing ones have PyTorch's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `PYTORCH_CUDA_ALLOC_CONF` as last set.
    pub text: Option<String>,
    /// Bytes; `None` is unlimited (-1).
    pub max_split_size: Option<u64>,
    /// 0 is off.
    pub garbage_collection_threshold: f64,
    /// Whether new segments are expandable.
    pub expandable_segments: bool,
    /// The PyTorch version whose behaviour the allocator had; only vramtape's own snapshots have it.
    pub compat: Option<Compat>,
    /// For 1 MiB, 2 MiB, ... 32 GiB.
    pub roundup_power2_divisions: [u64; ROUNDUP_INTERVALS],
}

/// One `external_annotations` entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// CUDA ordinal of the device.
    pub device: u32,
    /// When.
    pub time_us: u64,
    /// `START` of the range; otherwise its end.
    pub is_start: bool,
    /// Name of the range.
    pub name: String,
}

/// Distinct call stacks, innermost frame first, as PyTorch writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stacks {
    /// Strings of the frames; number 0 is empty.
    pub strings: Vec<String>,
    /// Frames of all stacks.
    pub frames: Vec<Frame>,
    /// Each stack as indices into `frames`; number 0 is empty.
    pub stacks: Vec<Box<[FrameId]>>,
}

impl Default for Stacks {
    fn default() -> Self {
        Self { strings: vec![String::new()], frames: Vec::new(), stacks: vec![Box::default()] }
    }
}

impl Stacks {
    /// Adds a string and returns its number; the empty string is number 0.
    pub fn add_string(&mut self, text: &str) -> StringId {
        if text.is_empty() {
            return StringId(0);
        }
        self.strings.push(text.to_owned());
        StringId(self.strings.len() as u32 - 1)
    }

    /// The text of a string; empty where the number is not known.
    pub fn text(&self, id: StringId) -> &str {
        self.strings.get(id.0 as usize).map_or("", String::as_str)
    }

    /// A frame; an empty one where the number is not known.
    pub fn frame(&self, id: FrameId) -> Frame {
        self.frames.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// The numbers of a stack's frames; none where the stack is not known.
    pub fn frame_ids_of(&self, stack: StackId) -> &[FrameId] {
        self.stacks.get(stack.0 as usize).map_or(&[], AsRef::as_ref)
    }

    /// The frames of a stack.
    pub fn frames_of(&self, stack: StackId) -> impl Iterator<Item = Frame> + '_ {
        self.frame_ids_of(stack).iter().map(|&frame| self.frame(frame))
    }

    /// Whether a frame of a stack contains the pattern, written as `model.py:41 forward` is.
    pub(crate) fn has_frame(&self, stack: StackId, pattern: &str) -> bool {
        self.frames_of(stack).any(|frame| {
            let (file, name) = (self.text(frame.filename), self.text(frame.name));
            format!("{file}:{} {name}", frame.line).contains(pattern)
        })
    }
}
