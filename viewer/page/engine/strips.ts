// The mapped ranges of a window as strips of addresses. A segment is a strip; segments that had the same addresses one
// after another share one, as do the ranges of an expandable segment.

import type { Ranges } from "../format/ranges.ts";

export interface Strip {
  owner: number;
  address: number;
  size_bytes: number;
  /** Places in `Ranges`, by address. */
  ranges: number[];
  /** How many there are in the window; an expandable one counts once. */
  segments: number;
}

/** The strips of moments `from` to before `to`, by owner and address. */
export function stripsOf(all: Ranges, from: number, to: number): Strip[] {
  const { start, end, owner, address, size, isExpandable } = all;
  const found: number[] = [];
  for (let i = 0; i < start.length && start[i]! < to; i++) if (end[i]! > from) found.push(i);
  found.sort((a, b) => owner[a]! - owner[b]! || address[a]! - address[b]! || start[a]! - start[b]!);
  const strips: Strip[] = [];
  let isLastExpandable = false;
  for (const i of found) {
    const last = strips.at(-1);
    const isOne = isExpandable[i] === 1;
    const lastEnd = last === undefined || last.owner !== owner[i] ? -1 : last.address + last.size_bytes;
    if (last !== undefined && (address[i]! < lastEnd || (address[i] === lastEnd && isOne && isLastExpandable))) {
      last.size_bytes = Math.max(lastEnd, address[i]! + size[i]!) - last.address;
      last.ranges.push(i);
      if (!isOne || !isLastExpandable) last.segments++;
    } else {
      strips.push({ owner: owner[i]!, address: address[i]!, size_bytes: size[i]!, ranges: [i], segments: 1 });
    }
    isLastExpandable = isOne;
  }
  return strips;
}

/** Finds the strip of a block. Strips of different owners can have the same addresses, at different moments. */
export class StripFinder {
  private readonly order: number[];
  private readonly first: Float64Array;
  /** The highest end of this strip and of all before it. */
  private readonly reach: Float64Array;

  constructor(
    private readonly ranges: Ranges,
    private readonly strips: Strip[],
  ) {
    this.order = strips.map((_, place) => place).sort((a, b) => strips[a]!.address - strips[b]!.address);
    this.first = Float64Array.from(this.order, (place) => strips[place]!.address);
    this.reach = new Float64Array(strips.length);
    let most = 0;
    this.order.forEach((place, i) => {
      this.reach[i] = most = Math.max(most, strips[place]!.address + strips[place]!.size_bytes);
    });
  }

  /** The strip that has an address at a moment, or -1. */
  find(address: number, moment: number): number {
    const { first, reach, order, strips } = this;
    let [low, high] = [0, first.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (first[middle]! <= address) low = middle + 1;
      else high = middle;
    }
    for (let i = low - 1; i >= 0 && reach[i]! > address; i--) {
      const strip = strips[order[i]!]!;
      if (address < strip.address + strip.size_bytes && this.isMapped(strip, address, moment)) return order[i]!;
    }
    return -1;
  }

  private isMapped(strip: Strip, address: number, moment: number): boolean {
    return rangeAt(this.ranges, strip, address, moment) >= 0;
  }
}

/** The range of a strip that has an address at a moment, or -1. */
export function rangeAt({ start, end, address: first, size }: Ranges, { ranges }: Strip, address: number,
  moment: number): number {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (first[ranges[middle]!]! <= address) low = middle + 1;
    else high = middle;
  }
  for (let i = low - 1; i >= 0; i--) {
    const range = ranges[i]!;
    if (address < first[range]! + size[range]! && start[range]! <= moment && end[range]! > moment) return range;
  }
  return -1;
}
