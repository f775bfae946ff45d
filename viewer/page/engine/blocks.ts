// The blocks of a window: who is alive when, in the order of the stack.

import { EMPTY_NODE, type Kinds, type LivesNode } from "../format/lives.ts";
import type { Dataset } from "./dataset.ts";
import { shadeOf } from "./paint.ts";
import type { Scratch } from "./scratch.ts";

let lastNumber = 0;

/** Blocks that are in the stack at some moment of `from` to `to`, ordered by group, then start. */
export interface BlockSet {
  number: number;
  grouping: number;
  from: number;
  to: number;
  count: number;
  /** Where each block's life is. */
  nodes: LivesNode[];
  node: Uint32Array;
  place: Uint32Array;
  start: Uint32Array;
  end: Uint32Array;
  group: Uint32Array;
  /** The entry in a palette's shades. */
  shade: Uint32Array;
  size: Float64Array;
  /** Events of moment `m` are `events[eventsAt[m - from]]` and on: twice a block, plus 1 if it ends. */
  eventsAt: Uint32Array;
  events: Uint32Array;
  /** Allocated bytes at each moment. */
  allocated: Float64Array;
}

/** The nodes of a window, null while some are on the way. */
export function nodesOf(data: Dataset, from: number, to: number): LivesNode[] | null {
  const { leaf_moments: leaf, height } = data.device.lives;
  const nodes: LivesNode[] = [];
  let isWaiting = false;
  for (let h = height; h >= 0; h--) {
    const size = leaf * 2 ** h;
    const last = Math.min(Math.floor((to - 1) / size), Math.ceil(data.device.moments / size) - 1);
    for (let place = Math.floor(from / size); place <= last; place++) {
      const node = data.lives(h, place);
      if (node === undefined) isWaiting = true;
      nodes.push(node ?? EMPTY_NODE);
    }
  }
  return isWaiting ? null : nodes;
}

/** The blocks of a window before they are ordered: a node and a place in it for each. */
interface Found {
  count: number;
  node: Uint32Array;
  place: Uint32Array;
}

function overlapping(nodes: LivesNode[], from: number, to: number, scratch: Scratch): Found {
  const most = nodes.reduce((sum, node) => sum + node.start.length, 0);
  const both = scratch.u32("found", 2 * most);
  const [node, place] = [both.subarray(0, most), both.subarray(most)];
  let count = 0;
  nodes.forEach(({ start, end }, number) => {
    for (let i = 0; i < start.length && start[i]! < to; i++) {
      if (end[i]! <= from) continue;
      node[count] = number;
      place[count++] = i;
    }
  });
  return { count, node, place };
}

/** The order by start, then group, and spare memory of its length. A stable order by 16 bits of a key at a time. */
function sorted(count: number, start: Uint32Array, group: Uint32Array, groups: number, last: number,
  scratch: Scratch): [Uint32Array, Uint32Array] {
  let [places, spare] = [scratch.u32("order", count), scratch.u32("other order", count)];
  for (let i = 0; i < count; i++) places[i] = i;
  const counts = new Uint32Array(65537);
  const passes: [Uint32Array, number][] = [[start, 0], [group, 0]];
  if (last > 0xffff) passes.splice(1, 0, [start, 16]);
  if (groups > 0xffff) passes.push([group, 16]);
  for (const [key, shift] of passes) {
    counts.fill(0);
    for (let i = 0; i < count; i++) counts[((key[i]! >>> shift) & 0xffff) + 1]!++;
    for (let i = 1; i < counts.length; i++) counts[i]! += counts[i - 1]!;
    for (let i = 0; i < count; i++) {
      const place = places[i]!;
      spare[counts[(key[place]! >>> shift) & 0xffff]!++] = place;
    }
    [places, spare] = [spare, places];
  }
  return [places, spare];
}

/** Makes a set in the memory of the one before, which must not be used any more. */
export function makeBlockSet(data: Dataset, grouping: number, kinds: Kinds, nodes: LivesNode[], from: number,
  to: number, scratch: Scratch): BlockSet {
  const found = overlapping(nodes, from, to, scratch);
  const { count } = found;
  const groupOfKind = kinds.groups[data.kindGroup(grouping)] ?? new Float64Array();
  const groups = data.device.groupings[grouping]?.groups ?? 0;
  const [starts, groupOf] = [scratch.u32("found starts", count), scratch.u32("found groups", count)];
  for (let i = 0; i < count; i++) {
    const node = nodes[found.node[i]!]!;
    const place = found.place[i]!;
    starts[i] = node.start[place]!;
    groupOf[i] = Math.min(groupOfKind[node.kind[place]!] ?? 0, Math.max(0, groups - 1));
  }
  const [order, shade] = sorted(count, starts, groupOf, groups, to, scratch);
  const set: BlockSet = {
    number: ++lastNumber, grouping, from, to, count, nodes, node: scratch.u32("node", count),
    place: scratch.u32("place", count), start: scratch.u32("start", count), end: scratch.u32("end", count),
    group: scratch.u32("group", count), shade, size: scratch.f64("size", count),
    eventsAt: scratch.u32("events at", to - from + 1, true), events: new Uint32Array(),
    allocated: scratch.f64("allocated", to - from, true),
  };
  for (let block = 0; block < count; block++) {
    const i = order[block]!;
    const node = nodes[found.node[i]!]!;
    const place = found.place[i]!;
    const kind = node.kind[place]!;
    set.node[block] = found.node[i]!;
    set.place[block] = place;
    set.start[block] = node.start[place]!;
    set.end[block] = node.end[place]!;
    set.group[block] = groupOf[i]!;
    set.shade[block] = shadeOf(groupOf[i]!, kind);
    set.size[block] = kinds.size[kind] ?? 0;
  }
  orderEvents(set, scratch);
  return set;
}

/** Sorts starts and ends by moment, and adds up the allocated bytes. */
function orderEvents(set: BlockSet, scratch: Scratch): void {
  const { from, to, count, start, end, size, eventsAt, allocated } = set;
  const isIn = (moment: number): boolean => moment > from && moment < to;
  let total = 0;
  for (let block = 0; block < count; block++) {
    if (start[block]! <= from) total += size[block]!;
    if (isIn(start[block]!)) {
      eventsAt[start[block]! - from]!++;
      allocated[start[block]! - from]! += size[block]!;
    }
    if (isIn(end[block]!)) {
      eventsAt[end[block]! - from]!++;
      allocated[end[block]! - from]! -= size[block]!;
    }
  }
  // First the ends of the moments' events; putting the events in, from their ends, leaves the beginnings.
  let sum = 0;
  for (let i = 0; i < eventsAt.length; i++) eventsAt[i] = sum += eventsAt[i]!;
  set.events = scratch.u32("found", sum); // The found lives are not read after this.
  for (let block = 0; block < count; block++) {
    if (isIn(start[block]!)) set.events[--eventsAt[start[block]! - from]!] = block * 2;
    if (isIn(end[block]!)) set.events[--eventsAt[end[block]! - from]!] = block * 2 + 1;
  }
  for (let i = 0; i < allocated.length; i++) allocated[i] = total += allocated[i]!;
}
