// The addresses at one moment: mapped ranges, the blocks in them, and the holes between the blocks.

import type { Kinds, LivesNode } from "../format/lives.ts";
import type { Ranges } from "../format/ranges.ts";

/** Mapped ranges, by owner and address; those of an expandable segment that touch are one. */
export interface Mapped {
  count: number;
  owner: Uint32Array;
  address: Float64Array;
  size: Float64Array;
}

/** What fills the ranges. Things are blocks and holes, by range and address; they cover each range without a gap. */
export interface Addresses {
  mapped: Mapped;
  /** The things of range `r` are `thingsAt[r]` to `thingsAt[r + 1]`. */
  thingsAt: Uint32Array;
  address: Float64Array;
  size: Float64Array;
  /** The node and the place in it of a block's life; the node of a hole is -1. */
  node: Int32Array;
  place: Uint32Array;
  nodes: LivesNode[];
  blocks: number;
  allocated_bytes: number;
  reserved_bytes: number;
  holes: number;
  largest_hole_bytes: number;
  /** Blocks that no range covers, or that overlap the one before them. */
  misplaced: number;
}

export function mappedAt(ranges: Ranges, moment: number): Mapped {
  const found: number[] = [];
  for (let i = 0; i < ranges.start.length && ranges.start[i]! <= moment; i++) {
    if (ranges.end[i]! > moment) found.push(i);
  }
  const { owner, address, size, isExpandable } = ranges;
  found.sort((a, b) => owner[a]! - owner[b]! || address[a]! - address[b]!);
  const mapped: Mapped = { count: 0, owner: new Uint32Array(found.length), address: new Float64Array(found.length),
    size: new Float64Array(found.length) };
  let before = -1;
  for (const i of found) {
    const last = mapped.count - 1;
    const isJoined = before >= 0 && isExpandable[i] === 1 && isExpandable[before] === 1 && owner[i] === owner[before]
      && address[i] === mapped.address[last]! + mapped.size[last]!;
    before = i;
    if (isJoined) {
      mapped.size[last]! += size[i]!;
      continue;
    }
    mapped.owner[mapped.count] = owner[i]!;
    mapped.address[mapped.count] = address[i]!;
    mapped.size[mapped.count++] = size[i]!;
  }
  return mapped;
}

/** The lives of the nodes that cover a moment, by address. */
function aliveAt(nodes: LivesNode[], moment: number): { node: number; place: number; address: number }[] {
  const alive: { node: number; place: number; address: number }[] = [];
  nodes.forEach(({ start, end, address }, node) => {
    for (let place = 0; place < start.length && start[place]! <= moment; place++) {
      if (end[place]! > moment) alive.push({ node, place, address: address[place]! });
    }
  });
  return alive.sort((a, b) => a.address - b.address);
}

export function addressesAt(ranges: Ranges, kinds: Kinds | null, nodes: LivesNode[], moment: number): Addresses {
  const mapped = mappedAt(ranges, moment);
  const alive = kinds === null ? [] : aliveAt(nodes, moment);
  // A hole before each block, and one at the end of each range, at most.
  const most = 2 * alive.length + mapped.count;
  const out: Addresses = {
    mapped, thingsAt: new Uint32Array(mapped.count + 1), address: new Float64Array(most), size: new Float64Array(most),
    node: new Int32Array(most), place: new Uint32Array(most), nodes, blocks: 0, allocated_bytes: 0, reserved_bytes: 0,
    holes: 0, largest_hole_bytes: 0, misplaced: 0,
  };
  let things = 0;
  const put = (address: number, size: number, node: number, place: number): void => {
    out.address[things] = address;
    out.size[things] = size;
    out.node[things] = node;
    out.place[things++] = place;
  };
  const hole = (from: number, to: number): void => {
    if (to <= from) return;
    put(from, to - from, -1, 0);
    out.holes++;
    out.largest_hole_bytes = Math.max(out.largest_hole_bytes, to - from);
  };
  for (let range = 0; range < mapped.count; range++) {
    out.thingsAt[range] = things;
    let at = mapped.address[range]!;
    const end = at + mapped.size[range]!;
    out.reserved_bytes += mapped.size[range]!;
    for (let i = firstFrom(alive, at); i < alive.length && alive[i]!.address < end; i++) {
      const { node, place, address } = alive[i]!;
      const size = kinds?.size[nodes[node]!.kind[place]!] ?? 0;
      if (address < at || address + size > end) continue;
      hole(at, address);
      put(address, size, node, place);
      out.blocks++;
      out.allocated_bytes += size;
      at = address + size;
    }
    hole(at, end);
  }
  out.thingsAt[mapped.count] = things;
  out.misplaced = alive.length - out.blocks;
  return out;
}

/** The place of the first life at or behind an address. */
function firstFrom(alive: { address: number }[], address: number): number {
  let [low, high] = [0, alive.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (alive[middle]!.address < address) low = middle + 1;
    else high = middle;
  }
  return low;
}
