//! An edit as people write it: `drop:logits`, `scale:0.5:attention`, `merge-stream:7=0`, `free-after:100:logits`.

use std::fmt;
use std::str::FromStr;

use trace_format::Stream;

use models::model_settings::duration;

/// One change of the program's requests. A pattern means every allocation with the text in a frame of its stack, as
/// `file:line name`.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// These allocations never happen.
    Drop {
        /// Which.
        pattern: String,
    },
    /// Sizes are multiplied.
    Scale {
        /// By what; more than 0.
        factor: f64,
        /// Which; all of them for `None`.
        pattern: Option<String>,
    },
    /// Work of one stream is done on another.
    MergeStream {
        /// The one.
        from: Stream,
        /// The other.
        to: Stream,
    },
    /// The last whole step happens more often.
    Repeat {
        /// How often more.
        times: u32,
        /// The name of the marks, or the code, at which steps begin; the marks of steps for `None`.
        steps: Option<String>,
    },
    /// Blocks are freed this delay after their last recorded use, where the run freed them later.
    FreeAfter {
        /// How long.
        delay: Delay,
        /// Which.
        pattern: String,
    },
}

/// How long after a block's last known use: after its allocation, or its last `record_stream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// That many requests of the device later.
    Requests(u64),
    /// That many nanoseconds of the run later.
    Time {
        /// How many.
        ns: u64,
    },
}

/// Text that is no edit: what is wrong, and what is right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(String);

/// How a kind of edit is written, and what it does.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The text before the colon.
    pub kind: &'static str,
    /// The text after it.
    pub argument: &'static str,
    /// Its effect.
    pub what: &'static str,
}

/// The edits there are.
pub const FORMS: [Form; 5] = [
    Form {
        kind: "drop",
        argument: "PATTERN",
        what: "allocations with PATTERN in a frame of their stack, as `file:line name`, never happen",
    },
    Form {
        kind: "scale",
        argument: "FACTOR[:PATTERN]",
        what: "sizes are multiplied, everywhere or where a frame has PATTERN",
    },
    Form {
        kind: "merge-stream",
        argument: "STREAM[=STREAM]",
        what: "the work of one stream is done on another, the default stream if none is named",
    },
    Form {
        kind: "repeat",
        argument: "TIMES[:STEP]",
        what: "the last whole step happens TIMES more often; steps begin at their marks, or at marks or code named \
               STEP",
    },
    Form {
        kind: "free-after",
        argument: "DELAY:PATTERN",
        what: "blocks are freed DELAY (100 requests, or 5ms) after their allocation or their last record_stream, where \
               the run freed them later: the most that freeing early could gain",
    },
];

/// As a person writes it.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.argument)
    }
}

impl FromStr for Edit {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(form) = FORMS.iter().find(|known| known.kind == kind) else {
            let known: Vec<_> = FORMS.iter().map(ToString::to_string).collect();
            return Err(RuleError(format!(
                "there is no edit `{kind}`; write {}",
                known.join(", ")
            )));
        };
        let parsed = match kind {
            "drop" => pattern(rest).map(|pattern| Self::Drop { pattern }),
            "scale" => scale(rest),
            "merge-stream" => merge_stream(rest),
            "repeat" => repeat(rest),
            _ => free_after(rest),
        };
        parsed.map_err(|reason| RuleError(format!("{reason}; write {form}")))
    }
}

fn pattern(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a pattern is missing, a part of a frame such as train.py:20".to_owned());
    }
    Ok(text.to_owned())
}

fn scale(text: &str) -> Result<Edit, String> {
    let (factor, rest) =
        text.split_once(':').map_or((text, None), |(factor, rest)| (factor, Some(rest)));
    let number = factor.trim().parse();
    let number = number.map_err(|_| format!("`{factor}` is not a factor such as 0.5"))?;
    Ok(Edit::Scale { factor: number, pattern: rest.map(pattern).transpose()? })
}

fn merge_stream(text: &str) -> Result<Edit, String> {
    let (from, to) = text.split_once('=').unwrap_or((text, "0"));
    Ok(Edit::MergeStream { from: stream(from)?, to: stream(to)? })
}

fn repeat(text: &str) -> Result<Edit, String> {
    let (times, rest) =
        text.split_once(':').map_or((text, None), |(times, rest)| (times, Some(rest)));
    let number = times.trim().parse().ok().filter(|times| (1..=10_000).contains(times));
    let times = number.ok_or_else(|| format!("`{times}` is not a number from 1 to 10000"))?;
    Ok(Edit::Repeat { times, steps: rest.map(pattern).transpose()? })
}

/// `31` or `0x1f`.
fn stream(text: &str) -> Result<Stream, String> {
    let number = match text.trim().strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => text.trim().parse(),
    };
    number.map(Stream).map_err(|_| format!("`{text}` is not a stream, such as 7 or 0x7f00"))
}

fn free_after(text: &str) -> Result<Edit, String> {
    let (delay, rest) = text.split_once(':').unwrap_or((text, ""));
    let parsed = match delay.trim().parse() {
        Ok(requests) => Delay::Requests(requests),
        Err(_) => Delay::Time {
            ns: duration(delay.trim()).map_err(|_| {
                format!("`{delay}` is neither a number of requests nor a time such as 5ms")
            })?,
        },
    };
    Ok(Edit::FreeAfter { delay: parsed, pattern: pattern(rest)? })
}

/// As it is written.
impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drop { pattern } => write!(f, "drop:{pattern}"),
            Self::Scale { factor, pattern: None } => write!(f, "scale:{factor}"),
            Self::Scale { factor, pattern: Some(pattern) } => {
                write!(f, "scale:{factor}:{pattern}")
            }
            Self::MergeStream { from, to } => write!(f, "merge-stream:{from}={to}"),
            Self::Repeat { times, steps: None } => write!(f, "repeat:{times}"),
            Self::Repeat { times, steps: Some(steps) } => write!(f, "repeat:{times}:{steps}"),
            Self::FreeAfter { delay: Delay::Requests(requests), pattern } => {
                write!(f, "free-after:{requests}:{pattern}")
            }
            Self::FreeAfter { delay: Delay::Time { ns }, pattern } => {
                write!(f, "free-after:{ns}ns:{pattern}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_read_as_it_is_written() {
        let pattern = || "train.py:20 log".to_owned();
        let (from, to) = (Stream(0x1f), Stream(2));
        for (text, edit) in [
            ("drop:train.py:20 log", Edit::Drop { pattern: pattern() }),
            ("scale:0.5", Edit::Scale { factor: 0.5, pattern: None }),
            ("scale:2:train.py:20 log", Edit::Scale { factor: 2.0, pattern: Some(pattern()) }),
            ("merge-stream:0x1f", Edit::MergeStream { from, to: Stream(0) }),
            ("merge-stream:31=0x2", Edit::MergeStream { from, to }),
            ("repeat:20", Edit::Repeat { times: 20, steps: None }),
            ("repeat:3:train.py:20 log", Edit::Repeat { times: 3, steps: Some(pattern()) }),
            (
                "free-after:0:train.py:20 log",
                Edit::FreeAfter { delay: Delay::Requests(0), pattern: pattern() },
            ),
            (
                "free-after:5ms:train.py:20 log",
                Edit::FreeAfter { delay: Delay::Time { ns: 5_000_000 }, pattern: pattern() },
            ),
        ] {
            assert_eq!(text.parse(), Ok(edit.clone()), "{text}");
            assert_eq!(edit.to_string().parse(), Ok(edit), "and as it is shown: {text}");
        }
    }

    #[test]
    fn an_invalid_edit_is_refused_with_the_right_form() {
        for (text, form) in [
            ("halve:x", "scale:FACTOR[:PATTERN], merge-stream"),
            ("", "there is no edit ``"),
            ("drop", "drop:PATTERN"),
            ("drop:", "a pattern is missing"),
            ("scale:half", "`half` is not a factor"),
            ("scale:0.5:", "a pattern is missing"),
            ("merge-stream:a=b", "`a` is not a stream"),
            ("merge-stream:7=", "`` is not a stream"),
            ("repeat", "`` is not a number from 1 to 10000"),
            ("repeat:0", "repeat:TIMES[:STEP]"),
            ("repeat:2:", "a pattern is missing"),
            ("free-after:100", "a pattern is missing"),
            ("free-after:5min:x", "free-after:DELAY:PATTERN"),
        ] {
            let error = text.parse::<Edit>().unwrap_err().to_string();
            assert!(error.contains(form), "{text}: {error}");
        }
    }
}
