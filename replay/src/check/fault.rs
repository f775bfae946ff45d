//! Faults of a snapshot.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
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

/// Faults that differ in nothing but numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultGroup {
    /// The first of them.
    pub first: Fault,
    /// How many there are.
    pub count: u64,
    /// Where the next ones are: a few.
    pub more_places: Vec<String>,
}

/// All faults of a snapshot; the first of them in full.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    kept: Vec<Fault>,
    total: u64,
    groups: Vec<FaultGroup>,
    /// Where each group is: its rule, place and words, without numbers.
    group_at: HashMap<(Rule, String), usize>,
}

/// Faults kept in full; one mistake in a writer makes millions.
const KEPT: usize = 100;
/// Groups kept; the faults of others count in the total only.
const GROUPS: usize = 100;
/// Places of a group after the first.
const MORE_PLACES: usize = 2;

impl Faults {
    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The first hundred.
    pub fn first(&self) -> &[Fault] {
        &self.kept
    }

    /// The faults in groups, in the order of the first of each.
    pub fn groups(&self) -> &[FaultGroup] {
        &self.groups
    }

    pub(super) fn add(&mut self, rule: Rule, place: impl fmt::Display, what: impl fmt::Display) {
        self.total += 1;
        let fault = Fault { place: place.to_string(), rule, what: what.to_string() };
        self.add_to_group(&fault);
        if self.kept.len() < KEPT {
            self.kept.push(fault);
        }
    }

    fn add_to_group(&mut self, fault: &Fault) {
        let words = without_numbers(&format!("{}: {}", fault.place, fault.what));
        let next = self.groups.len();
        match self.group_at.entry((fault.rule, words)) {
            Entry::Occupied(known) => {
                let group = &mut self.groups[*known.get()];
                group.count += 1;
                if group.more_places.len() < MORE_PLACES {
                    group.more_places.push(fault.place.clone());
                }
            }
            Entry::Vacant(new) if next < GROUPS => {
                new.insert(next);
                let first = fault.clone();
                self.groups.push(FaultGroup { first, count: 1, more_places: Vec::new() });
            }
            Entry::Vacant(_) => {}
        }
    }
}

/// The text with one `N` for every run of digits.
fn without_numbers(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for letter in text.chars() {
        if !letter.is_ascii_digit() {
            words.push(letter);
        } else if !words.ends_with('N') {
            words.push('N');
        }
    }
    words
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
