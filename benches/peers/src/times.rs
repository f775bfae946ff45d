//! One subject's times of one operation.

use std::fmt;

use serde::Serialize;

/// Nanoseconds over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(clippy::struct_field_names, reason = "the unit is a part of each")]
pub(crate) struct Times {
    /// The shortest.
    pub(crate) best_ns: f64,
    /// A quarter was shorter.
    pub(crate) lower_quartile_ns: f64,
    /// Half was shorter.
    pub(crate) median_ns: f64,
    /// Three quarters were shorter.
    pub(crate) upper_quartile_ns: f64,
}

impl Times {
    /// The order statistics of one time or more.
    pub(crate) fn of(mut ns: Vec<f64>) -> Self {
        ns.sort_by(f64::total_cmp);
        Self {
            best_ns: ns[0],
            lower_quartile_ns: ns[ns.len() / 4],
            median_ns: ns[ns.len() / 2],
            upper_quartile_ns: ns[ns.len() * 3 / 4],
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { best_ns, lower_quartile_ns, median_ns, upper_quartile_ns } = self;
        let quartiles = format!("{lower_quartile_ns:.1}-{upper_quartile_ns:.1}");
        write!(f, "{median_ns:>9.1}{quartiles:>18}{best_ns:>9.1}")
    }
}
