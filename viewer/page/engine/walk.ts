// Walks a window's blocks from moment to moment. Sums over 32 and 1,024 neighbours in the order of the stack let a
// column skip blocks that end in the same pixel.

import type { BlockSet } from "./blocks.ts";
import type { Picture } from "./picture.ts";
import { FIRST_ID } from "./protocol.ts";
import type { Tally } from "./tally.ts";

export class Walk {
  /** Blocks that have been in a stack since `begin`. */
  private readonly alive: Uint32Array;
  private readonly wordBytes: Float64Array;
  private readonly rowBytes: Float64Array;
  private readonly groupBytes: Float64Array;
  private now: number;
  private hasBegun = false;

  constructor(
    private readonly set: BlockSet,
    groups: number,
    private readonly tally: Tally | null,
  ) {
    const words = (set.count + 31) >>> 5;
    this.alive = new Uint32Array(words);
    this.wordBytes = new Float64Array(words);
    this.rowBytes = new Float64Array((words + 31) >>> 5);
    this.groupBytes = new Float64Array(groups);
    this.now = set.from;
    for (let block = 0; block < set.count; block++) if (set.start[block]! <= set.from) this.flip(block, 1);
  }

  private flip(block: number, sign: 1 | -1): void {
    const word = block >>> 5;
    const bytes = sign * this.set.size[block]!;
    this.alive[word]! ^= 1 << (block & 31);
    this.wordBytes[word]! += bytes;
    this.rowBytes[word >>> 5]! += bytes;
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

  /** Draws the stack; returns its top row and its bytes. */
  draw(picture: Picture, x: number): [number, number] {
    const { set, alive, wordBytes, rowBytes } = this;
    const { size } = set;
    let sum = 0;
    let row = picture.row(0);
    for (let r = 0; r < rowBytes.length; r++) {
      const inRow = rowBytes[r]!;
      if (inRow === 0) continue;
      if (picture.row(sum + inRow) === row) {
        sum += inRow;
        continue;
      }
      const end = Math.min((r + 1) << 5, alive.length);
      for (let word = r << 5; word < end; word++) {
        const inWord = wordBytes[word]!;
        if (inWord === 0) continue;
        if (picture.row(sum + inWord) === row) {
          sum += inWord;
          continue;
        }
        for (let bits = alive[word]!; bits !== 0; bits &= bits - 1) {
          const block = (word << 5) + 31 - Math.clz32(bits & -bits);
          sum += size[block]!;
          const next = picture.row(sum);
          if (next > row) picture.span(x, row, next, block + FIRST_ID);
          row = next;
        }
      }
    }
    return [row, sum];
  }

  /** The blocks of the stack, from the bottom. */
  blocks(): number[] {
    const found: number[] = [];
    this.alive.forEach((word, place) => {
      for (let bits = word; bits !== 0; bits &= bits - 1) found.push((place << 5) + 31 - Math.clz32(bits & -bits));
    });
    return found;
  }
}
