// The moment that each pixel column of a picture of segments shows, and what is alive then.

import type { LivesNode } from "../format/lives.ts";
import type { Ranges } from "../format/ranges.ts";
import { thingsOf } from "./clock.ts";
import { chooseColumns } from "./levels.ts";
import { newColumns, type Spares } from "./picture.ts";
import type { Region } from "./segmentlives.ts";
import type { Strip, StripFinder } from "./strips.ts";
import type { Tally } from "./tally.ts";
import { Tiles } from "./tiles.ts";

/** The peak moment of each pixel's moments, from left to right; null while counters are on the way. */
export function momentsOf(region: Region, edges: Float64Array, spares: Spares): Float64Array | null {
  const width = edges.length - 1;
  const { data, level, allocated, from } = region;
  if (allocated === null) {
    const columns = newColumns(width, spares);
    const chosen = chooseColumns(new Tiles(data, 0), level, edges, columns, false);
    return chosen.level.every((use) => use === level) ? columns.moment.slice() : null;
  }
  const moments = new Float64Array(width);
  for (let x = 0; x < width; x++) {
    const [first, end] = thingsOf(edges, x, 1, data.device.moments);
    let peak = first;
    for (let m = first + 1; m < end; m++) if (allocated[m - from]! > allocated[peak - from]!) peak = m;
    moments[x] = peak;
  }
  return moments;
}

/** The first column that shows this moment or a later one. */
export function columnFrom(moments: Float64Array, moment: number): number {
  let [low, high] = [0, moments.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moments[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The lives that columns show: which, in which strip, and from which column to before which. */
export interface Placed {
  count: number;
  life: Uint32Array;
  strip: Uint32Array;
  x0: Uint16Array;
  x1: Uint16Array;
  /** Lives that no strip covers. */
  misplaced: number;
}

export function placeLives(lives: LivesNode & { count: number }, moments: Float64Array, finder: StripFinder): Placed {
  const { count, start, end, address } = lives;
  const placed: Placed = { count: 0, life: new Uint32Array(count), strip: new Uint32Array(count),
    x0: new Uint16Array(count), x1: new Uint16Array(count), misplaced: 0 };
  const [first, last] = [moments[0]!, moments.at(-1)!];
  for (let life = 0; life < count; life++) {
    if (start[life]! > last || end[life]! <= first) continue;
    const x0 = columnFrom(moments, start[life]!);
    if (moments[x0]! >= end[life]!) continue;
    const strip = finder.find(address[life]!, moments[x0]!);
    if (strip < 0) {
      placed.misplaced++;
      continue;
    }
    const at = placed.count++;
    placed.life[at] = life;
    placed.strip[at] = strip;
    placed.x0[at] = x0;
    placed.x1[at] = end[life]! > last ? moments.length : columnFrom(moments, end[life]!);
  }
  return placed;
}

/** The first and the last column of a mapped range; one that lies between two columns' moments has one all the same. */
export function columnsOf({ start, end }: Ranges, range: number, moments: Float64Array): [number, number] {
  const x0 = Math.min(columnFrom(moments, start[range]!), moments.length - 1);
  return [x0, Math.max(x0 + 1, columnFrom(moments, end[range]!))];
}

/** Reserved bytes at the moment of each column, by the strips. */
export function reservedAt(ranges: Ranges, strips: Strip[], moments: Float64Array): Float64Array {
  const sums = new Float64Array(moments.length + 1);
  for (const strip of strips) {
    for (const range of strip.ranges) {
      sums[columnFrom(moments, ranges.start[range]!)]! += ranges.size[range]!;
      sums[columnFrom(moments, ranges.end[range]!)]! -= ranges.size[range]!;
    }
  }
  let sum = 0;
  return sums.map((change) => sum += change).subarray(0, moments.length);
}

/** Adds up the bytes of each column, and of each group in the tally. */
export function addUp(placed: Placed, width: number, sizeOf: (life: number) => number,
  groupOf: (life: number) => number, tally: Tally): { allocated: Float64Array; peak: number } {
  const { count, life, x0, x1 } = placed;
  const allocated = new Float64Array(width);
  const eventsAt = new Uint32Array(width + 2);
  for (let i = 0; i < count; i++) {
    allocated[x0[i]!]! += sizeOf(life[i]!);
    if (x1[i]! < width) allocated[x1[i]!]! -= sizeOf(life[i]!);
    eventsAt[x0[i]! + 1]!++;
    eventsAt[x1[i]! + 1]!++;
  }
  for (let x = 1; x < eventsAt.length; x++) eventsAt[x]! += eventsAt[x - 1]!;
  let peak = 0;
  for (let x = 1; x < width; x++) {
    allocated[x]! += allocated[x - 1]!;
    if (allocated[x]! > allocated[peak]!) peak = x;
  }
  const events = new Uint32Array(2 * count);
  const next = eventsAt.slice();
  for (let i = 0; i < count; i++) {
    events[next[x0[i]!]!++] = 2 * i;
    events[next[x1[i]!]!++] = 2 * i + 1;
  }
  const sums = new Float64Array(tally.most.length);
  for (let x = 0; x < width; x++) {
    const own = events.subarray(eventsAt[x], eventsAt[x + 1]);
    for (const event of own) sums[groupOf(life[event >> 1]!)]! += (event & 1 ? -1 : 1) * sizeOf(life[event >> 1]!);
    for (const event of own) {
      const group = groupOf(life[event >> 1]!);
      tally.see(group, sums[group]!, false);
    }
    if (x === peak) sums.forEach((bytes, group) => { tally.see(group, bytes, true); });
  }
  return { allocated, peak };
}
