//! Pinned host memory in words: at the end of a program that ran out of it, and at any moment.

use std::fmt::Write;

use replay::explain::Explanation;
use replay::host_memory::{HostHolder, HostOutOfMemory};

use super::run_text::steps;
use crate::bytes::show;

/// Rows of code that are printed.
const HOLDERS_MAX: usize = 5;

/// The verdict, its numbers, and what to try.
pub(super) fn out_of_memory(oom: &HostOutOfMemory) -> String {
    let mut text = format!("{}: {}\n", oom.verdict, oom.why);
    if !oom.arithmetic.is_empty() {
        text.push_str(&steps(&oom.arithmetic));
    }
    text.push_str("\nto try first:\n");
    for what in &oom.try_first {
        let _ = writeln!(text, "- {what}");
    }
    text.push('\n');
    text
}

/// Pinned host memory and the code that holds it, if the run has readings of it.
pub(super) fn memory(explanation: &Explanation) -> String {
    let Some(host) = explanation.host_memory else { return String::new() };
    let mut text = format!("\npinned host memory: {}\n", host.at(explanation.host_memory_then));
    let holders = &explanation.host_holders;
    for HostHolder { label, size_bytes, blocks } in holders.iter().take(HOLDERS_MAX) {
        let plural = if *blocks == 1 { "" } else { "s" };
        let _ = writeln!(text, "{:>12}  {label} ({blocks} block{plural})", show(*size_bytes));
    }
    if let Some(others) = holders.len().checked_sub(HOLDERS_MAX).filter(|others| *others > 0) {
        let rest: u64 = holders[HOLDERS_MAX..].iter().map(|holder| holder.size_bytes).sum();
        let _ = writeln!(text, "{:>12}  {others} others", show(rest));
    }
    text
}
