//! `--fail-on peak:+2%,reserved:+1GiB`: how much more a run may use than another.

use std::str::FromStr;

use replay::diff::{Pair, RunDiff};
use serde::Serialize;
use settings::parse_bytes_with_unit;

use crate::bytes;

/// The limits of one flag, in their order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Limits(Vec<Limit>);

/// One limit.
#[derive(Clone, Debug, PartialEq)]
struct Limit {
    figure: Figure,
    growth: Growth,
    text: String,
}

/// A figure of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Figure {
    Peak,
    Reserved,
    Step,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Growth {
    Percent(f64),
    Bytes(u64),
}

/// A limit that was exceeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Exceeded {
    figure: Figure,
    limit: String,
    #[serde(flatten)]
    bytes: Pair,
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(Limit::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Limit {
    fn parse(part: &str) -> Result<Self, String> {
        let part = part.trim();
        let wrong = |why: &str| format!("`{part}`: {why}");
        let Some((name, growth)) = part.split_once(':') else {
            return Err(wrong("write a figure and its growth, such as peak:+2%"));
        };
        let figure = match name.trim() {
            "peak" => Figure::Peak,
            "reserved" => Figure::Reserved,
            "step" => Figure::Step,
            other => {
                return Err(wrong(&format!(
                    "no figure is called {other:?}: peak, reserved or step"
                )));
            }
        };
        let size = growth.trim().trim_start_matches('+').trim();
        let growth = match size.strip_suffix('%') {
            Some(percent) => {
                let number = percent.trim().parse::<f64>();
                let number = number.ok().filter(|number| number.is_finite() && *number >= 0.0);
                let why = format!("{percent:?} is no number of percent of at least 0");
                Growth::Percent(number.ok_or_else(|| wrong(&why))?)
            }
            None if size == "0" => Growth::Bytes(0),
            None => Growth::Bytes(
                parse_bytes_with_unit(size)
                    .map_err(|why| wrong(&format!("{why}; or write a percentage, such as +2%")))?,
            ),
        };
        Ok(Self { figure, growth, text: part.to_owned() })
    }

    fn allows(&self, bytes: Pair) -> bool {
        let grown_bytes = bytes.grown_bytes();
        match self.growth {
            Growth::Bytes(allowed) => grown_bytes <= i128::from(allowed),
            Growth::Percent(percent) => {
                grown_bytes as f64 * 100.0 <= percent * bytes.before_bytes as f64
            }
        }
    }
}

impl Limits {
    /// Those that a difference exceeds.
    ///
    /// # Errors
    /// When a run does not have a figure.
    pub(crate) fn exceeded(&self, diff: &RunDiff) -> Result<Vec<Exceeded>, String> {
        let mut exceeded = Vec::new();
        for limit in &self.0 {
            let (bytes, without) = match limit.figure {
                Figure::Peak => (Some(diff.peak), ""),
                Figure::Reserved => {
                    (diff.reserved, "no segments, as logs of other tools have none")
                }
                Figure::Step => (diff.step, "no two marks of steps: vramtape.step() makes them"),
            };
            let Some(bytes) = bytes else {
                return Err(format!("--fail-on {}: a run has {without}", limit.text));
            };
            if !limit.allows(bytes) {
                let (figure, limit) = (limit.figure, limit.text.clone());
                exceeded.push(Exceeded { figure, limit, bytes });
            }
        }
        Ok(exceeded)
    }
}

impl Exceeded {
    /// `peak:+2% is exceeded: 9.00 MiB instead of 8.00 MiB`.
    pub(crate) fn sentence(&self) -> String {
        let Pair { before_bytes, after_bytes } = self.bytes;
        let (after, before) = (bytes::show(after_bytes), bytes::show(before_bytes));
        format!("{} is exceeded: {after} instead of {before}", self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Result<Limits, String> {
        text.parse()
    }

    #[test]
    fn a_bad_part_is_named() {
        for (text, why) in [
            ("peak:+2%,size:+1GiB", "`size:+1GiB`: no figure is called \"size\""),
            ("peak", "`peak`: write a figure and its growth"),
            ("peak:+2%,", "``: write a figure"),
            ("reserved:+1", "`reserved:+1`: 1 has no unit: write 1GiB"),
            ("peak:+x%", "`peak:+x%`: \"x\" is no number"),
            ("peak:-2%", "`peak:-2%`: \"-2\" is no number of percent of at least 0"),
            ("peak:NaN%", "`peak:NaN%`"),
        ] {
            let error = limits(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_limit_is_exceeded_by_a_byte_more() {
        let limit = |text: &str| Limit::parse(text).unwrap();
        let pair = |before_bytes, after_bytes| Pair { before_bytes, after_bytes };
        assert!(
            limit("peak:+2%").allows(pair(100, 102)) && !limit("peak:+2%").allows(pair(100, 103))
        );
        assert!(
            limit("peak:+1KiB").allows(pair(7, 1031)) && !limit("peak:+1KiB").allows(pair(7, 1032))
        );
        assert!(limit("step:0").allows(pair(7, 3)) && !limit("step:0").allows(pair(7, 8)));
        assert!(!limit("peak:50%").allows(pair(0, 1)), "anything is more than nothing");
    }
}
