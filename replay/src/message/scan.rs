//! Finds messages in a stream of any length: a window of squashed text slides over it, and equal messages are counted.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::fields::Fields;
use super::patterns::{self, Candidate, Rules};
use super::squash::Squashed;
use super::{mention, pytorch};

/// Squashed bytes that are searched at once.
const WINDOW: usize = 1 << 20;
/// The longest message, of a device with hundreds of processes.
const LONGEST: usize = 1 << 15;
/// Squashed bytes kept before the window: a message begins up to this far before its anchor.
const BEFORE: usize = 1 << 10;
/// Squashed bytes between an error's words and a message, or other words, that belong together.
const BESIDE: usize = 40;
/// The same on one line.
const BESIDE_ON_LINE: usize = 300;
/// Distinct messages that are kept; further ones are counted.
const DISTINCT: usize = 1000;

/// All anchors, the longer first where one begins another.
static ANCHORS: LazyLock<Regex> = LazyLock::new(|| {
    let mut words: Vec<&str> =
        patterns::anchors().chain(pytorch::ANCHORS).chain(mention::ANCHORS).collect();
    words.sort_unstable_by_key(|words| (std::cmp::Reverse(words.len()), *words));
    words.dedup();
    let words: Vec<String> = words.into_iter().map(regex::escape).collect();
    Regex::new(&words.join("|")).expect("literals compile")
});

/// A distinct message of a stream.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) framework: &'static str,
    pub(super) generation: &'static str,
    pub(super) rules: Rules,
    pub(super) fields: Fields,
    /// Where the first one begins.
    pub(super) byte_offset: u64,
    /// Its line, from 1.
    pub(super) line: u64,
    /// How many there are.
    pub(super) count: u64,
}

/// An error's words that may belong to the message after it.
#[derive(Debug)]
struct Pending {
    candidate: Candidate,
    byte_offset: u64,
    line: u64,
    /// Its end in the whole squashed stream, and the line of that.
    end: u64,
    end_line: u64,
}

/// A search under way.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    squashed: Squashed,
    /// Squashed bytes dropped from the window.
    dropped: u64,
    /// Where the search goes on in the window.
    next: usize,
    /// The end of the last message with numbers, its line, and its framework.
    last: Option<(u64, u64, &'static str)>,
    pending: Option<Pending>,
    found: Vec<Found>,
    known: HashMap<(&'static str, &'static str, Fields), usize>,
    left_out: u64,
}

impl Scanner {
    /// Searches the next part of the stream.
    pub(super) fn push(&mut self, part: &[u8]) {
        for part in part.chunks(WINDOW) {
            self.squashed.push(part);
            if self.squashed.text.len() >= WINDOW {
                self.search(self.squashed.text.len() - LONGEST);
            }
        }
    }

    /// Searches the rest: the messages by place, and the number of further distinct ones.
    pub(super) fn finish(mut self) -> (Vec<Found>, u64) {
        self.search(self.squashed.text.len());
        if let Some(pending) = self.pending.take() {
            self.keep(pending.candidate, pending.byte_offset, pending.line);
        }
        self.found.sort_by_key(|found| found.byte_offset);
        (self.found, self.left_out)
    }

    /// Searches for anchors before `end` of the window, and drops what is done.
    fn search(&mut self, end: usize) {
        // Taken out, so that findings can be kept meanwhile.
        let squashed = std::mem::take(&mut self.squashed);
        let text = &squashed.text[..];
        while let Some(anchor) =
            ANCHORS.find_at(text, self.next).filter(|anchor| anchor.start() < end)
        {
            let words = anchor.as_bytes();
            let message = if pytorch::ANCHORS.iter().any(|known| known.as_bytes() == words) {
                pytorch::parse(text, anchor.start())
            } else {
                patterns::parse(text, anchor.start(), words)
            };
            let is_error = || mention::is_error(words, &text[..anchor.start()]);
            let message = message.or_else(|| {
                let place = (anchor.start(), anchor.end());
                is_error().then(|| mention::parse(text, place, line_around(&squashed, place)))
            });
            self.next = anchor.end();
            if let Some(message) = message {
                self.next = self.next.max(message.end);
                self.add(&squashed, message);
            }
        }
        let done = end.max(self.next).min(text.len()).saturating_sub(BEFORE);
        self.next = self.next.max(end).min(text.len()) - done;
        self.dropped += done as u64;
        self.squashed = squashed;
        self.squashed.drop_front(done);
    }

    /// Joins a finding with the one before where both are of one message.
    fn add(&mut self, squashed: &Squashed, message: Candidate) {
        let byte_offset = squashed.offset(message.start);
        let line = squashed.line(byte_offset);
        let (start, end) = (self.dropped + message.start as u64, self.dropped + message.end as u64);
        let end_line = squashed.line(squashed.offset(message.end.saturating_sub(1)));
        let is_beside = |(place, on): (u64, u64)| {
            let gap = start.saturating_sub(place);
            gap <= BESIDE as u64 || (on == line && gap <= BESIDE_ON_LINE as u64)
        };
        let before = self.pending.take();
        if message.generation != mention::GENERATION {
            self.last = Some((end, end_line, message.framework));
            match before {
                Some(before)
                    if is_beside((before.end, before.end_line))
                        && (before.end_line == line
                            || mention::belongs(&before.candidate, message.framework)) =>
                {
                    return self.keep(message, before.byte_offset, before.line);
                }
                Some(before) => self.keep(before.candidate, before.byte_offset, before.line),
                None => {}
            }
            return self.keep(message, byte_offset, line);
        }
        let is_part = |(place, on, framework): (u64, u64, &str)| {
            is_beside((place, on)) && (on == line || mention::belongs(&message, framework))
        };
        if self.last.is_some_and(is_part) {
            if let Some(before) = before {
                self.keep(before.candidate, before.byte_offset, before.line);
            }
            return;
        }
        let pending = match before {
            Some(before) if before.end_line == line && is_beside((before.end, before.end_line)) => {
                let is_better = mention::rank(&message) < mention::rank(&before.candidate);
                let candidate = if is_better { message } else { before.candidate };
                Pending { candidate, end, end_line, ..before }
            }
            before => {
                if let Some(before) = before {
                    self.keep(before.candidate, before.byte_offset, before.line);
                }
                Pending { candidate: message, byte_offset, line, end, end_line }
            }
        };
        self.pending = Some(pending);
    }

    fn keep(&mut self, message: Candidate, byte_offset: u64, line: u64) {
        let Candidate { framework, generation, rules, fields, .. } = message;
        let key = (framework, generation, fields);
        if let Some(at) = self.known.get(&key) {
            self.found[*at].count += 1;
        } else if self.found.len() == DISTINCT {
            self.left_out += 1;
        } else {
            let fields = key.2.clone();
            self.known.insert(key, self.found.len());
            let count = 1;
            self.found.push(Found {
                framework,
                generation,
                rules,
                fields,
                byte_offset,
                line,
                count,
            });
        }
    }
}

/// The line of an error's words, as far as it may name the program.
fn line_around(squashed: &Squashed, (start, end): (usize, usize)) -> &[u8] {
    let line = squashed.line_span(start);
    let from = line.start.max(start.saturating_sub(mention::AROUND));
    let to = line.end.min(end + mention::AROUND).max(end);
    &squashed.text[from..to]
}
