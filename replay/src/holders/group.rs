//! Live blocks by the code that allocated them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use hashbrown::HashMap;
use trace_format::{Addr, BACKWARD_FILE, Category, Event, Record, StackId, THREAD_FILE};

use super::frame::HolderFrame;
use super::names::{ShortNames, callers};
use super::{Holder, HolderKind, HolderStack, LiveBlock, MomentHolders, Origin, Refused};
use crate::categories::Categories;
use crate::snapshot::Stacks;
use crate::tape::Tape;

/// Holders that are listed by name; the others are one row.
const NAMED_MAX: usize = 50;
/// Stacks of a holder that are listed.
const STACKS_MAX: usize = 4;
/// PyTorch's name for its autograd threads, followed by the number of the device.
const AUTOGRAD_THREAD: &str = "pt_autograd";

/// Groups blocks of one tape.
pub(super) struct Grouping<'t> {
    stacks: &'t Stacks,
    categories: &'t Categories<'t>,
    is_sampled: bool,
    known: HashMap<StackId, Rc<KnownStack>>,
}

/// A stack as text, and the row that it belongs to.
#[derive(Debug)]
pub(super) struct KnownStack {
    pub(super) frames: Vec<HolderFrame>,
    pub(super) key: RowKey,
    /// The frame that names the row.
    at: usize,
}

/// Every stack of a tape, by its number.
pub(super) fn known_stacks(stacks: &Stacks) -> Vec<KnownStack> {
    let ids = (0..stacks.stacks.len() as u32).map(StackId);
    ids.map(|id| KnownStack::of(HolderFrame::of(stacks, stacks.frames_of(id)))).collect()
}

/// The short names of the files of stacks.
pub(super) fn short_names(known: &[KnownStack]) -> ShortNames<'_> {
    ShortNames::of(known.iter().flat_map(|stack| &stack.frames).map(|frame| frame.file.as_str()))
}

/// The common properties of the blocks of one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RowKey {
    kind: HolderKind,
    function: String,
    file: String,
    line: u32,
}

/// The stacks of a row.
type Members = Vec<(Sum, Rc<KnownStack>)>;

#[derive(Default)]
struct Sum {
    allocated_bytes: u64,
    new_bytes: u64,
    blocks: u64,
    categories: BTreeMap<&'static str, u64>,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.allocated_bytes += other.allocated_bytes;
        self.new_bytes += other.new_bytes;
        self.blocks += other.blocks;
        for (category, bytes) in &other.categories {
            *self.categories.entry(category).or_default() += bytes;
        }
    }
}

impl<'t> Grouping<'t> {
    pub(super) fn new(tape: &'t Tape, categories: &'t Categories<'t>, is_sampled: bool) -> Self {
        Self { stacks: &tape.stacks, categories, is_sampled, known: HashMap::new() }
    }

    /// The rows of these blocks.
    pub(super) fn moment(&mut self, live: &HashMap<Addr, LiveBlock>) -> MomentHolders {
        let (mut stacks, mut missing) = self.sums(live);
        let mut total = Sum::default();
        stacks.values().chain(missing.values()).for_each(|sum| total.add(sum));
        let mut by_row: HashMap<RowKey, (Sum, Members)> = HashMap::new();
        for (id, sum) in stacks.drain() {
            let known = self.known(id);
            let (row, members) = by_row.entry(known.key.clone()).or_default();
            row.add(&sum);
            members.push((sum, known));
        }
        let mut rows: Vec<_> = by_row.into_iter().collect();
        // Equal sizes are in a fixed order too.
        rows.sort_by(|(a, (a_sum, _)), (b, (b_sum, _))| {
            let (a_place, b_place) =
                ((&a.file, a.line, &a.function), (&b.file, b.line, &b.function));
            b_sum.allocated_bytes.cmp(&a_sum.allocated_bytes).then_with(|| a_place.cmp(&b_place))
        });
        let rest = rows.split_off(rows.len().min(NAMED_MAX));
        let members = rows.iter().flat_map(|(_, (_, members))| members);
        let files = members.flat_map(|(_, known)| &known.frames).map(|frame| frame.file.as_str());
        let names = ShortNames::of(files);
        let mut made = Vec::new();
        for (key, (sum, members)) in &rows {
            made.push(holder(key.kind, sum, members, &names));
        }
        if !rest.is_empty() {
            let mut sum = Sum::default();
            for (_, (row, _)) in &rest {
                sum.add(row);
            }
            let others = unnamed(HolderKind::Others, format!("{} others", rest.len()), &sum);
            made.push(Holder { holders: rest.len() as u64, ..others });
        }
        for (kind, label) in UNATTRIBUTED {
            if let Some(sum) = missing.remove(&kind) {
                made.push(unnamed(kind, label.to_owned(), &sum));
            }
        }
        let Sum { allocated_bytes, new_bytes, blocks, .. } = total;
        let (after_records, refused) = (0, None);
        MomentHolders { after_records, allocated_bytes, new_bytes, blocks, refused, rows: made }
    }

    /// The refused request of a record.
    pub(super) fn refused(&mut self, record: &Record) -> Option<Refused> {
        let Event::Oom { requested_bytes, .. } = record.event else { return None };
        let known = self.known(record.stack);
        let names = ShortNames::of(known.frames.iter().map(|frame| frame.file.as_str()));
        let label =
            if known.frames.is_empty() { "no stack".to_owned() } else { label(&known, &names) };
        let callers = callers(&known.frames, known.at, &names);
        Some(Refused { requested_bytes, label, callers, frames: known.frames.clone() })
    }

    /// Bytes and blocks of each stack, and of what has none.
    fn sums(
        &self,
        live: &HashMap<Addr, LiveBlock>,
    ) -> (HashMap<StackId, Sum>, HashMap<HolderKind, Sum>) {
        let mut stacks: HashMap<StackId, Sum> = HashMap::new();
        let mut missing: HashMap<HolderKind, Sum> = HashMap::new();
        for block in live.values() {
            let has_stack = !self.stacks.frame_ids_of(block.stack).is_empty();
            let sum = match block.origin {
                _ if has_stack => stacks.entry(block.stack).or_default(),
                Origin::Before(_) => missing.entry(HolderKind::BeforeTape).or_default(),
                Origin::Record(_) if self.is_sampled => {
                    missing.entry(HolderKind::NotSampled).or_default()
                }
                Origin::Record(_) => missing.entry(HolderKind::NoStack).or_default(),
            };
            sum.allocated_bytes += block.size_bytes;
            if matches!(block.origin, Origin::Record(_)) {
                sum.new_bytes += block.size_bytes;
            }
            sum.blocks += 1;
            if !self.categories.is_empty() {
                let category = match block.origin {
                    Origin::Before(addr) => self.categories.of_base(addr),
                    Origin::Record(at) => self.categories.of_alloc(at),
                };
                let category = category.map_or("other", Category::name);
                *sum.categories.entry(category).or_default() += block.size_bytes;
            }
        }
        (stacks, missing)
    }

    fn known(&mut self, id: StackId) -> Rc<KnownStack> {
        let stacks = self.stacks;
        let make = || Rc::new(KnownStack::of(HolderFrame::of(stacks, stacks.frames_of(id))));
        Rc::clone(self.known.entry(id).or_insert_with(make))
    }
}

pub(super) const UNATTRIBUTED: [(HolderKind, &str); 3] = [
    (HolderKind::NotSampled, "unattributed (no stack sampled)"),
    (HolderKind::NoStack, "unattributed (no stack recorded)"),
    (HolderKind::BeforeTape, "unattributed (allocated before the tape begins)"),
];

impl KnownStack {
    pub(super) fn of(frames: Vec<HolderFrame>) -> Self {
        let is_backward = frames.first().is_some_and(|frame| frame.file == BACKWARD_FILE);
        let thread = frames.iter().find(|frame| frame.file == THREAD_FILE);
        let thread = thread.map(|frame| frame.function.clone());
        // Native frames alone: autograd's thread is known by its functions.
        let is_python = |frame: &HolderFrame| frame.line > 0;
        let is_engine = |frame: &HolderFrame| frame.function.contains("torch::autograd::");
        let is_native_backward = !frames.iter().any(is_python) && frames.iter().any(is_engine);
        let user = frames.iter().position(HolderFrame::is_user);
        let python = frames.iter().position(is_python);
        let (kind, at) = match (user, thread) {
            (Some(at), _) if is_backward => (HolderKind::BackwardOfCode, at),
            (Some(at), _) => (HolderKind::Code, at),
            (None, Some(name)) if name.starts_with(AUTOGRAD_THREAD) => {
                (HolderKind::AutogradBackward, 0)
            }
            (None, _) if is_native_backward => (HolderKind::AutogradBackward, 0),
            (None, Some(_)) => (HolderKind::Thread, 0),
            (None, None) => (HolderKind::Library, python.unwrap_or(0)),
        };
        let key = match (kind, frames.get(at)) {
            (HolderKind::AutogradBackward, _) | (_, None) => RowKey::only(kind),
            (_, Some(frame)) => RowKey {
                kind,
                function: frame.function.clone(),
                file: frame.file.clone(),
                line: frame.line,
            },
        };
        Self { frames, key, at }
    }
}

impl KnownStack {
    /// How the row is known.
    pub(super) fn kind(&self) -> HolderKind {
        self.key.kind
    }

    /// The place of the frame that names the row.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The user's own frames, innermost first; of a stack without any, the frame that names the row, if one does.
    pub(super) fn own_frames(&self) -> Vec<&HolderFrame> {
        let own: Vec<_> = self.frames.iter().filter(|frame| frame.is_user()).collect();
        let names_row = own.is_empty() && self.kind() != HolderKind::AutogradBackward;
        if names_row { self.frames.get(self.at).into_iter().collect() } else { own }
    }
}

impl RowKey {
    fn only(kind: HolderKind) -> Self {
        Self { kind, function: String::new(), file: String::new(), line: 0 }
    }
}

fn holder(
    kind: HolderKind,
    sum: &Sum,
    members: &[(Sum, Rc<KnownStack>)],
    names: &ShortNames<'_>,
) -> Holder {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(sum, known)| {
        // Equal sizes are in a fixed order too.
        let lines: Vec<_> = known.frames.iter().map(|frame| (&frame.file, frame.line)).collect();
        (Reverse(sum.allocated_bytes), lines)
    });
    let stack = |(sum, known): &&(Sum, Rc<KnownStack>)| HolderStack {
        allocated_bytes: sum.allocated_bytes,
        blocks: sum.blocks,
        frames: known.frames.clone(),
    };
    let largest = &members[0].1;
    Holder {
        label: label(largest, names),
        callers: callers(&largest.frames, largest.at, names),
        stacks: members.iter().take(STACKS_MAX).map(stack).collect(),
        stacks_total: members.len() as u64,
        ..unnamed(kind, String::new(), sum)
    }
}

/// A row without a stack of its own.
fn unnamed(kind: HolderKind, label: String, sum: &Sum) -> Holder {
    Holder {
        kind,
        label,
        callers: String::new(),
        allocated_bytes: sum.allocated_bytes,
        new_bytes: sum.new_bytes,
        blocks: sum.blocks,
        holders: 1,
        categories: sum.categories.clone(),
        stacks: Vec::new(),
        stacks_total: 0,
    }
}

pub(super) fn label(known: &KnownStack, names: &ShortNames<'_>) -> String {
    let Some(frame) = known.frames.get(known.at) else { return "no frame".to_owned() };
    match known.key.kind {
        HolderKind::BackwardOfCode => format!("backward of {}", names.show(frame)),
        HolderKind::AutogradBackward => "autograd backward (no Python frame)".to_owned(),
        HolderKind::Thread => format!("thread {} (no Python frame)", frame.function),
        HolderKind::Library => {
            let library = frame.library.as_deref().unwrap_or_default();
            format!("{} (only {library})", names.show(frame))
        }
        _ => names.show(frame),
    }
}
