// Envelopes of private pools: how high each is at any moment.

import { ArrayReader } from "./varint.ts";

/** The heights of one envelope: `bytes[i]` from moment `moment[i]` to the next. It never falls. */
export interface Envelope {
  moment: Uint32Array;
  bytes: Float64Array;
}

/** By group of the grouping; null for a group without an envelope. */
export type Envelopes = (Envelope | null)[];

export function decodeEnvelopes(chunk: string, data: Uint8Array, groupCount: number): Envelopes {
  const reader = new ArrayReader(data, chunk);
  if (reader.isAtEnd) return [];
  const [moments, groups, sizes] = [reader.rising(), reader.plain(), reader.plainBytes()];
  reader.same(moments.length, groups, sizes);
  reader.end();
  const changes: [number, number][][] = Array.from({ length: groupCount }, () => []);
  moments.forEach((moment, i) => {
    const list = changes[groups[i]!] ?? reader.fail(`has group ${groups[i]!} of ${groupCount}`);
    list.push([moment, sizes[i]! + (list.at(-1)?.[1] ?? 0)]);
  });
  return changes.map((list) => (list.length === 0 ? null
    : { moment: Uint32Array.from(list, ([moment]) => moment), bytes: Float64Array.from(list, ([, bytes]) => bytes) }));
}

/** The height at a moment. */
export function heightAt({ moment, bytes }: Envelope, at: number): number {
  let [low, high] = [0, moment.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (moment[middle]! <= at) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : bytes[low - 1]!;
}
