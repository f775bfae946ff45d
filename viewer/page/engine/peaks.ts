// The moment with the most allocated bytes in any part of a run: a tree of the highest moments.

import { type LivesNode, NO_END } from "../format/lives.ts";

export class Peaks {
  /** At each moment. */
  readonly allocated: Float64Array;
  /** Node `n` is above `2n` and `2n + 1`; leaf `moments + m` is moment `m`. */
  private readonly highest: Uint32Array;

  /** From the lives of the whole run. */
  constructor(nodes: LivesNode[], sizeOf: ArrayLike<number>, readonly moments: number) {
    this.allocated = new Float64Array(moments);
    for (const { start, end, kind } of nodes) {
      for (let i = 0; i < start.length; i++) {
        const bytes = sizeOf[kind[i]!] ?? 0;
        this.allocated[start[i]!]! += bytes;
        if (end[i]! !== NO_END) this.allocated[end[i]!]! -= bytes;
      }
    }
    let sum = 0;
    for (let moment = 0; moment < moments; moment++) this.allocated[moment] = sum += this.allocated[moment]!;
    this.highest = new Uint32Array(2 * moments);
    for (let moment = 0; moment < moments; moment++) this.highest[moments + moment] = moment;
    for (let node = moments - 1; node > 0; node--) {
      this.highest[node] = this.higher(this.highest[2 * node]!, this.highest[2 * node + 1]!);
    }
  }

  private higher(a: number, b: number): number {
    const more = this.allocated[a]! - this.allocated[b]! || b - a;
    return more >= 0 ? a : b;
  }

  /** The first of the moments with the most bytes from `from` to before `to`, at least one moment. */
  in(from: number, to: number): number {
    const { moments, highest } = this;
    let best = Math.min(from, moments - 1);
    let [low, high] = [best + moments, Math.min(Math.max(to, best + 1), moments) + moments];
    for (; low < high; low >>= 1, high >>= 1) {
      if ((low & 1) === 1) best = this.higher(best, highest[low++]!);
      if ((high & 1) === 1) best = this.higher(best, highest[--high]!);
    }
    return best;
  }
}
