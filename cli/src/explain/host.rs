//! Pinned host memory in words: at the end of a program that ran out of it, and at any moment.

use std::fmt::Write;

use replay::explain::Explanation;
use replay::host_memory::HostOutOfMemory;

use super::run_text::steps;

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

/// Pinned host memory, if the run has its statistics.
pub(super) fn memory(explanation: &Explanation) -> String {
    let Some(host) = explanation.host_memory else { return String::new() };
    format!("\npinned host memory: {}\n", host.at(explanation.host_memory_then))
}
