// Draws the blocks of a window: each pixel column shows the peak of its moments.

import { changeAt, type Reserved } from "../format/ranges.ts";
import { finishColumn } from "./bands.ts";
import type { BlockSet } from "./blocks.ts";
import { thingsOf } from "./clock.ts";
import type { Chosen } from "./levels.ts";
import type { Picture } from "./picture.ts";
import type { Columns } from "./protocol.ts";
import type { Tally } from "./tally.ts";
import { Walk } from "./walk.ts";

/** Blocks that do not add up to the counters: the moment, and both sums. */
export interface Mismatch {
  moment: number;
  blocks: number;
  counters: number;
}

/** Compares the blocks with the counters, at the peaks of the columns that are chosen. */
export function findMismatch(set: BlockSet, columns: Columns, chosen: Chosen): Mismatch | null {
  for (let x = 0; x < columns.moment.length; x++) {
    const moment = columns.moment[x]!;
    const blocks = set.allocated[moment - set.from];
    if (chosen.level[x]! < 0 || blocks === undefined || blocks === columns.allocated[x]) continue;
    return { moment, blocks, counters: columns.allocated[x]! };
  }
  return null;
}

/** Replaces moments and allocated bytes of the columns, which are those of coarser columns, by exact ones. */
export function choosePeaks(set: BlockSet, edges: Float64Array, columns: Columns, moments: number): void {
  const width = edges.length - 1;
  for (let x = 0; x < width; x++) {
    const [first, end] = thingsOf(edges, x, 1, moments);
    let [peak, most, least] = [first, -1, Infinity];
    for (let moment = first; moment < end; moment++) {
      const bytes = set.allocated[moment - set.from] ?? 0;
      if (bytes > most) [most, peak] = [bytes, moment];
      if (bytes < least) least = bytes;
    }
    const pending = Math.max(0, columns.active[x]! - columns.allocated[x]!);
    columns.moment[x] = peak;
    columns.allocated[x] = most;
    columns.allocatedLeast[x] = least;
    columns.active[x] = most + pending;
  }
}

/** Replaces the reserved bytes of coarser columns by those of each pixel's own moments. */
export function chooseReserved(reserved: Reserved, edges: Float64Array, columns: Columns, moments: number): void {
  for (let x = 0; x < columns.moment.length; x++) {
    const [first, end] = thingsOf(edges, x, 1, moments);
    let i = changeAt(reserved, first);
    let [most, least] = [reserved.bytes[i]!, reserved.bytes[i]!];
    for (i++; i < reserved.moment.length && reserved.moment[i]! < end; i++) {
      most = Math.max(most, reserved.bytes[i]!);
      least = Math.min(least, reserved.bytes[i]!);
    }
    columns.reservedMost[x] = most;
    columns.reservedLeast[x] = least;
  }
}

export function drawBlocks(set: BlockSet, groups: number, columns: Columns, picture: Picture, tally: Tally,
  peakX: number): void {
  const walk = new Walk(set, groups, tally);
  const first = columns.moment[0]!;
  for (let x = 0; x < picture.width; x++) {
    const moment = columns.moment[x]!;
    const isSame = x > 0 && moment === columns.moment[x - 1] && columns.active[x] === columns.active[x - 1];
    walk.advance(moment, first);
    if (x === peakX) walk.notePeak();
    if (isSame) {
      picture.repeat(x);
      continue;
    }
    const [row, sum] = walk.draw(picture, x);
    finishColumn(picture, columns, x, row, sum);
  }
}
