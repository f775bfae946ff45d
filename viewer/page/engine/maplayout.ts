// Where ranges are on the map: rows of equal bytes, on one scale for all owners.

import type { Mapped } from "./addresses.ts";

/** In CSS pixels. */
const HEADING = 27;
const ROW = 18;
const ROW_MOST = 30;
const ROW_GAP = 6;
const OWNER_GAP = 8;
const RANGE_GAP = 4;
const RANGE_LEAST = 3;
/** Rows have at least so many bytes: a segment of the small pool is 2 MiB. */
const ROW_BYTES_LEAST = 2 * 2 ** 20;
/** Bytes of a row, as parts of a power of two. */
const STEPS = [1, 1.25, 1.5, 1.75];
/** A scale that makes the map lower by less than this is not worth its loss of detail. */
const GAIN_LEAST = 0.99;

export interface Scale {
  width: number;
  ratio: number;
  rowBytes: number;
  rowHeight: number;
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
function flow(mapped: Mapped, { width, ratio, rowBytes }: Scale, put: ((part: Part) => void) | null,
  begin: (owner: number, row: number) => void): number {
  const gap = Math.round(RANGE_GAP * ratio);
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
    x += last + gap;
  }
  return row + 1;
}

function heightOf(rows: number, owners: number, ratio: number, rowHeight: number): number {
  return owners * Math.round((HEADING + OWNER_GAP) * ratio) + rows * (rowHeight + Math.round(ROW_GAP * ratio));
}

/** The finest scale at which ranges fit into a height, if any does. */
export function chooseScale(mapped: Mapped, width: number, height: number, ratio: number): Scale {
  let owners = 0;
  const measure = (rowBytes: number): number => {
    owners = 0;
    return flow(mapped, { width, ratio, rowBytes, rowHeight: 0 }, null, () => { owners++; });
  };
  const low = Math.round(ROW * ratio);
  let rowBytes = ROW_BYTES_LEAST;
  let rows = measure(rowBytes);
  for (let power = 0; power < 24 && heightOf(rows, owners, ratio, low) > height; power++) {
    const before = rows;
    for (const step of STEPS) {
      rowBytes = ROW_BYTES_LEAST * 2 ** power * step;
      rows = measure(rowBytes);
      if (heightOf(rows, owners, ratio, low) <= height) break;
    }
    const isUseless = power > 3 && rows > before * GAIN_LEAST && rows < 4 * owners;
    if (isUseless) break;
  }
  const spare = height - heightOf(rows, owners, ratio, low);
  const rowHeight = Math.min(Math.round(ROW_MOST * ratio), low + Math.max(0, Math.floor(spare / Math.max(1, rows))));
  return { width, ratio, rowBytes, rowHeight };
}

export function layOut(mapped: Mapped, scale: Scale): Layout {
  const { ratio, rowHeight } = scale;
  const parts: Part[] = [];
  const begins: { owner: number; row: number }[] = [];
  const count = flow(mapped, scale, (part) => { parts.push(part); }, (owner, row) => { begins.push({ owner, row }); });
  const [heading, gap, after] = [HEADING, ROW_GAP, OWNER_GAP].map((css) => Math.round(css * ratio)) as
    [number, number, number];
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
    y += rowHeight + gap;
  }
  return { parts, rows, headings, height: Math.max(1, y) };
}
