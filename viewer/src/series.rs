//! Counters of each column, as chunks.

use crate::chunk::{Arrays, Chunk};
use crate::columns::Column;

/// Columns of a tile.
const TILE_COLUMNS: usize = 4096;

/// The tiles of a level, as chunks whose ids begin with `prefix`.
pub(crate) fn tiles(prefix: &str, column_moments: u32, columns: &[Column]) -> Vec<Chunk> {
    let tiles = columns.chunks(TILE_COLUMNS).enumerate();
    tiles
        .map(|(at, columns)| {
            let first = at as u64 * TILE_COLUMNS as u64;
            let begin = |place: usize| (first + place as u64) * u64::from(column_moments);
            let mut arrays = Arrays::default();
            let peaks = columns.iter().enumerate();
            arrays.plain(peaks.map(|(place, it)| u64::from(it.peak_moment) - begin(place)));
            let values: [fn(&Column) -> u64; 9] = [
                |it| it.at_peak.allocated_bytes,
                |it| it.allocated_least,
                |it| it.allocated_last,
                |it| it.at_peak.active_bytes,
                |it| it.at_peak.requested_bytes,
                |it| it.reserved_most,
                |it| it.reserved_least,
                |it| it.reserved_last,
                |it| it.at_peak.reserved_bytes,
            ];
            for value in values {
                arrays.bytes_delta(columns.iter().map(value));
            }
            Chunk::of(format!("{prefix}/{at}"), &arrays)
        })
        .collect()
}
