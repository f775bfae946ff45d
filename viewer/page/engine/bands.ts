// Stacks of the largest groups, one column for each pixel.

import { BANDS_TILE_COLUMNS } from "../format/columns.ts";
import type { Dataset } from "./dataset.ts";
import { type Chosen } from "./levels.ts";
import type { Picture } from "./picture.ts";
import { type Columns, FIRST_ID, OTHER, PENDING } from "./protocol.ts";
import type { Tally } from "./tally.ts";

/** The groups of a column and their bytes, from the bottom. */
export function stackOf(data: Dataset, grouping: number, level: number, column: number): [number, number][] {
  const tile = data.bands(grouping, level, Math.floor(column / BANDS_TILE_COLUMNS));
  if (tile === null || tile === undefined) return [];
  const { groups, bytes } = tile;
  const base = (column % BANDS_TILE_COLUMNS) * groups.length;
  const stack: [number, number][] = [];
  for (let place = 0; place < groups.length; place++) {
    const size = bytes[base + place] ?? 0;
    if (size > 0) stack.push([groups[place]!, size]);
  }
  return stack;
}

export function drawBands(data: Dataset, grouping: number, chosen: Chosen, columns: Columns, picture: Picture,
  tally: Tally, peakX: number): void {
  const { width } = picture;
  for (let x = 0; x < width; x++) {
    const level = chosen.level[x]!;
    if (level < 0) continue;
    const column = chosen.column[x]!;
    if (x > 0 && level === chosen.level[x - 1] && column === chosen.column[x - 1] && x !== peakX) {
      picture.repeat(x);
      continue;
    }
    let sum = 0;
    let row = picture.row(0);
    const tile = data.bands(grouping, level, Math.floor(column / BANDS_TILE_COLUMNS));
    if (tile !== null && tile !== undefined) {
      const { groups, bytes } = tile;
      const base = (column % BANDS_TILE_COLUMNS) * groups.length;
      for (let place = 0; place < groups.length; place++) {
        const size = bytes[base + place] ?? 0;
        if (size === 0) continue;
        const group = groups[place]!;
        tally.see(group, size, x === peakX);
        sum += size;
        const next = picture.row(sum);
        if (next > row) picture.span(x, row, next, group + FIRST_ID);
        row = next;
      }
    }
    tally.seeOther(columns.allocated[x]! - sum, x === peakX);
    finishColumn(picture, columns, x, row, sum);
  }
}

/** Draws the rest of the groups and the bytes that wait for other streams on top of a stack. */
export function finishColumn(picture: Picture, columns: Columns, x: number, row: number, sum: number): void {
  const allocated = Math.max(columns.allocated[x]!, sum);
  const top = picture.row(allocated);
  if (top > row) picture.span(x, row, top, OTHER);
  const active = picture.row(Math.max(columns.active[x]!, allocated));
  if (active > top) picture.span(x, top, active, PENDING);
  picture.leastRow[x] = picture.row(columns.allocatedLeast[x]!);
}
