//! Out-of-memory messages of GPU programs: found in a text or a log, read into numbers, and judged.

mod advice;
mod fields;
mod grammar;
mod mention;
mod patterns;
mod pytorch;
mod rules;
mod scan;
mod squash;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Serialize;

pub use advice::Advice;
pub use fields::{Fields, ListedProcess, Stated};

use crate::source::{SourceError, each_part};
use oom::{OomVerdict, Step};
use scan::{Found, Scanner};

/// A message and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// The first rule that holds.
    pub verdict: OomVerdict,
    /// Other rules that hold.
    pub also: Vec<OomVerdict>,
    /// The reason, in words.
    pub why: String,
    /// The numbers of the message.
    pub fields: Fields,
    /// The numbers that follow from them.
    pub arithmetic: Vec<Step>,
    /// The listed processes, with their numbers.
    pub processes: Vec<Process>,
    /// The program or library, such as `pytorch-cuda`.
    pub framework: &'static str,
    /// The form of the text: a range of PyTorch's versions, or the kind of error.
    pub generation: &'static str,
    /// The byte at which the first one begins.
    pub byte_offset: u64,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// The number of equal messages.
    pub count: u64,
    /// What to try and to record.
    pub advice: Advice,
}

/// A process that a message lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its number in the process namespace of the driver.
    pub pid: u64,
    /// Its memory on the device; `None` where the driver does not state it.
    pub bytes: Option<u64>,
}

/// All messages of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The distinct messages by place; those with numbers first.
    pub messages: Vec<Message>,
    /// Distinct messages beyond the limit, which are not listed.
    pub left_out: u64,
    /// Of a text without a message: the sizes in it, as they are written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<String>,
}

/// Bytes at the start of a text in which sizes are listed if it has no message.
const HEAD_BYTES: usize = 1 << 16;
/// Sizes that are listed.
const SIZES: usize = 12;

/// The messages of a file, compressed or not; `-` is standard input. A log of any size is read once, a part at a time.
///
/// # Errors
/// When the file cannot be opened, read or decompressed.
pub fn read(path: &Path, trust_factor: u64) -> Result<Report, SourceError> {
    let mut scanner = Scanner::default();
    let mut head = Vec::new();
    each_part(path, trust_factor, |part| {
        head.extend_from_slice(&part[..part.len().min(HEAD_BYTES - head.len())]);
        scanner.push(part);
    })?;
    Ok(report(scanner, &head))
}

/// The messages of a text.
pub fn explain(text: &[u8]) -> Report {
    let mut scanner = Scanner::default();
    scanner.push(text);
    report(scanner, &text[..text.len().min(HEAD_BYTES)])
}

fn report(scanner: Scanner, head: &[u8]) -> Report {
    let (found, left_out) = scanner.finish();
    let mut messages: Vec<Message> = found.into_iter().map(message).collect();
    messages.sort_by_key(|message| message.generation == mention::GENERATION);
    let sizes = if messages.is_empty() { sizes(head) } else { Vec::new() };
    Report { messages, left_out, sizes }
}

fn message(found: Found) -> Message {
    let Found { framework, generation, rules, fields, byte_offset, line, count } = found;
    let judgement = rules::judge(&fields, rules);
    let advice = advice::advice(judgement.verdict, framework, generation, &fields);
    let of = |listed: &ListedProcess| Process { pid: listed.pid, bytes: listed.bytes };
    let processes = fields.processes.iter().map(of).collect();
    let rules::Judgement { verdict, also, why, steps } = judgement;
    Message {
        verdict,
        also,
        why,
        fields,
        arithmetic: steps,
        processes,
        framework,
        generation,
        byte_offset,
        line,
        count,
        advice,
    }
}

/// The first sizes of a text, as they are written.
fn sizes(head: &[u8]) -> Vec<String> {
    let size =
        regex::bytes::Regex::new(r"(?i-u)[0-9][0-9,]{0,20}(?:\.[0-9]{0,6})? ?(?:[KMGT]i?B|bytes)")
            .expect("compiles");
    let found = size.find_iter(head).take(SIZES);
    found.map(|size| String::from_utf8_lossy(size.as_bytes()).into_owned()).collect()
}
