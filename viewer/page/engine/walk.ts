// Walks a window's blocks from moment to moment. Two things make a column cheap: sums over neighbours in the order of
// the stack skip blocks that end in the same pixel, and what lies below the lowest change is that of the column before.

import type { BlockSet } from "./blocks.ts";
import type { Picture } from "./picture.ts";
import { FIRST_ID } from "./protocol.ts";
import type { Tally } from "./tally.ts";

/** Blocks whose bytes are summed: 32 in a word, 8 words in a part. */
const WORD = 5;
const PART = 3;

export class Walk {
  /** A bit for each block that is in the stack now. */
  private readonly alive: Uint32Array;
  private readonly wordBytes: Float64Array;
  private readonly partBytes: Float64Array;
  /** Where each part began in the column drawn last: bytes, and the row. */
  private readonly partStart: Float64Array;
  private readonly partRow: Int32Array;
  /** The first part that has changed since. */
  private changed = 0;
  private readonly groupBytes: Float64Array;
  private now: number;
  private hasBegun = false;

  constructor(
    private readonly set: BlockSet,
    groups: number,
    private readonly tally: Tally | null,
  ) {
    const words = (set.count + 31) >>> WORD;
    this.alive = new Uint32Array(words);
    this.wordBytes = new Float64Array(words);
    const parts = (words + (1 << PART) - 1) >>> PART;
    this.partBytes = new Float64Array(parts);
    this.partStart = new Float64Array(parts + 1);
    this.partRow = new Int32Array(parts + 1);
    this.groupBytes = new Float64Array(groups);
    this.now = set.from;
    for (let block = 0; block < set.count; block++) if (set.start[block]! <= set.from) this.flip(block, 1);
  }

  private flip(block: number, sign: 1 | -1): void {
    const word = block >>> WORD;
    const part = word >>> PART;
    const bytes = sign * this.set.size[block]!;
    this.alive[word]! ^= 1 << (block & 31);
    this.wordBytes[word]! += bytes;
    this.partBytes[part]! += bytes;
    if (part < this.changed) this.changed = part;
    this.groupBytes[this.set.group[block]!]! += bytes;
  }

  /** Goes on to a moment. From `seenFrom` on, the most of each group is noted. */
  advance(moment: number, seenFrom: number): void {
    const { set, tally } = this;
    const { events, eventsAt } = set;
    if (tally !== null && !this.hasBegun && moment >= seenFrom) {
      this.hasBegun = true;
      this.step(eventsAt[this.now + 1 - set.from]!, eventsAt[seenFrom + 1 - set.from]!);
      this.now = seenFrom;
      this.groupBytes.forEach((bytes, group) => {
        tally.see(group, bytes, false);
      });
    }
    const from = eventsAt[Math.min(this.now + 1 - set.from, set.to - set.from)]!;
    const to = eventsAt[Math.min(moment + 1 - set.from, set.to - set.from)]!;
    this.now = Math.max(this.now, moment);
    this.step(from, to);
    if (tally === null || moment < seenFrom) return;
    for (let i = from; i < to; i++) {
      const group = set.group[events[i]! >>> 1]!;
      tally.see(group, this.groupBytes[group]!, false);
    }
  }

  private step(from: number, to: number): void {
    const { events } = this.set;
    for (let i = from; i < to; i++) this.flip(events[i]! >>> 1, (events[i]! & 1) === 0 ? 1 : -1);
  }

  /** Notes the bytes of each group here as those of the window's peak. */
  notePeak(): void {
    this.groupBytes.forEach((bytes, group) => {
      if (bytes > 0) this.tally?.see(group, bytes, true);
    });
  }

  /** Draws the stack in column `x`, after that in the column before it; returns its top row and its bytes. */
  draw(picture: Picture, x: number): [number, number] {
    const { set, alive, wordBytes, partBytes, partStart, partRow } = this;
    const { size } = set;
    const first = x === 0 ? 0 : this.changed;
    let sum = first === 0 ? 0 : partStart[first]!;
    let row = first === 0 ? picture.row(0) : partRow[first]!;
    if (first > 0) picture.copy(x, row);
    // No block ends in a higher row before this.
    let limit = picture.bytesAbove(row);
    const parts = partBytes.length;
    for (let part = first; part < parts; part++) {
      partStart[part] = sum;
      partRow[part] = row;
      if (sum + partBytes[part]! < limit) {
        sum += partBytes[part]!;
        continue;
      }
      const end = Math.min((part + 1) << PART, alive.length);
      for (let word = part << PART; word < end; word++) {
        if (sum + wordBytes[word]! < limit) {
          sum += wordBytes[word]!;
          continue;
        }
        for (let bits = alive[word]!; bits !== 0; bits &= bits - 1) {
          const block = (word << WORD) + 31 - Math.clz32(bits & -bits);
          sum += size[block]!;
          if (sum < limit) continue;
          const next = picture.row(sum);
          picture.span(x, row, next, block + FIRST_ID);
          row = next;
          limit = picture.bytesAbove(row);
        }
      }
    }
    this.changed = parts;
    partStart[parts] = sum;
    partRow[parts] = row;
    return [row, sum];
  }

  /** Draws the blocks of a range of the order in column `x`, from a number of bytes on; returns their bytes. */
  drawRange(picture: Picture, x: number, first: number, end: number, base: number): number {
    if (end <= first) return 0;
    const { set: { size }, alive, wordBytes, partBytes } = this;
    let [sum, row] = [base, picture.row(base)];
    let limit = picture.bytesAbove(row);
    const lastWord = (end - 1) >>> WORD;
    for (let word = first >>> WORD; word <= lastWord; word++) {
      const [from, to] = [word << WORD, (word + 1) << WORD];
      if (from >= first && to <= end) {
        const part = word >>> PART;
        if (word === part << PART && to + (((1 << PART) - 1) << WORD) <= end && sum + partBytes[part]! < limit) {
          sum += partBytes[part]!;
          word += (1 << PART) - 1;
          continue;
        }
        if (sum + wordBytes[word]! < limit) {
          sum += wordBytes[word]!;
          continue;
        }
      }
      for (let bits = alive[word]!; bits !== 0; bits &= bits - 1) {
        const block = from + 31 - Math.clz32(bits & -bits);
        if (block < first || block >= end) continue;
        sum += size[block]!;
        if (sum < limit) continue;
        const next = picture.row(sum);
        picture.span(x, row, next, block + FIRST_ID);
        row = next;
        limit = picture.bytesAbove(row);
      }
    }
    return sum - base;
  }

  /** The blocks of the stack, from the bottom. */
  blocks(): number[] {
    const found: number[] = [];
    this.alive.forEach((word, place) => {
      for (let bits = word; bits !== 0; bits &= bits - 1) found.push((place << WORD) + 31 - Math.clz32(bits & -bits));
    });
    return found;
  }
}
