// Bytes by stack or group: at a moment, or of what was allocated in a window.

import type { LivesNode } from "../format/lives.ts";
import type { Amount } from "./flametree.ts";

/** What each kind has, by a key of the kind. */
class Sums {
  readonly sums = new Map<number, Amount>();

  constructor(
    private readonly keyOf: ArrayLike<number>,
    private readonly size: ArrayLike<number>,
  ) {}

  add(kind: number, sign: 1 | -1): void {
    const key = this.keyOf[kind] ?? 0;
    let sum = this.sums.get(key);
    if (sum === undefined) this.sums.set(key, sum = { bytes: 0, blocks: 0 });
    sum.bytes += sign * (this.size[kind] ?? 0);
    sum.blocks += sign;
  }

  live(nodes: LivesNode[], moment: number, sign: 1 | -1): void {
    for (const { start, end, kind } of nodes) {
      for (let i = 0; i < start.length && start[i]! <= moment; i++) if (end[i]! > moment) this.add(kind[i]!, sign);
    }
  }
}

/** Of the blocks that are allocated at a moment. */
export function liveAt(nodes: LivesNode[], moment: number, keyOf: ArrayLike<number>, size: ArrayLike<number>):
Map<number, Amount> {
  const sums = new Sums(keyOf, size);
  sums.live(nodes, moment, 1);
  return sums.sums;
}

/** Of the allocations from moment `from` to before `to`; blocks that are older than the tape are not among them. */
export function allocatedIn(nodes: LivesNode[], from: number, to: number, keyOf: ArrayLike<number>,
  size: ArrayLike<number>): Map<number, Amount> {
  const sums = new Sums(keyOf, size);
  for (const { start, kind, isOlder } of nodes) {
    for (let i = 0; i < start.length && start[i]! < to; i++) {
      if (start[i]! >= from && isOlder[i] === 0) sums.add(kind[i]!, 1);
    }
  }
  return sums.sums;
}

/** What is allocated at `to` minus what is allocated at `from`. */
export function difference(before: LivesNode[], from: number, after: LivesNode[], to: number,
  keyOf: ArrayLike<number>, size: ArrayLike<number>): Map<number, Amount> {
  const sums = new Sums(keyOf, size);
  sums.live(before, from, -1);
  sums.live(after, to, 1);
  return sums.sums;
}
