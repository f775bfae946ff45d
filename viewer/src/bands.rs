//! Stacks of groups, tile by tile: the largest groups of each tile, and what is left.

use rayon::prelude::*;

use crate::chunk::{Arrays, Chunk, unit_of};
use crate::columns::Level;
use crate::follow::{Change, Followed, NO_END};

/// Columns of a tile.
const TILE_COLUMNS: usize = 512;
/// Groups of a tile that are drawn by themselves.
const GROUPS_MAX: usize = 64;

/// Changes of groups, by the column from which each shows.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Where the changes of each column begin in `entries`, and where the last ones end.
    begins: Vec<u32>,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    group: u32,
    bytes: i64,
}

/// Lives that show at the peaks of a level: kinds that begin and end, by column. All groupings share them.
#[derive(Debug)]
pub(crate) struct ShownLives {
    begins: Vec<u32>,
    /// A kind, times two; plus one where the life ends.
    entries: Vec<u32>,
}

impl ShownLives {
    pub(crate) fn of(followed: &Followed, level: &Level) -> Self {
        let columns = level.columns.len();
        let shown = |life: &crate::follow::Life| {
            let from = level.shows_from(life.start);
            let to = if life.end == NO_END { columns as u32 } else { level.shows_from(life.end) };
            (from < to).then_some((from as usize, to as usize))
        };
        let mut counts = vec![0; columns + 2];
        for (from, to) in followed.lives.iter().filter_map(shown) {
            counts[from + 1] += 1;
            counts[to + 1] += 1;
        }
        let mut entries = vec![0; begins_of(&mut counts)];
        let mut next = counts.clone();
        for life in &followed.lives {
            let Some((from, to)) = shown(life) else { continue };
            for (column, is_end) in [(from, 0), (to, 1)] {
                entries[next[column] as usize] = 2 * life.kind + is_end;
                next[column] += 1;
            }
        }
        Self { begins: counts, entries }
    }

    /// The changes of the groups that `of_kind` numbers.
    pub(crate) fn changes(&self, followed: &Followed, of_kind: &[u32]) -> Changes {
        let change = |entry: &u32| {
            let kind = (entry / 2) as usize;
            let bytes = followed.kinds[kind].size_bytes.cast_signed();
            Entry {
                group: of_kind[kind],
                bytes: if entry.is_multiple_of(2) { bytes } else { -bytes },
            }
        };
        let entries = self.entries.iter().map(change).collect();
        Changes { begins: self.begins.clone(), entries }
    }
}

impl Changes {
    /// Of changes at moments, each in the column that `column` returns for it.
    pub(crate) fn of(changes: &[Change], columns: usize, column: impl Fn(u32) -> u32) -> Self {
        let mut counts = vec![0; columns + 2];
        for change in changes {
            counts[column(change.moment) as usize + 1] += 1;
        }
        let mut entries = vec![Entry::default(); begins_of(&mut counts)];
        let mut next = counts.clone();
        for change in changes {
            let place = &mut next[column(change.moment) as usize];
            entries[*place as usize] = Entry { group: change.group, bytes: change.bytes };
            *place += 1;
        }
        Self { begins: counts, entries }
    }

    /// All columns of a level as one tile, with its largest groups and none of less than `least_bytes`.
    pub(crate) fn stack(&self, groups: usize, least_bytes: u64) -> Stack {
        let columns = self.begins.len() - 2;
        let mut tile = Tile::take(self, 0..columns, &mut vec![0; groups]);
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

    fn at(&self, column: usize) -> &[Entry] {
        &self.entries[self.begins[column] as usize..self.begins[column + 1] as usize]
    }

    /// The tiles of a level, as chunks whose ids begin with `prefix`.
    pub(crate) fn tiles(&self, prefix: &str, groups: usize) -> Vec<Chunk> {
        let columns = self.begins.len() - 2;
        let mut sums = vec![0; groups];
        let mut tiles = Vec::new();
        for begin in (0..columns).step_by(TILE_COLUMNS) {
            let tile = Tile::take(self, begin..columns.min(begin + TILE_COLUMNS), &mut sums);
            tiles.push(tile);
        }
        let chunk = |(at, tile): (usize, Tile)| Chunk::of(format!("{prefix}/{at}"), &tile.arrays());
        tiles.into_par_iter().enumerate().map(chunk).collect()
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
    fn take(changes: &Changes, columns: std::ops::Range<usize>, sums: &mut [i64]) -> Self {
        let net = |column: usize, sums: &mut [i64]| {
            let mut net: Vec<(u32, i64)> = Vec::new();
            let mut entries = changes.at(column).to_vec();
            entries.sort_unstable_by_key(|entry| entry.group);
            for same in entries.chunk_by(|a, b| a.group == b.group) {
                let bytes: i64 = same.iter().map(|entry| entry.bytes).sum();
                if bytes != 0 {
                    net.push((same[0].group, bytes));
                    sums[same[0].group as usize] += bytes;
                }
            }
            net
        };
        net(columns.start, sums);
        let first = sums.to_vec();
        let mut most = first.clone();
        let mut behind = Vec::with_capacity(columns.len() - 1);
        for column in columns.skip(1) {
            let changed = net(column, sums);
            for (group, _) in &changed {
                let at = *group as usize;
                most[at] = most[at].max(sums[at]);
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
