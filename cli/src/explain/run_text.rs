//! A moment of a run in words: the verdict and its numbers, free memory, the pinning set, what helps, and what is live.

use std::fmt::Write;

use replay::explain::Step;
use replay::explain::{
    BlockOrigin, ExplainedBlock, ExplainedPeak, Explanation, FreeSpace, LiveGroup, MomentKind,
    OutOfMemory, PinningSet, Remedy, Way,
};
use trace_format::PoolId;

use super::host;
use crate::bytes;
use crate::table::Table;

/// Rows of each table; `--json` has all.
const ROWS: usize = 8;

/// The report.
pub(super) fn text(explanation: &Explanation) -> String {
    let mut text = explanation.host_oom.as_ref().map(host::out_of_memory).unwrap_or_default();
    if let Some(oom) = &explanation.oom {
        let _ = writeln!(text, "{}: {}", oom.verdict, oom.why);
        if !oom.also.is_empty() {
            let also: Vec<_> = oom.also.iter().map(|verdict| verdict.name()).collect();
            let _ = writeln!(text, "also possible: {}", also.join(", "));
        }
    }
    text.push_str(&moment(explanation));
    if let Some(oom) = &explanation.oom {
        text.push_str(&arithmetic(oom));
        text.push_str(&request(oom));
    }
    text.push_str(&free_space(explanation));
    if let Some(oom) = &explanation.oom {
        text.push_str(&pinning(oom.pinning.as_ref()));
        text.push_str(&remedies(oom, explanation));
    }
    text.push_str(&live(explanation));
    text.push_str(&host::memory(explanation));
    if let Some(peak) = &explanation.peak {
        text.push_str(&falls(peak));
    }
    if let Some(note) = &explanation.stacks_note {
        let _ = writeln!(text, "\n{note}");
    }
    text
}

/// Which moment, under which settings.
fn moment(explanation: &Explanation) -> String {
    let moment = &explanation.moment;
    let what = match moment.kind {
        MomentKind::Oom => "out of memory",
        MomentKind::Peak => "peak",
        MomentKind::Last => "end of the run",
        MomentKind::Record | MomentKind::Time => "moment",
    };
    let mut parts = vec![format!("{what} at record {}", moment.after_records)];
    parts.extend(moment.step.clone());
    parts.extend(moment.phase.clone());
    let settings = if explanation.config.is_empty() {
        "PyTorch's defaults".to_owned()
    } else {
        explanation.config.clone()
    };
    let capacity = explanation.capacity_bytes.map_or("unlimited".to_owned(), bytes::show);
    let mut text = format!(
        "{}; {}, {settings}, capacity {capacity}\n",
        parts.join(", "),
        explanation.strategy
    );
    if moment.kind == MomentKind::Oom && moment.refused_requests > 1 {
        let _ = writeln!(
            text,
            "{} requests of the run are refused; --at RECORD explains another",
            moment.refused_requests
        );
    }
    text
}

fn arithmetic(oom: &OutOfMemory) -> String {
    steps(&oom.arithmetic)
}

/// Numbers that prove a verdict, as a table.
pub(super) fn steps(arithmetic: &[Step]) -> String {
    let mut table = Table::new(&["memory", ">size", "source"]);
    for step in arithmetic {
        table.row([step.name.to_owned(), bytes::show(step.bytes), step.how.to_owned()]);
    }
    format!("\n{}", table.render())
}

fn request(oom: &OutOfMemory) -> String {
    let request = &oom.request;
    let recorded = if request.is_recorded { "" } else { "; the recorded run served it" };
    format!(
        "\nrequest: {} on stream {} of {}{recorded}\n  by {}\n",
        bytes::show(request.requested_bytes),
        request.stream,
        pool(request.pool),
        origin(&request.origin).join(", ")
    )
}

fn pool(pool: PoolId) -> String {
    if pool.is_default() { "the default pool".to_owned() } else { format!("pool {pool}") }
}

/// What is known of an allocation, in a few words each.
fn origin(origin: &BlockOrigin) -> Vec<String> {
    let mut words = vec![origin.code.clone()];
    words.extend(origin.module.as_ref().map(|module| format!("module {module}")));
    words.extend(origin.step.clone());
    words.extend(origin.phase.clone());
    words.extend(origin.category.map(|category| category.replace('_', " ")));
    words
}

fn free_space(explanation: &Explanation) -> String {
    let rows = &explanation.free_space;
    let total: u64 = rows.iter().map(|row| row.free_bytes).sum();
    let reserved = bytes::show(explanation.moment.reserved_bytes);
    let why = if explanation.oom.is_some() { ", and why it did not serve" } else { "" };
    let mut text = format!("\nfree memory: {} of {reserved} reserved{why}\n", bytes::show(total));
    if rows.is_empty() {
        return text;
    }
    let heads =
        ["pool", "stream", "requests", ">free", ">largest", ">blocks", ">returnable", "reason"];
    let mut table = Table::new(&heads);
    for row in rows.iter().take(ROWS) {
        table.row(free_row(row));
    }
    text.push_str(&table.render());
    text.push_str(&more(rows.len()));
    text
}

fn free_row(row: &FreeSpace) -> [String; 8] {
    [
        if row.pool.is_default() { "default".to_owned() } else { row.pool.to_string() },
        row.stream.to_string(),
        if row.is_large { "over 1 MiB" } else { "to 1 MiB" }.to_owned(),
        bytes::show(row.free_bytes),
        bytes::show(row.largest_bytes),
        row.blocks.to_string(),
        bytes::show(row.returnable_bytes),
        row.reason.words().to_owned(),
    ]
}

/// A line for the rows that are left out.
fn more(rows: usize) -> String {
    match rows.saturating_sub(ROWS) {
        0 => String::new(),
        hidden => format!("and {hidden} more: --json has them\n"),
    }
}

fn pinning(pinning: Option<&PinningSet>) -> String {
    let Some(set) = pinning else {
        return "\npinning set: none; the request is refused even if all live blocks are freed before it\n"
            .to_owned();
    };
    let count = set.blocks.len();
    let plural = if count == 1 { "" } else { "s" };
    let bound = if set.is_exact {
        "no set with fewer bytes serves it".to_owned()
    } else {
        let gap = bytes::show(set.bytes - set.lower_bound_bytes);
        format!("every set has at least {}, a gap of {gap}", bytes::show(set.lower_bound_bytes))
    };
    let way = match set.way {
        Way::OneBlock => "as one free block",
        Way::NewSegment => "from a new segment, once their memory is back on the device",
        Way::Growth => "by an expandable segment that grows into their memory",
        Way::Search => "as a search over all sets shows",
    };
    let mut text = format!(
        "\npinning set: {count} live block{plural}, {}; freed before the request they serve it, {way} (replayed); \
         {bound}\n",
        bytes::show(set.bytes)
    );
    let rows = alike(&set.blocks);
    let mut table = Table::new(&[">size", ">blocks", ">oldest", "allocated by"]);
    for (block, count, words) in rows.iter().take(ROWS) {
        let cells = [bytes::show(block.size_bytes), count.to_string(), age(block), words.clone()];
        table.row(cells);
    }
    text.push_str(&table.render());
    text.push_str(&more(rows.len()));
    text
}

/// Blocks of one size that are allocated by the same: the oldest of them, how many they are, and by what.
fn alike(blocks: &[ExplainedBlock]) -> Vec<(&ExplainedBlock, u64, String)> {
    let mut rows: Vec<(&ExplainedBlock, u64, String)> = Vec::new();
    for block in blocks {
        let words = origin(&block.origin).join(", ");
        let is_same = |(other, _, known): &&mut (&ExplainedBlock, u64, String)| {
            other.size_bytes == block.size_bytes && *known == words
        };
        match rows.iter_mut().find(is_same) {
            Some((oldest, count, _)) => {
                *count += 1;
                if block.origin.age_records > oldest.origin.age_records {
                    *oldest = block;
                }
            }
            None => rows.push((block, 1, words)),
        }
    }
    rows
}

/// `1.250 s`, or records where the run has no clock.
fn age(block: &ExplainedBlock) -> String {
    match (block.origin.age_ns, block.origin.age_records) {
        (Some(ns), _) => format!("{:.3} s", ns as f64 / 1e9),
        (None, Some(records)) => format!("{records} records"),
        (None, None) => "before the tape".to_owned(),
    }
}

fn remedies(oom: &OutOfMemory, explanation: &Explanation) -> String {
    let helps = oom.remedies.iter().any(|remedy| remedy.kind.is_of_allocator());
    let mut text = String::new();
    if !helps && !oom.why.starts_with("nothing in the allocator helps") {
        let live = bytes::show(explanation.live.allocated_bytes);
        let capacity = explanation.capacity_bytes.map_or("the device".to_owned(), bytes::show);
        let _ = writeln!(text, "\nnothing in the allocator helps: {live} of {capacity} are live");
    }
    if oom.remedies.is_empty() {
        return text;
    }
    text.push_str("\nwhat would have helped, each replayed up to the request:\n");
    for Remedy { text: what, .. } in &oom.remedies {
        let _ = writeln!(text, "- {what}");
    }
    text
}

fn live(explanation: &Explanation) -> String {
    let live = &explanation.live;
    let mut text =
        format!("\nlive: {} in {} blocks\n", bytes::show(live.allocated_bytes), live.blocks);
    for (head, groups) in [
        ("code", &live.code),
        ("module", &live.modules),
        ("category", &live.categories),
        ("phase of the allocation", &live.phases),
    ] {
        if !groups.is_empty() {
            text.push_str(&group_table(head, groups, live.allocated_bytes));
        }
    }
    text
}

fn group_table(head: &'static str, groups: &[LiveGroup], all_bytes: u64) -> String {
    let mut table = Table::new(&[">size", ">share", ">blocks", head]);
    let mut row = |size_bytes: u64, blocks: u64, name: String| {
        let share = 100.0 * size_bytes as f64 / all_bytes.max(1) as f64;
        table.row([bytes::show(size_bytes), format!("{share:.1} %"), blocks.to_string(), name]);
    };
    let shown = if groups.len() > ROWS + 1 { ROWS } else { groups.len() };
    for group in &groups[..shown] {
        row(group.allocated_bytes, group.blocks, group.name.clone());
    }
    let (hidden, count) = (&groups[shown..], groups.len() - shown);
    if count > 0 {
        let size_bytes = hidden.iter().map(|group| group.allocated_bytes).sum();
        let blocks = hidden.iter().map(|group| group.blocks).sum();
        row(size_bytes, blocks, format!("{count} others"));
    }
    table.render()
}

fn falls(peak: &ExplainedPeak) -> String {
    let mut text = format!(
        "\npeak: {} live, {} reserved; by how much it falls without the largest, replayed:\n",
        bytes::show(peak.peaks.live_bytes),
        bytes::show(peak.peaks.reserved_bytes)
    );
    if peak.without.is_empty() {
        text.push_str("no code is known: the run has no stacks at its peak\n");
        return text;
    }
    let heads = [
        ">at the peak",
        ">never allocated: live",
        ">reserved",
        ">freed early: live",
        ">reserved",
        "code",
    ];
    let mut table = Table::new(&heads);
    for without in &peak.without {
        let change = |before: u64, after: u64| match before.checked_sub(after) {
            Some(fall) => format!("-{}", bytes::show(fall)),
            None => format!("+{}", bytes::show(after - before)),
        };
        let live = |after| change(peak.peaks.live_bytes, after);
        let reserved = |after| change(peak.peaks.reserved_bytes, after);
        table.row([
            bytes::show(without.allocated_bytes),
            live(without.dropped.live_bytes),
            reserved(without.dropped.reserved_bytes),
            live(without.freed_early.live_bytes),
            reserved(without.freed_early.reserved_bytes),
            without.code.clone(),
        ]);
    }
    text.push_str(&table.render());
    text
}
