// Where ranges are on the map: rows of equal bytes, on one scale for all owners.

import type { Mapped } from "./addresses.ts";

/** In CSS pixels. */
const HEADING = 27;
const ROW_MOST = 30;
const OWNER_GAP = 8;
const RANGE_LEAST = 3;
/** Rows and gaps, and those for narrow windows and for so many ranges that their gaps would fill the map. */
const LOOSE = { row: 18, rowGap: 6, rangeGap: 4 };
const NARROW = { row: 18, rowGap: 6, rangeGap: 2 };
const DENSE = { row: 9, rowGap: 4, rangeGap: 2 };
const NARROW_WIDTH = 600;
/** Rows have at least so many bytes: a segment of the small pool is 2 MiB. */
const ROW_BYTES_LEAST = 2 * 2 ** 20;
/** Bytes of a row, as parts of a power of two. */
const POWERS = 24;
const STEPS = [1, 1.25, 1.5, 1.75];
/** A scale that makes the map lower by less than this is not worth its loss of detail. */
const GAIN_LEAST = 0.99;

export interface Scale {
  width: number;
  ratio: number;
  rowBytes: number;
  rowHeight: number;
  rowGap: number;
  rangeGap: number;
}

/** A piece of a range in one row: pixels `from` to `to` show `bytes` from `offset` in the range. */
export interface Part {
  row: number;
  from: number;
  to: number;
  range: number;
  offset: number;
  bytes: number;
}

export interface Layout {
  parts: Part[];
  /** The top of each row. */
  rows: number[];
  /** Each owner and the top of its heading. */
  headings: { owner: number; y: number }[];
  height: number;
}

export function leastBytes({ rowBytes, width, ratio }: Scale): number {
  return (RANGE_LEAST * ratio * rowBytes) / width;
}

/** Puts ranges into rows; `put` gets each piece. Returns rows and owners. */
function flow(mapped: Mapped, { width, ratio, rowBytes, rangeGap }: Scale, put: ((part: Part) => void) | null,
  begin: (owner: number, row: number) => void): number {
  const least = Math.round(RANGE_LEAST * ratio);
  let [row, x] = [-1, 0];
  for (let range = 0; range < mapped.count; range++) {
    const size = mapped.size[range]!;
    const isNew = range === 0 || mapped.owner[range] !== mapped.owner[range - 1];
    const wide = Math.max(least, Math.round((size / rowBytes) * width));
    if (isNew || x + wide > width) {
      row++;
      x = 0;
    }
    if (isNew) begin(mapped.owner[range]!, row);
    const full = Math.ceil(size / rowBytes) - 1;
    if (put !== null) {
      for (let i = 0; i < full; i++) put({ row: row + i, from: 0, to: width, range, offset: i * rowBytes,
        bytes: rowBytes });
    }
    const left = size - Math.max(0, full) * rowBytes;
    const last = Math.min(width, Math.max(least, Math.round((left / rowBytes) * width)));
    row += Math.max(0, full);
    if (full > 0) x = 0;
    put?.({ row, from: x, to: Math.min(x + last, width), range, offset: size - left, bytes: left });
    x += last + rangeGap;
  }
  return row + 1;
}

function heightOf(rows: number, owners: number, { ratio, rowHeight, rowGap }: Scale): number {
  return owners * Math.round((HEADING + OWNER_GAP) * ratio) + rows * (rowHeight + rowGap);
}

/** The finest scale at which ranges fit into a height, if any does; else the one of the lowest map. */
export function chooseScale(mapped: Mapped, width: number, height: number, ratio: number): Scale {
  const [scale, needed] = fit(mapped, width, height, ratio, width < NARROW_WIDTH * ratio ? NARROW : LOOSE);
  return needed <= height ? scale : fit(mapped, width, height, ratio, DENSE)[0];
}

function fit(mapped: Mapped, width: number, height: number, ratio: number, css: typeof LOOSE): [Scale, number] {
  const scale: Scale = { width, ratio, rowBytes: ROW_BYTES_LEAST, rowHeight: Math.round(css.row * ratio),
    rowGap: Math.round(css.rowGap * ratio), rangeGap: Math.round(css.rangeGap * ratio) };
  let [rows, owners] = [0, 0];
  const measure = (rowBytes: number): number => {
    owners = 0;
    scale.rowBytes = rowBytes;
    rows = flow(mapped, scale, null, () => { owners++; });
    return heightOf(rows, owners, scale);
  };
  let needed = measure(ROW_BYTES_LEAST);
  for (let power = 0; power < POWERS && needed > height; power++) {
    const before = rows;
    for (const step of STEPS) {
      needed = measure(ROW_BYTES_LEAST * 2 ** power * step);
      if (needed <= height) break;
    }
    // Ranges of the least width do not get narrower.
    if (power > 3 && rows > before * GAIN_LEAST) break;
  }
  const spare = Math.max(0, Math.floor((height - needed) / Math.max(1, rows)));
  scale.rowHeight = Math.min(Math.round(ROW_MOST * ratio), scale.rowHeight + spare);
  return [scale, needed];
}

export function layOut(mapped: Mapped, scale: Scale): Layout {
  const { ratio, rowHeight, rowGap } = scale;
  const parts: Part[] = [];
  const begins: { owner: number; row: number }[] = [];
  const count = flow(mapped, scale, (part) => { parts.push(part); }, (owner, row) => { begins.push({ owner, row }); });
  const [heading, after] = [Math.round(HEADING * ratio), Math.round(OWNER_GAP * ratio)];
  const rows: number[] = [];
  const headings: Layout["headings"] = [];
  let y = 0;
  for (let row = 0; row < count; row++) {
    const begin = begins[headings.length];
    if (begin?.row === row) {
      if (row > 0) y += after;
      headings.push({ owner: begin.owner, y });
      y += heading;
    }
    rows.push(y);
    y += rowHeight + rowGap;
  }
  return { parts, rows, headings, height: Math.max(1, y) };
}
