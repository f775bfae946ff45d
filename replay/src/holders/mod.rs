//! Which code holds a device's memory at its peak, and whenever it was out.
//!
//! Live blocks are grouped by the innermost frame of the user's own code on the stack of their allocation. Bytes are
//! counted and not estimated: a block without a stack is in a row of its own, so that the rows add up to what was
//! allocated.

mod frame;
mod group;
mod labels;
mod names;
mod own_code;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde::Serialize;
use settings::Settings;
use trace_format::{Addr, BlockStatus, Event, Record, Source, StackId};

use crate::categories::Categories;
use crate::tape::{Device, Tape};
pub use frame::HolderFrame;
use group::Grouping;
pub use labels::CodeLabels;
pub use own_code::{Code, OwnCode};

/// Moments of no memory whose holders are listed; more are only counted.
pub const HOLDER_OOMS_MAX: usize = 10;

/// The holders of a device's memory over a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunHolders {
    /// Why no holders can be named, and what to do; `None` where they are.
    pub note: Option<String>,
    /// Where stacks were sampled: of so many bytes one has its stack, on average.
    pub sampled_every_bytes: Option<u64>,
    /// When the most was allocated.
    pub peak: Option<MomentHolders>,
    /// When memory was out, the first [`HOLDER_OOMS_MAX`] times.
    pub ooms: Vec<MomentHolders>,
    /// How often it was.
    pub ooms_total: u64,
    /// After the last record. `waste`, which looks at a replay, leaves it out.
    pub end: Option<MomentHolders>,
}

/// The holders at one moment. The rows add up to `allocated_bytes`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MomentHolders {
    /// Records before it.
    pub after_records: u64,
    /// Bytes of the live blocks.
    pub allocated_bytes: u64,
    /// Bytes of those that the records allocated: the others were live before the first.
    pub new_bytes: u64,
    /// How many live blocks there are.
    pub blocks: u64,
    /// The request that was refused here, if memory was out.
    pub refused: Option<Refused>,
    /// The largest first; what has no stack comes last.
    pub rows: Vec<Holder>,
}

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// Bytes asked for.
    pub requested_bytes: u64,
    /// The code that asked for them.
    pub label: String,
    /// Its callers in a line, innermost first.
    pub callers: String,
    /// Its whole stack, innermost first.
    pub frames: Vec<HolderFrame>,
}

/// How a row's blocks are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// A line of the user's own code.
    Code,
    /// The backward pass of what a line of the user's own code computed.
    BackwardOfCode,
    /// A library, without the user's code on the stack.
    Library,
    /// A thread of autograd, which has no Python frame.
    AutogradBackward,
    /// Another thread without a Python frame.
    Thread,
    /// Smaller holders together.
    Others,
    /// Sampling passed the allocation by.
    NotSampled,
    /// The allocation was recorded without a stack.
    NoStack,
    /// The allocation came before the tape begins.
    BeforeTape,
}

impl HolderKind {
    /// Whether the row's blocks have no stack.
    pub fn is_unattributed(self) -> bool {
        matches!(self, Self::NotSampled | Self::NoStack | Self::BeforeTape)
    }
}

/// Code, and the blocks that it allocated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Holder {
    /// How that is known.
    pub kind: HolderKind,
    /// The code in a few words: `model.py:41 attention`.
    pub label: String,
    /// Callers of its largest stack in a line, innermost first.
    pub callers: String,
    /// Bytes of its blocks.
    pub allocated_bytes: u64,
    /// Bytes of those that the records allocated: the others were live before the first.
    pub new_bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// How many holders the row stands for: 1, but for [`HolderKind::Others`].
    pub holders: u64,
    /// Bytes of the blocks by category, where the program set one.
    pub categories: BTreeMap<&'static str, u64>,
    /// Its largest stacks, whole.
    pub stacks: Vec<HolderStack>,
    /// How many stacks it has.
    pub stacks_total: u64,
}

/// A stack, and the blocks that it allocated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HolderStack {
    /// Bytes of its blocks.
    pub allocated_bytes: u64,
    /// Its blocks.
    pub blocks: u64,
    /// Its frames, innermost first.
    pub frames: Vec<HolderFrame>,
}

impl RunHolders {
    /// Of no moment yet, with a note if the tape has no stacks.
    pub fn none(tape: &Tape) -> Self {
        let sampled_every_bytes = sampled_every_bytes(tape);
        let note = missing(tape, sampled_every_bytes);
        Self { note, sampled_every_bytes, peak: None, ooms: Vec::new(), ooms_total: 0, end: None }
    }

    /// The holders at the recorded peak, at each recorded out of memory, and at the end.
    pub fn of(tape: &Tape, device: &Device) -> Self {
        let without = Self::none(tape);
        if without.note.is_some() {
            return without;
        }
        let (peak, ooms) = moments(device);
        let ooms_total = ooms.len() as u64;
        let mut wanted = vec![device.records.len(), peak];
        wanted.extend(ooms.into_iter().take(HOLDER_OOMS_MAX));
        let mut found = holders_at(tape, device, &wanted).into_iter();
        let (end, peak) = (found.next(), found.next());
        Self { peak, ooms: found.collect(), ooms_total, end, ..without }
    }
}

/// The holders behind so many records each, in the order that was asked for. Goes through the records once.
pub fn holders_at(tape: &Tape, device: &Device, after_records: &[usize]) -> Vec<MomentHolders> {
    let categories = Categories::of(&device.base.segments, &device.records);
    let mut grouping = Grouping::new(tape, &categories, sampled_every_bytes(tape).is_some());
    let mut wanted: Vec<usize> = after_records.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    let mut found = HashMap::new();
    let mut wanted = wanted.into_iter().peekable();
    follow(device, |done, live| {
        if wanted.next_if_eq(&done).is_some() {
            let refused = done.checked_sub(1).and_then(|at| device.records.get(at));
            let refused = refused.and_then(|record| grouping.refused(record));
            let moment = MomentHolders { refused, ..grouping.moment(live) };
            found.insert(done, MomentHolders { after_records: done as u64, ..moment });
        }
        wanted.peek().is_some()
    });
    after_records.iter().filter_map(|done| found.get(done).cloned()).collect()
}

/// Bytes of the live blocks of each stack at the first moment with the most allocated. Blocks without a stack are under
/// [`StackId::NONE`].
pub fn stacks_at_peak(device: &Device) -> BTreeMap<StackId, u64> {
    let (peak, _) = moments(device);
    let mut bytes = BTreeMap::new();
    follow(device, |done, live| {
        if done == peak {
            for block in live.values() {
                *bytes.entry(block.stack).or_default() += block.size_bytes;
            }
        }
        done < peak
    });
    bytes
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct LiveBlock {
    stack: StackId,
    size_bytes: u64,
    origin: Origin,
}

/// When a block was allocated.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// Before the first record, at this address.
    Before(Addr),
    /// By the record of this number.
    Record(usize),
}

/// Calls `look` with the live blocks before the first record and after each, and with the number of records before
/// them, until it returns `false`.
fn follow(device: &Device, mut look: impl FnMut(usize, &HashMap<Addr, LiveBlock>) -> bool) {
    let mut live = HashMap::new();
    for block in device.base.segments.iter().flat_map(|segment| &segment.blocks) {
        if block.status == BlockStatus::Allocated {
            let origin = Origin::Before(block.addr);
            let (stack, size_bytes) = (block.stack, block.size_bytes);
            live.insert(block.addr, LiveBlock { stack, size_bytes, origin });
        }
    }
    let mut goes_on = look(0, &live);
    for (at, Record { stack, event, .. }) in device.records.iter().enumerate() {
        if !goes_on {
            return;
        }
        match *event {
            Event::Alloc { addr, size_bytes, .. } => {
                let origin = Origin::Record(at);
                live.insert(addr, LiveBlock { stack: *stack, size_bytes, origin });
            }
            Event::Free { addr, .. } => {
                live.remove(&addr);
            }
            _ => {}
        }
        goes_on = look(at + 1, &live);
    }
}

/// The first moment when the most is allocated, and each when memory is out, as records before it.
fn moments(device: &Device) -> (usize, Vec<usize>) {
    let mut sizes: HashMap<Addr, u64> = HashMap::new();
    let blocks = device.base.segments.iter().flat_map(|segment| &segment.blocks);
    let blocks = blocks.filter(|block| block.status == BlockStatus::Allocated);
    sizes.extend(blocks.map(|block| (block.addr, block.size_bytes)));
    let mut allocated_bytes: u64 = sizes.values().sum();
    let (mut most_bytes, mut peak, mut ooms) = (allocated_bytes, 0, Vec::new());
    for (at, record) in device.records.iter().enumerate() {
        match record.event {
            Event::Alloc { addr, size_bytes, .. } => {
                let before = sizes.insert(addr, size_bytes).unwrap_or(0);
                allocated_bytes = (allocated_bytes - before).saturating_add(size_bytes);
            }
            Event::Free { addr, .. } => allocated_bytes -= sizes.remove(&addr).unwrap_or(0),
            Event::Oom { .. } => ooms.push(at + 1),
            _ => {}
        }
        if allocated_bytes > most_bytes {
            (most_bytes, peak) = (allocated_bytes, at + 1);
        }
    }
    (peak, ooms)
}

fn sampled_every_bytes(tape: &Tape) -> Option<u64> {
    let (settings, _) = Settings::parse(&tape.meta.vramtape_conf).ok()?;
    settings.stacks.every_bytes.map(std::num::NonZero::get)
}

/// Why a tape has no stacks, and how to get them.
fn missing(tape: &Tape, every_bytes: Option<u64>) -> Option<String> {
    if tape.stacks.stacks.len() > 1 {
        return None;
    }
    let text = match (tape.meta.source, every_bytes) {
        (_, Some(every)) => format!(
            "no stacks recorded: no allocation was sampled; pass --conf stacks_every:{} for more",
            (every / 16).max(1)
        ),
        (Source::Imported, None) => {
            "no stacks recorded: the file has none; a PyTorch snapshot has them after \
            _record_memory_history(stacks=\"python\")"
                .to_owned()
        }
        (_, None) => {
            "no stacks recorded: pass --conf stacks_every:1MiB, or set it in VRAMTAPE_CONF"
                .to_owned()
        }
    };
    Some(text)
}

#[cfg(test)]
mod tests;
