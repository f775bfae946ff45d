//! Faults of a snapshot.

use std::fmt;

use thiserror::Error;

/// Something wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {rule}: {what}")]
pub struct Fault {
    /// A path in the snapshot, or a byte of the file.
    pub place: String,
    /// The rule that is broken.
    pub rule: Rule,
    /// How it is broken.
    pub what: String,
}

/// A rule that readers rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Rule {
    /// Only opcodes of the viewer, protocols 2 to 4, batches of at most 1000.
    #[error("the viewer must be able to unpickle it")]
    Encoding,
    /// Keys and types.
    #[error("a key that a reader uses must be there and have its type")]
    Key,
    /// If any event has a category, one must be `unknown`.
    #[error("categories must include \"unknown\"")]
    Category,
    /// Blocks tile their segment, and its totals are their sums.
    #[error("the blocks of a segment must tile it and add up")]
    Tiling,
    /// Events of a device are in order of time.
    #[error("events must be in order of time")]
    Order,
    /// Going back from the final segments, every event finds what it needs.
    #[error("the trace must be undoable from the final segments")]
    Undo,
}

/// All faults of a snapshot; the first of them in full.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
    total: u64,
}

/// Faults kept in full; one mistake in a writer makes millions.
const KEPT: usize = 100;

impl Faults {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The first hundred.
    pub fn first(&self) -> &[Fault] {
        &self.kept
    }

    pub(super) fn add(&mut self, rule: Rule, place: impl fmt::Display, what: impl fmt::Display) {
        self.total += 1;
        if self.kept.len() < KEPT {
            self.kept.push(Fault { place: place.to_string(), rule, what: what.to_string() });
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.kept {
            writeln!(f, "{fault}")?;
        }
        match self.total - self.kept.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
