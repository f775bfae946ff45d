//! Stacks of groups, tile by tile: the largest groups of each tile, and what is left.

use rayon::prelude::*;

use crate::chunk::{Arrays, Chunk, unit_of};
use crate::columns::Level;
use crate::follow::{Change, Followed, Life, NO_END};
use crate::kinds::Kind;

/// Columns of a tile.
const TILE_COLUMNS: usize = 512;
/// Groups of a tile that are drawn by themselves.
const GROUPS_MAX: usize = 64;

/// Changes of groups, by the column from which each shows.
pub(crate) trait Changes {
    fn columns(&self) -> usize;

    /// The groups that change at a column, and by how many bytes; a group may be there several times.
    fn at(&self, column: usize) -> impl Iterator<Item = (u32, i64)>;

    /// All columns of a level as one tile, with its largest groups and none of less than `least_bytes`.
    fn stack(&self, groups: usize, least_bytes: u64) -> Stack {
        let columns = self.columns();
        let mut tile = Tile::take(self, 0..columns, &mut Sums::new(groups));
        tile.keep_largest();
        tile.groups.retain(|(_, _, most)| most.cast_unsigned() >= least_bytes);
        let mut sums: Vec<i64> = tile.groups.iter().map(|(_, first, _)| *first).collect();
        let mut bytes: Vec<Vec<u64>> = vec![Vec::with_capacity(columns); sums.len()];
        for changes in [Vec::new()].iter().chain(&tile.changes) {
            for (group, change) in changes {
                if let Some(place) = tile.place(*group) {
                    sums[place] += change;
                }
            }
            for (bytes, sum) in bytes.iter_mut().zip(&sums) {
                bytes.push(sum.cast_unsigned());
            }
        }
        Stack { groups: tile.groups.iter().map(|(group, ..)| *group).collect(), bytes }
    }

    /// The tiles of a level, as chunks whose ids begin with `prefix`.
    fn tiles(&self, prefix: &str, groups: usize) -> Vec<Chunk> {
        let columns = self.columns();
        let mut sums = Sums::new(groups);
        let mut tiles = Vec::new();
        for begin in (0..columns).step_by(TILE_COLUMNS) {
            let tile = Tile::take(self, begin..columns.min(begin + TILE_COLUMNS), &mut sums);
            tiles.push(tile);
        }
        let chunk = |(at, tile): (usize, Tile)| Chunk::of(format!("{prefix}/{at}"), &tile.arrays());
        tiles.into_par_iter().enumerate().map(chunk).collect()
    }
}

/// Changes at moments, sorted by column.
#[derive(Debug)]
pub(crate) struct ChangesAt {
    /// Where the changes of each column begin in `entries`, and where the last ones end.
    begins: Vec<u32>,
    entries: Vec<(u32, i64)>,
}

impl ChangesAt {
    /// Each is in the column that `column` returns for its moment.
    pub(crate) fn of(changes: &[Change], columns: usize, column: impl Fn(u32) -> u32) -> Self {
        let mut counts = vec![0; columns + 2];
        for change in changes {
            counts[column(change.moment) as usize + 1] += 1;
        }
        let mut entries = vec![(0, 0); begins_of(&mut counts)];
        let mut next = counts.clone();
        for change in changes {
            let place = &mut next[column(change.moment) as usize];
            entries[*place as usize] = (change.group, change.bytes);
            *place += 1;
        }
        Self { begins: counts, entries }
    }
}

impl Changes for ChangesAt {
    fn columns(&self) -> usize {
        self.begins.len() - 2
    }

    fn at(&self, column: usize) -> impl Iterator<Item = (u32, i64)> {
        let range = self.begins[column] as usize..self.begins[column + 1] as usize;
        self.entries[range].iter().copied()
    }
}

/// Lives that show at the peaks of a level: kinds that begin and end, by column. All groupings share them.
#[derive(Debug)]
pub(crate) struct ShownLives {
    begins: Vec<u32>,
    /// A kind, times two; plus one where the life ends.
    entries: Vec<u32>,
}

/// A life that shows at the peaks of a level, in columns `from..to`.
struct Shown {
    start: u32,
    end: u32,
    kind: u32,
    from: u32,
    to: u32,
}

impl ShownLives {
    /// Of all lives, at one level.
    pub(crate) fn of(followed: &Followed, level: &Level) -> Self {
        Self::at(level, &shown_of(followed, level))
    }

    /// At each level, given from fine to coarse. A peak of a level is one of the level before, so a life that shows
    /// nowhere there shows nowhere here.
    pub(crate) fn of_levels(followed: &Followed, levels: &[Level]) -> Vec<Self> {
        let mut all = Vec::with_capacity(levels.len());
        let mut shown = Vec::new();
        for level in levels {
            if all.is_empty() {
                shown = shown_of(followed, level);
            } else {
                shown.retain_mut(|it: &mut Shown| match shows(level, it.start, it.end) {
                    Some((from, to)) => {
                        (it.from, it.to) = (from, to);
                        true
                    }
                    None => false,
                });
            }
            all.push(Self::at(level, &shown));
        }
        all
    }

    fn at(level: &Level, shown: &[Shown]) -> Self {
        let mut counts = vec![0; level.columns.len() + 2];
        for it in shown {
            counts[it.from as usize + 1] += 1;
            counts[it.to as usize + 1] += 1;
        }
        let mut entries = vec![0; begins_of(&mut counts)];
        let mut next = counts.clone();
        for it in shown {
            for (column, is_end) in [(it.from, 0), (it.to, 1)] {
                let place = &mut next[column as usize];
                entries[*place as usize] = 2 * it.kind + is_end;
                *place += 1;
            }
        }
        Self { begins: counts, entries }
    }

    /// The changes of the groups that `of_kind` numbers.
    pub(crate) fn changes(&self, followed: &Followed, of_kind: &[u32]) -> ChangesOfLives<'_> {
        let kind = |(group, kind): (&u32, &Kind)| (*group, kind.size_bytes.cast_signed());
        ChangesOfLives {
            lives: self,
            of_kind: of_kind.iter().zip(&followed.kinds).map(kind).collect(),
        }
    }
}

fn shown_of(followed: &Followed, level: &Level) -> Vec<Shown> {
    let shown = |life: &Life| {
        let Life { start, end, kind, .. } = *life;
        let (from, to) = shows(level, start, end)?;
        Some(Shown { start, end, kind, from, to })
    };
    followed.lives.iter().filter_map(shown).collect()
}

/// The columns of a level whose peaks show a life.
#[inline]
fn shows(level: &Level, start: u32, end: u32) -> Option<(u32, u32)> {
    let from = level.shows_from(start);
    let to = if end == NO_END { level.columns.len() as u32 } else { level.shows_from(end) };
    (from < to).then_some((from, to))
}

/// Changes of groups by lives that begin and end.
pub(crate) struct ChangesOfLives<'l> {
    lives: &'l ShownLives,
    /// The group of each kind, and the bytes of one of its lives.
    of_kind: Vec<(u32, i64)>,
}

impl Changes for ChangesOfLives<'_> {
    fn columns(&self) -> usize {
        self.lives.begins.len() - 2
    }

    fn at(&self, column: usize) -> impl Iterator<Item = (u32, i64)> {
        let ShownLives { begins, entries } = self.lives;
        let range = begins[column] as usize..begins[column + 1] as usize;
        entries[range].iter().map(|entry| {
            let (group, bytes) = self.of_kind[(entry / 2) as usize];
            (group, if entry.is_multiple_of(2) { bytes } else { -bytes })
        })
    }
}

/// The largest groups of a level's columns.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Their numbers, ascending.
    pub(crate) groups: Vec<u32>,
    /// The bytes of each, column by column.
    pub(crate) bytes: Vec<Vec<u64>>,
}

/// Turns counts of columns, each one place too far, into places where they begin; returns the sum.
fn begins_of(counts: &mut [u32]) -> usize {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
    sum as usize
}

/// The bytes of each group at a column.
struct Sums {
    bytes: Vec<i64>,
    /// The column behind the one at which each group changed last.
    changed: Vec<u32>,
    /// Groups that change at this column, and their bytes before.
    before: Vec<(u32, i64)>,
}

impl Sums {
    fn new(groups: usize) -> Self {
        Self { bytes: vec![0; groups], changed: vec![0; groups], before: Vec::new() }
    }

    /// Goes to the next column; returns the groups that change and by how much, ascending.
    fn go_to<C: Changes + ?Sized>(&mut self, changes: &C, column: usize) -> Vec<(u32, i64)> {
        self.before.clear();
        let behind = column as u32 + 1;
        for (group, bytes) in changes.at(column) {
            let at = group as usize;
            if self.changed[at] != behind {
                self.changed[at] = behind;
                self.before.push((group, self.bytes[at]));
            }
            self.bytes[at] += bytes;
        }
        self.before.sort_unstable_by_key(|(group, _)| *group);
        let change = |(group, before): &(u32, i64)| (*group, self.bytes[*group as usize] - before);
        self.before.iter().map(change).filter(|(_, bytes)| *bytes != 0).collect()
    }
}

/// Some columns of a level: the bytes of every group at the first one, and changes behind it.
#[derive(Debug)]
struct Tile {
    /// Groups that are not zero throughout, with their bytes at the first column and the most they have.
    groups: Vec<(u32, i64, i64)>,
    /// For each further column, the groups that change and by how much, ascending.
    changes: Vec<Vec<(u32, i64)>>,
}

impl Tile {
    /// The next tile; `sums` are the bytes of each group before it, and behind it afterwards.
    fn take<C: Changes + ?Sized>(
        changes: &C,
        columns: std::ops::Range<usize>,
        sums: &mut Sums,
    ) -> Self {
        sums.go_to(changes, columns.start);
        let first = sums.bytes.clone();
        let mut most = first.clone();
        let mut behind = Vec::with_capacity(columns.len() - 1);
        for column in columns.skip(1) {
            let changed = sums.go_to(changes, column);
            for (group, _) in &changed {
                let at = *group as usize;
                most[at] = most[at].max(sums.bytes[at]);
            }
            behind.push(changed);
        }
        let groups = (0..).zip(first).zip(most).filter(|(_, most)| *most > 0);
        let groups = groups.map(|((group, first), most)| (group, first, most)).collect();
        Self { groups, changes: behind }
    }

    fn keep_largest(&mut self) {
        self.groups.sort_by_key(|(group, _, most)| (std::cmp::Reverse(*most), *group));
        self.groups.truncate(GROUPS_MAX);
        self.groups.sort_unstable_by_key(|(group, ..)| *group);
    }

    fn place(&self, group: u32) -> Option<usize> {
        self.groups.binary_search_by_key(&group, |(group, ..)| *group).ok()
    }

    fn arrays(mut self) -> Arrays {
        self.keep_largest();
        let shown: Vec<Vec<(usize, i64)>> = self
            .changes
            .iter()
            .map(|changes| {
                let shown =
                    changes.iter().filter_map(|(group, bytes)| Some((self.place(*group)?, *bytes)));
                shown.collect()
            })
            .collect();
        let changes: Vec<(usize, i64)> = shown.iter().flatten().copied().collect();
        let firsts = self.groups.iter().map(|(_, first, _)| first.cast_unsigned());
        let all = firsts.clone().chain(changes.iter().map(|(_, bytes)| bytes.unsigned_abs()));
        let unit = unit_of(all);
        let mut arrays = Arrays::default();
        arrays.rising(self.groups.iter().map(|(group, ..)| u64::from(*group)));
        arrays.put(firsts.len() as u64);
        arrays.put(unit);
        firsts.for_each(|first| arrays.put(first / unit));
        arrays.plain(shown.iter().map(|changes| changes.len() as u64));
        let mut steps = Vec::with_capacity(changes.len());
        for changes in &shown {
            let mut before = 0;
            for (place, _) in changes {
                steps.push((place - before) as u64);
                before = *place;
            }
        }
        arrays.plain(steps.into_iter());
        arrays.signed(changes.iter().map(|(_, bytes)| bytes / unit.cast_signed()));
        arrays
    }
}
