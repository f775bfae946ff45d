// The stack of a run with private pools: default pools at the bottom, then each private pool's blocks in its envelope.

import { BANDS_TILE_COLUMNS } from "../format/columns.ts";
import { type Envelope, type Envelopes, heightAt } from "../format/envelopes.ts";
import { stackOf } from "./bands.ts";
import type { BlockSet } from "./blocks.ts";
import type { Chosen } from "./levels.ts";
import type { Picture } from "./picture.ts";
import { type Columns, ENVELOPE, type EnvelopeShape, FIRST_ID } from "./protocol.ts";
import type { Tally } from "./tally.ts";
import type { Tiles } from "./tiles.ts";
import { Walk } from "./walk.ts";

/** Borders are drawn around so many envelopes, the highest. */
const SHAPES_MAX = 64;

/** Draws the blocks of a group from a number of bytes on; returns their bytes. */
type DrawGroup = (x: number, group: number, base: number) => number;

/** The shapes of the highest envelopes, and how many others there are. */
export interface Shapes {
  shapes: EnvelopeShape[];
  others: number;
}

/** The first block of each group, and one place behind the last. */
function groupPlaces(set: BlockSet, groups: number): Uint32Array {
  const places = new Uint32Array(groups + 1);
  for (let block = 0; block < set.count; block++) places[set.group[block]! + 1]!++;
  for (let group = 0; group < groups; group++) places[group + 1]! += places[group]!;
  return places;
}

function drawStacks(envelopes: Envelopes, labels: readonly string[], columns: Columns, picture: Picture,
  draw: DrawGroup): Shapes {
  const { width, height } = picture;
  const all = envelopes.flatMap((envelope, group) => (envelope === null ? [] : [{ envelope, group,
    bottom: new Float64Array(width), top: new Float64Array(width) }]));
  for (let x = 0; x < width; x++) {
    const moment = columns.moment[x]!;
    let base = draw(x, 0, 0);
    for (const { envelope, group, bottom, top } of all) {
      const bytes = heightAt(envelope, moment);
      const used = bytes > 0 ? draw(x, group, base) : 0;
      const [from, to] = [picture.row(base + used), picture.row(base + bytes)];
      if (to > from) picture.span(x, from, to, ENVELOPE + group);
      bottom[x] = base;
      base += bytes;
      top[x] = base;
    }
    // All bytes of an envelope are reserved at all moments of a column, so none is drawn as there at times.
    picture.leastRow[x] = height;
  }
  const highest = (envelope: Envelope): number => envelope.bytes.at(-1) ?? 0;
  const inView = all.filter(({ bottom, top }) => top[width - 1]! > bottom[width - 1]!);
  inView.sort((a, b) => highest(b.envelope) - highest(a.envelope) || a.group - b.group);
  const shapes = inView.slice(0, SHAPES_MAX).map(({ group, bottom, top }): EnvelopeShape => (
    { group, label: labels[group] ?? `group ${group}`, bottom, top }));
  return { shapes, others: inView.length - shapes.length };
}

/** Draws from exact blocks. */
export function drawEnvelopedBlocks(set: BlockSet, groups: number, envelopes: Envelopes, labels: readonly string[],
  columns: Columns, picture: Picture, tally: Tally, peakX: number): Shapes {
  const walk = new Walk(set, groups, tally);
  const places = groupPlaces(set, groups);
  const first = columns.moment[0]!;
  return drawStacks(envelopes, labels, columns, picture, (x, group, base) => {
    if (group === 0) {
      walk.advance(columns.moment[x]!, first);
      if (x === peakX) walk.notePeak();
    }
    return walk.drawRange(picture, x, places[group]!, places[group + 1]!, base);
  });
}

/** Draws from groups of columns. */
export function drawEnvelopedBands(tiles: Tiles, chosen: Chosen, envelopes: Envelopes, labels: readonly string[],
  columns: Columns, picture: Picture, tally: Tally, peakX: number): Shapes {
  const { width } = picture;
  for (let x = 0; x < width; x++) {
    const shown = chosen.level[x]! < 0 ? [] : stackOf(tiles, chosen.level[x]!, chosen.column[x]!);
    let sum = 0;
    for (const [group, bytes] of shown) {
      tally.see(group, bytes, x === peakX);
      sum += bytes;
    }
    tally.seeOther(columns.allocated[x]! - sum, x === peakX);
  }
  return drawStacks(envelopes, labels, columns, picture, (x, group, base) => {
    const tile = chosen.level[x]! < 0 ? null : tiles.bands(chosen.level[x]!, chosen.column[x]!);
    const place = tile === null ? -1 : tile.groups.indexOf(group);
    if (tile === null || place < 0) return 0;
    const bytes = tile.bytes[(chosen.column[x]! % BANDS_TILE_COLUMNS) * tile.groups.length + place] ?? 0;
    const [from, to] = [picture.row(base), picture.row(base + bytes)];
    if (to > from) picture.span(x, from, to, group + FIRST_ID);
    return bytes;
  });
}
