//! PyTorch memory snapshots (`torch.cuda.memory._dump_snapshot`), typed.
//!
//! Keys that replays do not need are ignored, optional ones may be missing: snapshots of PyTorch 2.0 to 2.15 read,
//! also the bare segment list of `torch.cuda.memory_snapshot()` and blocks with the old `history`.

pub(crate) mod fields;
mod model;
mod read;
mod stacks;
mod values;

pub use model::{Annotation, Block, HostBlock, Segment, Settings, Snapshot, Stacks};
pub use read::from_tree;
pub use recorder::{TraceAction, TraceEntry};
pub use values::SnapshotError;
