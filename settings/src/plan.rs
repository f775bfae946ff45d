//! A plan of `stitch`: the requests of a run, and where each is to be placed. Its file is text, a line for each
//! request:
//!
//! ```text
//! vramtape plan 1
//! sequence 0 2
//! 4194304 0 2
//! 2097152 4194304 -
//! end
//! ```
//!
//! A sequence has the number of its stream and of its requests; a request its size and its offset in bytes, and how
//! many requests of the sequence come before its block is reusable, or `-` where it never is. `#` starts a comment.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The first line.
const HEADER: &str = "vramtape plan 1";
/// The last line: a file without it is cut off.
const END: &str = "end";

/// Sizes and offsets are multiples of this, as blocks are.
const ALIGNMENT_BYTES: u64 = 512;

/// A request of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Bytes after rounding.
    pub size_bytes: u64,
    /// Where its block goes, from the start of the stream's addresses.
    pub offset_bytes: u64,
    /// Requests of the sequence that come before its block is reusable; `None` where it never is.
    pub freed_before: Option<u32>,
}

/// Requests in the order in which a stream makes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedSequence {
    /// 0 is the default stream, n the n-th other stream that makes a large request.
    pub stream: u32,
    /// The large requests.
    pub requests: Vec<PlannedRequest>,
}

/// The sequences of one or more runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each is followed by itself; those of a stream share its addresses.
    pub sequences: Vec<PlannedSequence>,
}

/// A line of a plan that is not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}; write the plan again with `vramtape plan`", self.line, self.problem)
    }
}

impl core::error::Error for PlanError {}

impl Plan {
    /// Requests that a stream can have: as many as the placement memory holds.
    pub const REQUESTS_MAX: usize = 1 << 17;

    /// Reads a plan.
    ///
    /// # Errors
    /// The first line that is not understood, or a stream with more than [`REQUESTS_MAX`](Self::REQUESTS_MAX) requests.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        let (mut missing, mut has_header, mut has_end) = (0_usize, false, false);
        let mut last = 0;
        for (at, line) in text.lines().enumerate() {
            last = at + 1;
            let wrong = |problem: &str| PlanError { line: at + 1, problem: problem.to_owned() };
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if has_end {
                return Err(wrong("nothing may follow the end"));
            }
            if !has_header {
                has_header = line == HEADER;
                if !has_header {
                    return Err(wrong(&format!("a plan starts with `{HEADER}`")));
                }
            } else if missing > 0 {
                let sequence = plan.sequences.last_mut().expect("a sequence began");
                sequence.requests.push(request(line).ok_or_else(|| {
                    wrong(
                        "expected a size and an offset, multiples of 512, and a number of requests or -",
                    )
                })?);
                missing -= 1;
            } else if line == END {
                has_end = true;
            } else {
                let (stream, count) = sequence(line)
                    .ok_or_else(|| wrong("expected `sequence STREAM REQUESTS` or `end`"))?;
                let earlier = plan.sequences.iter().filter(|one| one.stream == stream);
                let earlier: usize = earlier.map(|one| one.requests.len()).sum();
                if count > Self::REQUESTS_MAX - earlier {
                    let most = Self::REQUESTS_MAX;
                    return Err(wrong(&format!("a stream has {most} requests at most")));
                }
                missing = count;
                // The file may say more than it holds.
                plan.sequences.push(PlannedSequence { stream, requests: Vec::new() });
            }
        }
        if !has_end {
            return Err(PlanError { line: last, problem: "the file is cut off".to_owned() });
        }
        Ok(plan)
    }

    /// Where the addresses of a stream end, from their start.
    pub fn height_bytes(&self, stream: u32) -> u64 {
        let own = self.sequences.iter().filter(|sequence| sequence.stream == stream);
        let requests = own.flat_map(|sequence| &sequence.requests);
        requests.map(|request| request.offset_bytes + request.size_bytes).max().unwrap_or(0)
    }
}

fn sequence(line: &str) -> Option<(u32, usize)> {
    let mut words = line.strip_prefix("sequence ")?.split_whitespace();
    let stream = words.next()?.parse().ok()?;
    let count = words.next()?.parse().ok()?;
    words.next().is_none().then_some((stream, count))
}

fn request(line: &str) -> Option<PlannedRequest> {
    let mut words = line.split_whitespace();
    let size_bytes: u64 = words.next()?.parse().ok()?;
    let offset_bytes: u64 = words.next()?.parse().ok()?;
    let freed_before = match words.next()? {
        "-" => None,
        count => Some(count.parse().ok()?),
    };
    let is_whole = words.next().is_none() && offset_bytes.checked_add(size_bytes).is_some();
    let is_aligned =
        [size_bytes, offset_bytes].iter().all(|bytes| bytes.is_multiple_of(ALIGNMENT_BYTES));
    (is_whole && is_aligned && size_bytes > 0).then_some(PlannedRequest {
        size_bytes,
        offset_bytes,
        freed_before,
    })
}

/// As in its file.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for PlannedSequence { stream, requests } in &self.sequences {
            writeln!(f, "sequence {stream} {}", requests.len())?;
            for PlannedRequest { size_bytes, offset_bytes, freed_before } in requests {
                write!(f, "{size_bytes} {offset_bytes} ")?;
                match freed_before {
                    Some(count) => writeln!(f, "{count}")?,
                    None => writeln!(f, "-")?,
                }
            }
        }
        writeln!(f, "{END}")
    }
}

#[cfg(test)]
mod tests {
    use std::prelude::v1::*;

    use super::*;

    fn plan() -> Plan {
        let request = |size_bytes, offset_bytes, freed_before| PlannedRequest {
            size_bytes,
            offset_bytes,
            freed_before,
        };
        let requests = vec![request(4 << 20, 0, Some(2)), request(2 << 20, 4 << 20, None)];
        let second = vec![request(8 << 20, 0, Some(1))];
        Plan {
            sequences: vec![
                PlannedSequence { stream: 0, requests },
                PlannedSequence { stream: 1, requests: second },
            ],
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        assert_eq!(Plan::parse(&plan().to_string()), Ok(plan()));
        assert_eq!(plan().height_bytes(0), 6 << 20);
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        let text = plan().to_string().replace('\n', "  # of a run\n\n");
        assert_eq!(Plan::parse(&text), Ok(plan()));
    }

    #[test]
    fn what_is_no_plan_is_refused_with_its_line() {
        for (text, line, problem) in [
            ("", 0, "cut off"),
            ("a tape", 1, "starts with"),
            ("vramtape plan 1\nsequence 0 1\n1024 0 -", 3, "cut off"),
            ("vramtape plan 1\nsequence 0 2\n1024 0 -\nend", 4, "expected a size"),
            ("vramtape plan 1\nsequence 0 1\n1024 18446744073709551615 -\nend", 3, "a size"),
            ("vramtape plan 1\nsequence 0 1\n0 0 -\nend", 3, "a size"),
            ("vramtape plan 1\nsequence 0 1\n1024 0 1 1\nend", 3, "a size"),
            ("vramtape plan 1\nsequence 0 1\n1024 256 -\nend", 3, "multiples of 512"),
            ("vramtape plan 1\nsequence 0 1\n1000 0 -\nend", 3, "multiples of 512"),
            ("vramtape plan 1\nsequence 0 131073\n", 2, "at most"),
            ("vramtape plan 1\nend\nend", 3, "may follow"),
            ("vramtape plan 1\n1024 0 -", 2, "expected `sequence"),
        ] {
            let error = Plan::parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.to_string().contains(problem), "{text:?}: {error}");
        }
    }
}
