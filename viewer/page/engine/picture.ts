// A picture of ids: one column of pixels after another, each from its top to its bottom.

import { type Columns, EDGE, NOTHING } from "./protocol.ts";

/** A picture is two buffers and its columns; one is drawn while another is shown. */
const SPARES_MAX = 8;

/** Buffers that were sent to the page and came back: a picture is megabytes, and new pages of memory are slow. */
export class Spares {
  private spares: ArrayBuffer[] = [];

  /** So many zeros. */
  take(length: number): Uint32Array<ArrayBuffer> {
    const place = this.spares.findIndex((spare) => spare.byteLength === 4 * length);
    if (place < 0) return new Uint32Array(length);
    return new Uint32Array(this.spares.splice(place, 1)[0]!).fill(0);
  }

  give(buffers: ArrayBuffer[]): void {
    this.spares = [...buffers, ...this.spares].slice(0, SPARES_MAX);
  }
}

/** Spans of at least this height get an edge above them. */
const EDGED_PIXELS = 3;

export class Picture {
  readonly ids: Uint32Array<ArrayBuffer>;
  /** Rows below this one, counted from the bottom, are allocated at every moment of the column. */
  readonly leastRow: Int32Array;
  private readonly scale: number;

  constructor(
    readonly width: number,
    readonly height: number,
    private readonly bottomBytes: number,
    topBytes: number,
    spares: Spares,
  ) {
    this.ids = spares.take(width * height);
    this.leastRow = new Int32Array(width);
    this.scale = height / Math.max(1, topBytes - bottomBytes);
  }

  /** The row, counted from the bottom, at which a stack of so many bytes ends. */
  row(bytes: number): number {
    const row = Math.floor((bytes - this.bottomBytes) * this.scale + 0.5);
    return row <= 0 ? 0 : row >= this.height ? this.height : row;
  }

  /** The least bytes whose row is above this one. */
  bytesAbove(row: number): number {
    return row >= this.height ? Infinity : this.bottomBytes + (row + 0.5) / this.scale;
  }

  /** Copies the lowest rows of the column before. */
  copy(x: number, rows: number): void {
    const bottom = x * this.height;
    this.ids.copyWithin(bottom + this.height - rows, bottom - rows, bottom);
  }

  /** Fills rows `from` to `to` of column `x`, counted from the bottom. */
  span(x: number, from: number, to: number, id: number): void {
    const bottom = (x + 1) * this.height;
    const { ids } = this;
    if (to - from > 24) ids.fill(id, bottom - to, bottom - from);
    else for (let i = bottom - to; i < bottom - from; i++) ids[i] = id;
    if (to - from >= EDGED_PIXELS) ids[bottom - to] = id + EDGE;
  }

  /** Draws column `x` as the one before it. */
  repeat(x: number): void {
    this.ids.copyWithin(x * this.height, (x - 1) * this.height, x * this.height);
    this.leastRow[x] = this.leastRow[x - 1]!;
  }

  idAt(x: number, y: number): number {
    return (this.ids[x * this.height + y] ?? NOTHING) & ~EDGE;
  }
}

const COLUMN_ARRAYS = ["moment", "allocated", "allocatedLeast", "active", "reservedMost", "reservedLeast"] as const;

/** What columns show, before pixels: filled by the levels of detail and by the blocks. All arrays share one buffer. */
export function newColumns(width: number, spares: Spares): Columns {
  const { buffer } = spares.take(COLUMN_ARRAYS.length * 2 * width);
  const arrays = COLUMN_ARRAYS.map((name, place) => [name, new Float64Array(buffer, 8 * width * place, width)]);
  return Object.fromEntries(arrays) as Columns;
}

/** A copy to send away. */
export function copyColumns(columns: Columns, spares: Spares): Columns {
  const copy = newColumns(columns.moment.length, spares);
  for (const name of COLUMN_ARRAYS) copy[name].set(columns[name]);
  return copy;
}
