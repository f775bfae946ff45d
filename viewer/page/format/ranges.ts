// The mapped ranges of addresses, and the reserved bytes that they add up to.

import { NO_END } from "./lives.ts";
import { ArrayReader } from "./varint.ts";

const NONE = new Float64Array();

/** Reserved bytes: `bytes[i]` from moment `moment[i]` to the next. */
export interface Reserved {
  moment: Uint32Array;
  bytes: Float64Array;
}

/** Mapped ranges, ordered by start. */
export interface Ranges {
  start: Uint32Array;
  end: Uint32Array;
  address: Float64Array;
  size: Float64Array;
  owner: Uint32Array;
  isExpandable: Uint8Array;
  reserved: Reserved;
}

export function decodeRanges(chunk: string, data: Uint8Array): Ranges {
  const reader = new ArrayReader(data, chunk);
  const [starts, lengths] = reader.isAtEnd ? [NONE, NONE] : [reader.rising(), reader.plain()];
  const [address, size] = reader.isAtEnd ? [NONE, NONE] : [reader.deltaBytes(), reader.plainBytes()];
  const [owner, isExpandable] = reader.isAtEnd ? [NONE, NONE] : [reader.plain(), reader.plain()];
  reader.same(starts.length, lengths, address, size, owner, isExpandable);
  reader.end();
  return {
    start: Uint32Array.from(starts), end: Uint32Array.from(lengths, (n, i) => (n === 0 ? NO_END : starts[i]! + n)),
    address, size, owner: Uint32Array.from(owner), isExpandable: Uint8Array.from(isExpandable),
    reserved: reservedOf(starts, lengths, size),
  };
}

export const EMPTY_RANGES = decodeRanges("", new Uint8Array());

function reservedOf(starts: Float64Array, lengths: Float64Array, sizes: Float64Array): Reserved {
  const changes = new Map<number, number>([[0, 0]]);
  const add = (moment: number, bytes: number): void => {
    if (moment < NO_END) changes.set(moment, (changes.get(moment) ?? 0) + bytes);
  };
  starts.forEach((start, i) => {
    add(start, sizes[i]!);
    if (lengths[i] !== 0) add(start + lengths[i]!, -sizes[i]!);
  });
  const moment = Uint32Array.from(changes.keys()).sort();
  const bytes = new Float64Array(moment.length);
  let sum = 0;
  moment.forEach((at, i) => {
    bytes[i] = sum += changes.get(at)!;
  });
  return { moment, bytes };
}

/** The place of the last change at or before a moment. */
export function changeAt({ moment }: Reserved, at: number): number {
  let [low, high] = [0, moment.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (moment[middle]! <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}
