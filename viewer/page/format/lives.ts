// Lives of blocks, and the kinds that many lives share.

import { ArrayReader } from "./varint.ts";

/** The end of a life without an end on the tape. */
export const NO_END = 0xffffffff;

/** The lives of one node of the tree, ordered by start. */
export interface LivesNode {
  start: Uint32Array;
  end: Uint32Array;
  kind: Uint32Array;
  address: Float64Array;
  /** 1 for a life that began before the tape. */
  isOlder: Uint8Array;
}

export const EMPTY_NODE: LivesNode = {
  start: new Uint32Array(), end: new Uint32Array(), kind: new Uint32Array(), address: new Float64Array(),
  isOlder: new Uint8Array(),
};

export function decodeLives(chunk: string, data: Uint8Array, firstMoment: number): LivesNode {
  const reader = new ArrayReader(data, chunk);
  if (reader.isAtEnd) return EMPTY_NODE;
  const starts = reader.rising();
  const lengths = reader.plain();
  const kinds = reader.plain();
  const count = starts.length;
  const addressCount = reader.length();
  const unit = reader.unit();
  reader.same(count, lengths, kinds);
  if (addressCount !== count) reader.fail(`has ${addressCount} addresses for ${count} lives`);
  const [start, end, kind] = [new Uint32Array(count), new Uint32Array(count), Uint32Array.from(kinds)];
  const address = new Float64Array(count);
  const last = new Map<number, number>();
  for (let i = 0; i < count; i++) {
    start[i] = firstMoment + starts[i]!;
    end[i] = lengths[i] === 0 ? NO_END : start[i]! + lengths[i]!;
    const code = reader.number();
    const units = (last.get(kind[i]!) ?? 0) + (code % 2 === 0 ? code / 2 : -(code + 1) / 2);
    last.set(kind[i]!, units);
    address[i] = units * unit;
  }
  const isOlder = new Uint8Array(count);
  for (const place of reader.rising()) {
    if (place >= count) reader.fail(`names life ${place} of ${count}`);
    isOlder[place] = 1;
  }
  reader.end();
  return { start, end, kind, address, isOlder };
}

export interface Kinds {
  size: Float64Array;
  requested: Float64Array;
  stack: Float64Array;
  stream: Float64Array;
  pool: Float64Array;
  /** The group of each kind, for each grouping of allocated bytes, in the header's order. */
  groups: Float64Array[];
}

export function decodeKinds(chunk: string, data: Uint8Array): Kinds {
  const reader = new ArrayReader(data, chunk);
  const size = reader.plainBytes();
  const requested = reader.plainBytes();
  const [stack, stream, pool] = [reader.plain(), reader.plain(), reader.plain()];
  reader.same(size.length, requested, stack, stream, pool);
  const groups: Float64Array[] = [];
  while (!reader.isAtEnd) groups.push(reader.plain());
  reader.same(size.length, ...groups);
  return { size, requested, stack, stream, pool, groups };
}
