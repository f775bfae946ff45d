//! The code that holds memory, as a short table.

use std::fmt::Write;

use replay::holders::{Holder, MomentHolders, RunHolders};

use crate::bytes;

/// Rows of a table that name code.
const ROWS: usize = 8;
/// Moments of no memory that have a table.
const OOM_TABLES: usize = 2;

/// A table for the peak and one for each of the first times out of memory; or the note that there are no stacks.
pub(crate) fn text(holders: &RunHolders) -> String {
    if let Some(note) = &holders.note {
        return format!("{note}\n");
    }
    let mut text = String::new();
    if let Some(peak) = &holders.peak {
        text.push_str(&table("at the peak", peak));
    }
    for (at, oom) in holders.ooms.iter().take(OOM_TABLES).enumerate() {
        let when = if at == 0 { "at the first out of memory" } else { "at the second" };
        text.push('\n');
        text.push_str(&table(when, oom));
    }
    match holders.ooms_total.saturating_sub(OOM_TABLES as u64) {
        0 => {}
        more => {
            let listed = holders.ooms.len().saturating_sub(OOM_TABLES);
            let _ = writeln!(text, "and {more} more times out of memory: --json lists {listed}");
        }
    }
    text
}

/// The holders at one moment.
pub(crate) fn table(when: &str, moment: &MomentHolders) -> String {
    let mut text = format!("largest holders {when} ({})\n", bytes::show(moment.allocated_bytes));
    let is_named = |row: &&Holder| !row.kind.is_unattributed();
    let (shown, hidden) = {
        let named: Vec<&Holder> = moment.rows.iter().filter(is_named).collect();
        let shown = if named.len() > ROWS + 1 { ROWS } else { named.len() };
        (named[..shown].to_vec(), named[shown..].to_vec())
    };
    let mut line = |size_bytes: u64, words: &str| {
        let share = 100.0 * size_bytes as f64 / moment.allocated_bytes.max(1) as f64;
        let size = bytes::show(size_bytes);
        let _ = writeln!(text, "{}", format!("  {size:>11}  {share:>5.1} %  {words}").trim_end());
    };
    for row in shown {
        line(row.allocated_bytes, &words(row));
    }
    if !hidden.is_empty() {
        let hidden_bytes = hidden.iter().map(|row| row.allocated_bytes).sum();
        let others: u64 = hidden.iter().map(|row| row.holders).sum();
        line(hidden_bytes, &format!("{others} others"));
    }
    for row in moment.rows.iter().filter(|row| row.kind.is_unattributed()) {
        line(row.allocated_bytes, &words(row));
    }
    if let Some(refused) = &moment.refused {
        let size = bytes::show(refused.requested_bytes);
        let callers = if refused.callers.is_empty() { "" } else { " < " };
        let _ =
            writeln!(text, "  refused: {size} for {}{callers}{}", refused.label, refused.callers);
    }
    text
}

/// The code, its callers and what its blocks hold.
fn words(row: &Holder) -> String {
    let mut words = row.label.clone();
    if !row.callers.is_empty() {
        words = format!("{words} < {}", row.callers);
    }
    if row.stacks_total > 1 {
        words = format!("{words} (largest of {} stacks)", row.stacks_total);
    }
    let said = row.categories.iter().filter(|(name, _)| **name != "other");
    let mut said: Vec<_> =
        said.map(|(name, size_bytes)| (*size_bytes, name.replace('_', " "))).collect();
    said.sort_by(|a, b| b.cmp(a));
    let held = |(size_bytes, name): (u64, String)| {
        if size_bytes == row.allocated_bytes {
            return name;
        }
        format!("{name} {}", bytes::show(size_bytes))
    };
    if said.is_empty() {
        return words;
    }
    let said: Vec<_> = said.into_iter().map(held).collect();
    format!("{words} [{}]", said.join(", "))
}
