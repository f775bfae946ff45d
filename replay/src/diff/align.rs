//! Which code of one run is which code of another, whose lines may have moved.

use std::collections::BTreeMap;

use crate::holders::{Code, HolderKind};

/// Functions and files of a code's frames. Folders differ between checkouts, so a file is its last component.
type Key<'c> = (HolderKind, Vec<(&'c str, &'c str)>);

/// Both places of each code. Of code in the same functions, equal lines are matched where the runs have different
/// numbers of them; the rest is matched in the order of the lines.
pub(super) fn align(before: &[Code], after: &[Code]) -> Vec<(Option<usize>, Option<usize>)> {
    let mut groups: BTreeMap<Key<'_>, [Vec<usize>; 2]> = BTreeMap::new();
    for (run, codes) in [before, after].into_iter().enumerate() {
        for (at, code) in codes.iter().enumerate() {
            groups.entry(key(code)).or_default()[run].push(at);
        }
    }
    let mut pairs = Vec::new();
    for [mut one, mut other] in groups.into_values() {
        one.sort_by_key(|at| lines(&before[*at]));
        other.sort_by_key(|at| lines(&after[*at]));
        if one.len() != other.len() {
            one.retain(|at| {
                let is_same = |place: &usize| lines(&after[*place]) == lines(&before[*at]);
                let Some(found) = other.iter().position(is_same) else { return true };
                pairs.push((Some(*at), Some(other.remove(found))));
                false
            });
        }
        let count = one.len().max(other.len());
        pairs.extend((0..count).map(|at| (one.get(at).copied(), other.get(at).copied())));
    }
    pairs
}

fn key(code: &Code) -> Key<'_> {
    let frame = |file: &'_ str| file.rsplit('/').next().map_or(0, str::len);
    let frames = code.frames.iter().map(|it| {
        let file = &it.file[it.file.len() - frame(&it.file)..];
        (it.function.as_str(), file)
    });
    (code.kind, frames.collect())
}

fn lines(code: &Code) -> Vec<u32> {
    code.frames.iter().map(|frame| frame.line).collect()
}
