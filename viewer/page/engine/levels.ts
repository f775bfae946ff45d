// Which level of detail a window is drawn from, and the counters of its columns.

import { BANDS_TILE_COLUMNS, SERIES_TILE_COLUMNS } from "../format/columns.ts";
import type { Device } from "../format/header.ts";
import { thingsOf } from "./clock.ts";
import type { Dataset } from "./dataset.ts";
import type { Columns } from "./protocol.ts";

/** Windows of more moments are drawn in columns. */
export const EXACT_MOMENTS_MAX = 300_000;

/** The coarsest level with a column for each pixel, else the finest. */
export function levelFor(device: Device, moments: number, width: number): number {
  for (let level = device.levels.length - 1; level > 0; level--) {
    if (moments / device.levels[level]!.column_moments >= width) return level;
  }
  return 0;
}

/** Which column each pixel shows: the one with the highest peak among those that begin in it. */
export interface Chosen {
  /** -1 where no counters have arrived. */
  level: Int8Array;
  column: Uint32Array;
}

/** Asks for the tiles of a level that a range of its columns needs. */
export function askSeries(data: Dataset, level: number, first: number, last: number): void {
  for (let tile = Math.floor(first / SERIES_TILE_COLUMNS); tile <= Math.floor(last / SERIES_TILE_COLUMNS); tile++) {
    data.series(level, tile);
  }
}

export function askBands(data: Dataset, grouping: number, level: number, first: number, last: number): void {
  for (let tile = Math.floor(first / BANDS_TILE_COLUMNS); tile <= Math.floor(last / BANDS_TILE_COLUMNS); tile++) {
    data.bands(grouping, level, tile);
  }
}

/** The column of `level` with the highest peak at pixel `x`, or -1 if its counters have not arrived. */
function highest(data: Dataset, level: number, edges: Float64Array, x: number): number {
  const { column_moments: size, columns: count } = data.device.levels[level]!;
  const [first, end] = thingsOf(edges, x, size, count);
  let best = -1;
  let most = -1;
  for (let column = first; column < end; column++) {
    const tile = Math.floor(column / SERIES_TILE_COLUMNS);
    if (!data.hasSeries(level, tile)) return -1;
    const bytes = data.series(level, tile)?.allocated[column % SERIES_TILE_COLUMNS] ?? 0;
    if (bytes > most) [most, best] = [bytes, column];
  }
  return best;
}

/** Chooses columns of `level`, or of a coarser one where that has not arrived, and fills in their counters. */
export function chooseColumns(data: Dataset, level: number, edges: Float64Array, columns: Columns,
  isUsable: (level: number, column: number) => boolean): Chosen {
  const width = edges.length - 1;
  const chosen: Chosen = { level: new Int8Array(width).fill(-1), column: new Uint32Array(width) };
  for (let x = 0; x < width; x++) {
    for (let use = level; use < data.device.levels.length; use++) {
      const column = highest(data, use, edges, x);
      if (column < 0 || !isUsable(use, column)) continue;
      chosen.level[x] = use;
      chosen.column[x] = column;
      counters(data, use, column, edges, x, columns);
      break;
    }
  }
  return chosen;
}

function counters(data: Dataset, level: number, column: number, edges: Float64Array, x: number, out: Columns): void {
  const { column_moments: size, columns: count } = data.device.levels[level]!;
  const [first, end] = thingsOf(edges, x, size, count);
  let least = Infinity;
  let [reservedMost, reservedLeast] = [0, Infinity];
  for (let at = first; at < end; at++) {
    const tile = data.series(level, Math.floor(at / SERIES_TILE_COLUMNS));
    if (tile === null || tile === undefined) continue;
    const place = at % SERIES_TILE_COLUMNS;
    least = Math.min(least, tile.allocatedLeast[place] ?? 0);
    reservedMost = Math.max(reservedMost, tile.reservedMost[place] ?? 0);
    reservedLeast = Math.min(reservedLeast, tile.reservedLeast[place] ?? 0);
  }
  const tile = data.series(level, Math.floor(column / SERIES_TILE_COLUMNS));
  const place = column % SERIES_TILE_COLUMNS;
  out.moment[x] = column * size + (tile?.offset[place] ?? 0);
  out.allocated[x] = tile?.allocated[place] ?? 0;
  out.active[x] = tile?.active[place] ?? 0;
  out.allocatedLeast[x] = least === Infinity ? 0 : least;
  out.reservedMost[x] = reservedMost;
  out.reservedLeast[x] = reservedLeast === Infinity ? 0 : reservedLeast;
}
