//! PyTorch's caching allocators, 1.0 and later, on every backend that has their text: a request, then clauses that
//! state one number each. A writer may cut them anywhere, so each clause is found alone.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::fields::{Fields, Stated};
use super::grammar::compile;
use super::patterns::{Candidate, Rules};

/// The words with which a message begins, or goes on where its beginning was cut.
pub(super) const ANCHORS: [&str; 3] = ["triedtoallocate", "hasatotalcapac", "oftheallocatedmemory"];

/// Squashed bytes between two clauses: `...`, a prefix of a launcher such as `[rank0]:`.
const GAP: usize = 48;
/// The longest clause.
const CLAUSE: usize = 120;
/// Squashed bytes before the request that may name the backend.
const PREFIX: usize = 48;
/// Squashed bytes of the hint at the end.
const HINT: usize = 320;

const BACKENDS: [&str; 8] = ["cuda", "hip", "xpu", "npu", "mlu", "musa", "gcu", "mps"];

struct Grammar {
    request: Regex,
    /// `(GPU 0; 3.81 GiB total capacity; ...)`, until 2.0. The first word of a clause is enough: a writer may cut it.
    until_2_0: Regex,
    /// `GPU 0 has a total capacity of 23.69 GiB of which ...`, since 2.1.
    since_2_1: Regex,
    hint: Regex,
}

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar {
    request: compile(r"\A triedtoallocate{requested}"),
    until_2_0: compile(
        r"\([a-z]*{device#}; | {capacity}total | {allocated}already | {free}free | {allowed}allowed
        | {unallocated}cached | {reserved}reserved",
    ),
    since_2_1: compile(
        r"gpu{device#}?hasatotalcapaci?tyof{capacity} | ofwhich{free}
        | thisprocesshas{process}(?:memoryinuse)? | process{pid#}has{listed}(?:memoryinuse)?
        | {allowed}allowed; | oftheallocatedmemory{allocated}(?:isallocated)? | with{pool}allocatedin
        | and{unallocated}isr",
    ),
    hint: compile(
        r"ifreserved.{0,40}?trysetting(?:(?P<split>maxsplitsizemb)|pytorch(?P<variable>cuda|hip)?allocconf)
        (?:.{0,120}?\((?P<address>https?:[^)]*))?",
    ),
});

/// The message at an anchor; `None` where no number follows.
pub(super) fn parse(text: &[u8], anchor: usize) -> Option<Candidate> {
    let grammar = &*GRAMMAR;
    let mut fields = Fields::default();
    let (mut start, mut at) = (anchor, anchor);
    if let Some(groups) = grammar.request.captures(window(text, anchor, CLAUSE)) {
        fields.take(&groups);
        at += groups[0].len();
    } else if text[anchor..].starts_with(b"hasatotal") {
        // The number of the GPU is in front of this anchor.
        start = rfind(text, b"gpu", anchor.saturating_sub(8), anchor).unwrap_or(anchor);
        at = start;
    }
    let is_old = window(text, at, 4).contains(&b'(');
    let clauses = if is_old { &grammar.until_2_0 } else { &grammar.since_2_1 };
    while let Some(groups) = clauses.captures(window(text, at, GAP + CLAUSE)) {
        let clause = groups.get(0)?;
        let gap = window(text, at, clause.start());
        // Another request, or a number that is known already: the next message.
        if clause.start() > GAP || contains(gap, b"triedtoallocate") || !fields.take(&groups) {
            break;
        }
        at += clause.end();
    }
    if fields.is_empty() {
        return None;
    }
    let hint = grammar.hint.captures(window(text, at, HINT)).filter(|hint| {
        hint.get(0).is_some_and(|hint| !contains(window(text, at, hint.start()), b"outofmemory"))
    });
    let generation = if is_old {
        match (fields.reserved_unallocated_bytes, fields.reserved_bytes) {
            (Stated::Not, Stated::Not) => "1.x",
            (Stated::Not, _) if hint.is_some() => "1.10-2.0",
            (Stated::Not, _) => "1.4-1.9",
            _ => "1.0-1.3",
        }
    } else if contains(window(text, anchor, at - anchor), b"totalcapactyof") {
        "2.1"
    } else {
        let address = hint.as_ref().and_then(|hint| hint.name("address"));
        let variable = hint.as_ref().and_then(|hint| hint.name("variable"));
        match &hint {
            None => "2.2+",
            Some(_)
                if address.is_some_and(|link| contains(link.as_bytes(), b"docs.pytorch.org")) =>
            {
                "2.11+"
            }
            Some(_) if variable.is_none() => "2.9-2.10",
            Some(_) => "2.2-2.8",
        }
    };
    let (backend, begin) = backend(text, start);
    let end = at + hint.and_then(|hint| hint.get(0)).map_or(0, |hint| hint.end());
    Some(Candidate {
        start: begin,
        end,
        framework: backend,
        generation,
        rules: Rules::General,
        fields,
    })
}

/// The backend that `CUDA out of memory.` in front of the request names, and where that begins.
fn backend(text: &[u8], start: usize) -> (&'static str, usize) {
    let words = b"outofmemory";
    let Some(at) = rfind(text, words, start.saturating_sub(PREFIX), start) else {
        return ("pytorch", start);
    };
    let before = &text[..at];
    let name = BACKENDS.iter().find(|name| before.ends_with(name.as_bytes()));
    match name {
        Some(&"cuda") => ("pytorch-cuda", at - 4),
        Some(&"hip") => ("pytorch-hip", at - 3),
        Some(&"xpu") => ("pytorch-xpu", at - 3),
        Some(&"npu") => ("pytorch-npu", at - 3),
        Some(&"mps") => ("pytorch-mps", at - 3),
        Some(_) | None => ("pytorch", at),
    }
}

/// At most `length` bytes from `at`.
pub(super) fn window(text: &[u8], at: usize, length: usize) -> &[u8] {
    let at = at.min(text.len());
    &text[at..(at + length).min(text.len())]
}

/// Whether the words occur.
pub(super) fn contains(text: &[u8], words: &[u8]) -> bool {
    text.windows(words.len()).any(|found| found == words)
}

/// The last place of the words in a part of the text.
pub(super) fn rfind(text: &[u8], words: &[u8], from: usize, to: usize) -> Option<usize> {
    text[from..to].windows(words.len()).rposition(|found| found == words).map(|at| from + at)
}
