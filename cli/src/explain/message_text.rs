//! Messages in words: the verdict, the numbers that prove it, and what to try.

use std::fmt::Write;

use replay::message::{Message, Process, Report, Stated};

use crate::bytes;
use crate::table::Table;

/// Messages with all their numbers; the others have a line each.
const IN_FULL: usize = 3;
/// Messages of one line.
const IN_LINES: usize = 20;
/// Processes that are listed.
const PROCESSES: usize = 12;

/// The names of the fields in the table.
const NAMES: [(&str, &str); 10] = [
    ("requested_bytes", "request"),
    ("capacity_bytes", "capacity"),
    ("free_bytes", "free"),
    ("allowed_bytes", "limit"),
    ("allocated_bytes", "allocated"),
    ("reserved_bytes", "reserved"),
    ("reserved_unallocated_bytes", "reserved but unallocated"),
    ("private_pool_bytes", "allocated in private pools"),
    ("process_bytes", "this process"),
    ("other_allocations_bytes", "other allocations"),
];

/// All messages of a text.
pub(super) fn text(report: &Report) -> String {
    if report.messages.is_empty() {
        return nothing(report);
    }
    let mut text = String::new();
    let (full, rest) = report.messages.split_at(report.messages.len().min(IN_FULL));
    let total: u64 = report.messages.iter().map(|message| message.count).sum();
    if report.messages.len() > 1 {
        let _ = writeln!(text, "{total} messages, {} of them distinct\n", report.messages.len());
    }
    for (at, message) in full.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        text.push_str(&in_full(message));
    }
    if !rest.is_empty() {
        text.push('\n');
    }
    for message in rest.iter().take(IN_LINES) {
        let _ = writeln!(text, "{}: {} ({})", place(message), sentence(message), source(message));
    }
    let hidden = rest.len().saturating_sub(IN_LINES);
    if hidden > 0 {
        let _ = writeln!(text, "and {hidden} more: --json lists them");
    }
    if report.left_out > 0 {
        let _ = writeln!(text, "{} further messages differ and are not listed", report.left_out);
    }
    text
}

/// Of a text without a message.
fn nothing(report: &Report) -> String {
    let mut text = "no out-of-memory message of a known program was recognized\n".to_owned();
    if !report.sizes.is_empty() {
        let _ = writeln!(text, "sizes in the text: {}", report.sizes.join(", "));
    }
    text.push_str("docs/explain.md lists the programs whose messages are known\n");
    text
}

/// `Capacity: 8.84 GiB are live ...`.
fn sentence(message: &Message) -> String {
    format!("{}: {}", message.verdict, message.why)
}

fn source(message: &Message) -> String {
    format!("{}, {}", message.framework, message.generation)
}

/// `line 12, 3 times`.
fn place(message: &Message) -> String {
    match message.count {
        1 => format!("line {}", message.line),
        count => format!("line {}, {count} times", message.line),
    }
}

fn in_full(message: &Message) -> String {
    let mut text = format!("{}\n", sentence(message));
    if !message.also.is_empty() {
        let also: Vec<_> = message.also.iter().map(|verdict| verdict.name()).collect();
        let _ = writeln!(text, "also possible: {}", also.join(", "));
    }
    let device = match message.fields.device {
        Stated::As(number) => format!(", device {number}"),
        Stated::Not | Stated::Sentinel => String::new(),
    };
    let _ = writeln!(text, "message: {}, {}{device}", source(message), place(message));
    if let Some(table) = numbers(message) {
        text.push('\n');
        text.push_str(&table);
    }
    for (head, lines) in
        [("Try first:", &message.advice.try_first), ("To know more:", &message.advice.record)]
    {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{head}");
        }
        for line in lines {
            let _ = writeln!(text, "- {line}");
        }
    }
    text
}

/// The numbers of the message and those that follow from them.
fn numbers(message: &Message) -> Option<String> {
    let mut table = Table::new(&["memory", ">size", "source"]);
    let mut rows = 0;
    let mut row = |name: String, size: String, source: &str| {
        table.row([name, size, source.to_owned()]);
        rows += 1;
    };
    let named = message.fields.named();
    for (field, name) in NAMES {
        let stated = named
            .iter()
            .find(|(known, _)| *known == field)
            .map_or(Stated::Not, |(_, stated)| *stated);
        match stated {
            Stated::As(size) => row(name.to_owned(), bytes::show(size), "message"),
            Stated::Sentinel => row(name.to_owned(), "not known".to_owned(), "message"),
            Stated::Not => {}
        }
    }
    let mut listed: Vec<&Process> = message.processes.iter().collect();
    listed.sort_by_key(|process| std::cmp::Reverse(process.bytes));
    for process in listed.iter().take(PROCESSES) {
        let size = process.bytes.map_or("not known".to_owned(), bytes::show);
        row(format!("process {}", process.pid), size, "message");
    }
    if listed.len() > PROCESSES {
        let rest = listed[PROCESSES..].iter().filter_map(|process| process.bytes).sum();
        row(format!("{} more processes", listed.len() - PROCESSES), bytes::show(rest), "message");
    }
    for step in &message.arithmetic {
        row(step.name.to_owned(), bytes::show(step.bytes), step.how);
    }
    (rows > 0).then(|| table.render())
}
