// Which level of detail a window is drawn from, and the counters of its columns.

import { SERIES_TILE_COLUMNS } from "../format/columns.ts";
import type { Device } from "../format/header.ts";
import { thingsOf } from "./clock.ts";
import type { Columns } from "./protocol.ts";
import type { Tiles } from "./tiles.ts";

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

/** The column of `level` with the highest peak at pixel `x`, or -1 if its counters have not arrived. */
function highest(tiles: Tiles, level: number, edges: Float64Array, x: number): number {
  const { column_moments: size, columns: count } = tiles.data.device.levels[level]!;
  const [first, end] = thingsOf(edges, x, size, count);
  let best = -1;
  let most = -1;
  for (let column = first; column < end; column++) {
    const tile = tiles.series(level, column);
    if (tile === null) return -1;
    const bytes = tile.allocated[column % SERIES_TILE_COLUMNS] ?? 0;
    if (bytes > most) [most, best] = [bytes, column];
  }
  return best;
}

/** Chooses columns of `level`, or of a coarser one where that has not arrived, and fills in their counters. */
export function chooseColumns(tiles: Tiles, level: number, edges: Float64Array, columns: Columns,
  isWithBands: boolean): Chosen {
  const width = edges.length - 1;
  const chosen: Chosen = { level: new Int8Array(width).fill(-1), column: new Uint32Array(width) };
  for (let x = 0; x < width; x++) {
    for (let use = level; use < tiles.data.device.levels.length; use++) {
      const column = highest(tiles, use, edges, x);
      if (column < 0) continue;
      // A coarser level has to be there; one that is missing from the page leaves the level itself without groups.
      if (isWithBands && (use === level ? tiles.isWaiting(use, column) : tiles.bands(use, column) === null)) continue;
      chosen.level[x] = use;
      chosen.column[x] = column;
      counters(tiles, use, column, edges, x, columns);
      break;
    }
  }
  return chosen;
}

function counters(tiles: Tiles, level: number, column: number, edges: Float64Array, x: number, out: Columns): void {
  const { column_moments: size, columns: count } = tiles.data.device.levels[level]!;
  const [first, end] = thingsOf(edges, x, size, count);
  let least = Infinity;
  let [reservedMost, reservedLeast] = [0, Infinity];
  for (let at = first; at < end; at++) {
    const tile = tiles.series(level, at);
    if (tile === null) continue;
    const place = at % SERIES_TILE_COLUMNS;
    least = Math.min(least, tile.allocatedLeast[place] ?? 0);
    reservedMost = Math.max(reservedMost, tile.reservedMost[place] ?? 0);
    reservedLeast = Math.min(reservedLeast, tile.reservedLeast[place] ?? 0);
  }
  const tile = tiles.series(level, column);
  const place = column % SERIES_TILE_COLUMNS;
  out.moment[x] = column * size + (tile?.offset[place] ?? 0);
  out.allocated[x] = tile?.allocated[place] ?? 0;
  out.active[x] = tile?.active[place] ?? 0;
  out.allocatedLeast[x] = least === Infinity ? 0 : least;
  out.reservedMost[x] = reservedMost;
  out.reservedLeast[x] = reservedLeast === Infinity ? 0 : reservedLeast;
}
