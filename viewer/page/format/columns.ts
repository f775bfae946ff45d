// Columns of the levels of detail: the counters, and the stacks of the largest groups.

import { ArrayReader } from "./varint.ts";

export const SERIES_TILE_COLUMNS = 4096;
export const BANDS_TILE_COLUMNS = 512;

/** One number for each column of the tile; bytes, except `offset` (moments). */
export interface SeriesTile {
  offset: Float64Array;
  allocated: Float64Array;
  allocatedLeast: Float64Array;
  allocatedLast: Float64Array;
  active: Float64Array;
  requested: Float64Array;
  reservedMost: Float64Array;
  reservedLeast: Float64Array;
  reservedLast: Float64Array;
  reserved: Float64Array;
}

export function decodeSeries(chunk: string, data: Uint8Array): SeriesTile {
  const reader = new ArrayReader(data, chunk);
  const offset = reader.plain();
  const next = (): Float64Array => {
    const array = reader.deltaBytes();
    reader.same(offset.length, array);
    return array;
  };
  const [allocated, allocatedLeast, allocatedLast, active, requested] = [next(), next(), next(), next(), next()];
  const [reservedMost, reservedLeast, reservedLast, reserved] = [next(), next(), next(), next()];
  reader.end();
  return { offset, allocated, allocatedLeast, allocatedLast, active, requested, reservedMost, reservedLeast,
    reservedLast, reserved };
}

/** The stacks of a tile: `bytes[column * groups.length + place]` are those of group `groups[place]`. */
export interface BandsTile {
  columns: number;
  groups: Uint32Array;
  bytes: Float64Array;
}

export function decodeBands(chunk: string, data: Uint8Array): BandsTile {
  const reader = new ArrayReader(data, chunk);
  const groups = Uint32Array.from(reader.rising());
  const length = reader.length();
  const unit = reader.unit();
  if (length !== groups.length) reader.fail(`has ${length} first numbers for ${groups.length} groups`);
  const now = new Float64Array(length);
  for (let i = 0; i < length; i++) now[i] = reader.number() * unit;
  const counts = reader.plain();
  const which = reader.plain();
  const change = reader.signed();
  reader.same(which.length, change);
  reader.end();
  const columns = counts.length + 1;
  if (columns > BANDS_TILE_COLUMNS) reader.fail(`has ${columns} columns`);
  const bytes = new Float64Array(columns * length);
  bytes.set(now);
  let at = 0;
  for (let column = 1; column < columns; column++) {
    let place = 0;
    for (let left = counts[column - 1]!; left > 0; left--, at++) {
      if (at >= which.length) reader.fail("has fewer changes than its columns count");
      place += which[at]!;
      if (place >= length) reader.fail(`changes group ${place} of ${length}`);
      const value = now[place]! + change[at]! * unit;
      if (value < 0) reader.fail(`has a group of ${value} bytes`);
      now[place] = value;
    }
    bytes.set(now, column * length);
  }
  if (at !== which.length) reader.fail("has more changes than its columns count");
  return { columns, groups, bytes };
}
