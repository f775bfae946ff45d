//! The same row of several ranks' tables.

/// One row of every rank that has it.
pub(super) struct Aligned<'r, R> {
    /// Each rank under the settings that it was recorded with.
    pub(super) is_recorded: bool,
    /// Whether that is under different settings; only of the recorded row.
    pub(super) is_mixed: bool,
    /// The rank, by its place, and its row.
    pub(super) rows: Vec<(usize, &'r R)>,
}

/// Puts rows together by what they are of, which `key` says. The first row of each table is the recorded one, and
/// stands in for the row of its settings; so is the first that comes out, and where all ranks were recorded under the
/// same settings it does not come again.
pub(super) fn align<'r, R, K: PartialEq>(
    tables: &[&'r [R]],
    key: impl Fn(&'r R) -> K,
) -> Vec<Aligned<'r, R>> {
    let recorded: Vec<_> = firsts(tables).collect();
    let Some((_, first)) = recorded.first() else { return Vec::new() };
    let is_mixed = recorded.iter().any(|(_, row)| key(row) != key(first));
    let mut seen = if is_mixed { Vec::new() } else { vec![key(first)] };
    let mut aligned = vec![Aligned { is_recorded: true, is_mixed, rows: recorded }];
    for row in tables.iter().flat_map(|rows| rows.iter().skip(1)) {
        let wanted = key(row);
        if seen.contains(&wanted) {
            continue;
        }
        let of_rank = |rows: &&'r [R]| rows.iter().find(|row| key(row) == wanted);
        let rows = tables.iter().enumerate().filter_map(|(at, rows)| Some((at, of_rank(rows)?)));
        aligned.push(Aligned { is_recorded: false, is_mixed: false, rows: rows.collect() });
        seen.push(wanted);
    }
    aligned
}

fn firsts<'r, R>(tables: &[&'r [R]]) -> impl Iterator<Item = (usize, &'r R)> {
    tables.iter().enumerate().filter_map(|(at, rows)| Some((at, rows.first()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Plain = (bool, bool, Vec<(usize, &'static str)>);

    fn aligned(tables: &[&[&'static str]]) -> Vec<Plain> {
        let plain = |found: Aligned<'_, &'static str>| {
            let rows = found.rows.into_iter().map(|(at, row)| (at, *row)).collect();
            (found.is_recorded, found.is_mixed, rows)
        };
        align(tables, |row| *row).into_iter().map(plain).collect()
    }

    #[test]
    fn ranks_recorded_alike_have_every_row_once() {
        let found = aligned(&[&["", "expandable"], &["", "expandable"]]);
        let expected: [Plain; 2] = [
            (true, false, vec![(0, ""), (1, "")]),
            (false, false, vec![(0, "expandable"), (1, "expandable")]),
        ];
        assert_eq!(found, expected);
        assert!(aligned(&[]).is_empty());
    }

    #[test]
    fn a_rank_recorded_otherwise_lends_its_recorded_row_to_the_one_of_its_settings() {
        let found = aligned(&[&["", "expandable", "own"], &["odd", "", "expandable"]]);
        let expected: [Plain; 4] = [
            (true, true, vec![(0, ""), (1, "odd")]),
            (false, false, vec![(0, "expandable"), (1, "expandable")]),
            (false, false, vec![(0, "own")]),
            (false, false, vec![(0, ""), (1, "")]),
        ];
        assert_eq!(found, expected);
    }
}
