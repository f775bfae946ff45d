// The mapped ranges of addresses, and the reserved bytes that they add up to.

import { NO_END } from "./lives.ts";
import { ArrayReader } from "./varint.ts";

/** Reserved bytes: `bytes[i]` from moment `moment[i]` to the next. */
export interface Reserved {
  moment: Uint32Array;
  bytes: Float64Array;
}

export function decodeReserved(chunk: string, data: Uint8Array): Reserved {
  const reader = new ArrayReader(data, chunk);
  if (reader.isAtEnd) return { moment: new Uint32Array(1), bytes: new Float64Array(1) };
  const starts = reader.rising();
  const lengths = reader.plain();
  const addresses = reader.deltaBytes();
  const sizes = reader.plainBytes();
  reader.same(starts.length, lengths, addresses, sizes);
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
