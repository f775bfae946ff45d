// The lives that a picture of segments needs, over a window and some moments beside it.

import type { LivesNode } from "../format/lives.ts";
import { SERIES_TILE_COLUMNS } from "../format/columns.ts";
import type { Dataset } from "./dataset.ts";
import { EXACT_MOMENTS_MAX, levelFor } from "./levels.ts";

/** Nodes asked for at a time: all at once would not fit into the memory that chunks may take. */
const ASKED_MAX = 8;
/** Moments beside a window whose lives are made ready with it. */
const MARGIN_MIN = 4096;

/** Lives in memory that grows; a node of lives for those that read one. */
class LifeList {
  count = 0;
  start = new Uint32Array(4096);
  end = new Uint32Array(4096);
  kind = new Uint32Array(4096);
  address = new Float64Array(4096);
  isOlder = new Uint8Array(4096);

  add(node: LivesNode, place: number): void {
    if (this.count === this.start.length) this.grow();
    const at = this.count++;
    this.start[at] = node.start[place]!;
    this.end[at] = node.end[place]!;
    this.kind[at] = node.kind[place]!;
    this.address[at] = node.address[place]!;
    this.isOlder[at] = node.isOlder[place]!;
  }

  /** The lives that are there now, whatever comes later. */
  now(): LivesNode & { count: number } {
    const { count, start, end, kind, address, isOlder } = this;
    return { count, start, end, kind, address, isOlder };
  }

  private grow(): void {
    const u32 = (old: Uint32Array): Uint32Array<ArrayBuffer> => {
      const made = new Uint32Array(2 * old.length);
      made.set(old);
      return made;
    };
    [this.start, this.end, this.kind] = [u32(this.start), u32(this.end), u32(this.kind)];
    const address = new Float64Array(2 * this.address.length);
    address.set(this.address);
    this.address = address;
    const isOlder = new Uint8Array(2 * this.isOlder.length);
    isOlder.set(this.isOlder);
    this.isOlder = isOlder;
  }
}

/** Lives of moments `from` to before `to`: all, or those alive at the peak of a column of a level. */
export class Region {
  readonly lives = new LifeList();
  /** Allocated bytes at each moment, where all lives are there. */
  readonly allocated: Float64Array | null;
  private pending: [number, number][] = [];

  private constructor(
    readonly data: Dataset,
    /** -1: all lives. */
    readonly level: number,
    readonly from: number,
    readonly to: number,
    /** The peak moment of each column of the level, from the one that has `from`. */
    private readonly peaks: Float64Array | null,
  ) {
    this.allocated = peaks === null ? new Float64Array(to - from) : null;
    const { leaf_moments: leaf, height } = data.device.lives;
    for (let h = height; h >= 0; h--) {
      const size = leaf * 2 ** h;
      for (let place = Math.floor(from / size); place * size < to; place++) this.pending.push([h, place]);
    }
  }

  /** The region for a window, or null while the counters of its columns are on the way. */
  static of(data: Dataset, from: number, to: number, width: number): Region | null {
    const { moments } = data.device;
    const isExact = to - from <= EXACT_MOMENTS_MAX;
    const margin = Math.max(MARGIN_MIN, Math.ceil((to - from) / (isExact ? 4 : 1)));
    const [low, high] = [Math.max(0, from - margin), Math.min(moments, to + margin)];
    if (isExact) return new Region(data, -1, low, high, null);
    const level = levelFor(data.device, to - from, width);
    const size = data.device.levels[level]!.column_moments;
    const first = Math.floor(low / size);
    const peaks = new Float64Array(Math.ceil(high / size) - first);
    for (let i = 0; i < peaks.length; i++) {
      const tile = data.series(level, Math.floor((first + i) / SERIES_TILE_COLUMNS));
      if (tile === undefined || tile === null) return null;
      peaks[i] = (first + i) * size + (tile.offset[(first + i) % SERIES_TILE_COLUMNS] ?? 0);
    }
    return new Region(data, level, first * size, high, peaks);
  }

  isFor(data: Dataset, from: number, to: number, width: number): boolean {
    const level = to - from <= EXACT_MOMENTS_MAX ? -1 : levelFor(data.device, to - from, width);
    return this.data === data && this.level === level && this.from <= from && this.to >= to;
  }

  /** Nodes that are not read yet. */
  get waiting(): number {
    return this.pending.length;
  }

  /** Reads the nodes that have arrived, and asks for more. */
  advance(sizeOf: ArrayLike<number>): void {
    if (this.pending.length === 0) return;
    let asked = 0;
    this.pending = this.pending.filter(([h, place]) => {
      if (asked >= ASKED_MAX) return true;
      const node = this.data.lives(h, place);
      if (node === undefined) {
        asked++;
        return true;
      }
      if (node !== null) this.read(node, sizeOf);
      return false;
    });
    if (this.pending.length === 0) this.addUp();
  }

  private read(node: LivesNode, sizeOf: ArrayLike<number>): void {
    const { from, to, allocated, lives } = this;
    const { start, end, kind } = node;
    for (let i = 0; i < start.length && start[i]! < to; i++) {
      if (end[i]! <= from || !this.isSeen(Math.max(start[i]!, from), end[i]!)) continue;
      lives.add(node, i);
      if (allocated === null) continue;
      const bytes = sizeOf[kind[i]!] ?? 0;
      allocated[Math.max(start[i]!, from) - from]! += bytes;
      if (end[i]! < to) allocated[end[i]! - from]! -= bytes;
    }
  }

  /** Whether a column's peak is in a life. Columns do not overlap, so one of the first two is. */
  private isSeen(start: number, end: number): boolean {
    const { peaks, from } = this;
    if (peaks === null) return true;
    const column = Math.floor((start - from) / this.data.device.levels[this.level]!.column_moments);
    const peak = peaks[column]!;
    return peak >= start ? peak < end : column + 1 < peaks.length && peaks[column + 1]! < end;
  }

  private addUp(): void {
    let sum = 0;
    this.allocated?.forEach((change, i, all) => { all[i] = sum += change; });
  }
}
