// The blocks of a window: who is alive when, in the order of the stack.

import { EMPTY_NODE, type Kinds, type LivesNode, NO_END } from "../format/lives.ts";
import type { Dataset } from "./dataset.ts";
import { shadeOf } from "./paint.ts";

let lastNumber = 0;

/** Blocks that are in the stack at some moment of `from` to `to`, ordered by group, then start. */
export interface BlockSet {
  number: number;
  grouping: number;
  from: number;
  to: number;
  count: number;
  start: Uint32Array;
  end: Uint32Array;
  group: Uint32Array;
  /** The entry in a palette's shades. */
  shade: Uint32Array;
  kind: Uint32Array;
  size: Float64Array;
  address: Float64Array;
  isOlder: Uint8Array;
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

/** A stable order of `places` by 16 bits of a key. */
function sortBy(places: Uint32Array<ArrayBuffer>, key: Uint32Array, shift: number): Uint32Array<ArrayBuffer> {
  const counts = new Uint32Array(65537);
  for (const place of places) counts[((key[place]! >>> shift) & 0xffff) + 1]!++;
  for (let i = 1; i < counts.length; i++) counts[i]! += counts[i - 1]!;
  const sorted = new Uint32Array(places.length);
  for (const place of places) sorted[counts[(key[place]! >>> shift) & 0xffff]!++] = place;
  return sorted;
}

function sorted(start: Uint32Array, group: Uint32Array, groups: number, last: number): Uint32Array {
  let places = new Uint32Array(start.length);
  for (let place = 0; place < places.length; place++) places[place] = place;
  places = sortBy(places, start, 0);
  if (last > 0xffff) places = sortBy(places, start, 16);
  places = sortBy(places, group, 0);
  if (groups > 0xffff) places = sortBy(places, group, 16);
  return places;
}

/** Blocks of a window in the order of their nodes: a block is a node and a place in it. */
function overlapping(nodes: LivesNode[], from: number, to: number): { node: Uint32Array; place: Uint32Array } {
  const most = nodes.reduce((sum, node) => sum + node.start.length, 0);
  const [node, place] = [new Uint32Array(most), new Uint32Array(most)];
  let count = 0;
  nodes.forEach(({ start, end }, number) => {
    for (let i = 0; i < start.length && start[i]! < to; i++) {
      if (end[i]! <= from) continue;
      node[count] = number;
      place[count++] = i;
    }
  });
  return { node: node.subarray(0, count), place: place.subarray(0, count) };
}

export function makeBlockSet(data: Dataset, grouping: number, kinds: Kinds, nodes: LivesNode[], from: number,
  to: number): BlockSet {
  const found = overlapping(nodes, from, to);
  const count = found.node.length;
  const groupOfKind = kinds.groups[data.kindGroup(grouping)] ?? new Float64Array();
  const groups = data.device.groupings[grouping]?.groups ?? 0;
  const starts = new Uint32Array(count);
  const groupOf = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    const node = nodes[found.node[i]!]!;
    const place = found.place[i]!;
    starts[i] = node.start[place]!;
    groupOf[i] = Math.min(groupOfKind[node.kind[place]!] ?? 0, Math.max(0, groups - 1));
  }
  const set: BlockSet = {
    number: ++lastNumber, grouping, from, to, count, start: new Uint32Array(count), end: new Uint32Array(count),
    group: new Uint32Array(count), shade: new Uint32Array(count), kind: new Uint32Array(count),
    size: new Float64Array(count),
    address: new Float64Array(count), isOlder: new Uint8Array(count), eventsAt: new Uint32Array(to - from + 1),
    events: new Uint32Array(), allocated: new Float64Array(to - from),
  };
  const order = sorted(starts, groupOf, groups, to);
  for (let block = 0; block < count; block++) {
    const i = order[block]!;
    const node = nodes[found.node[i]!]!;
    const place = found.place[i]!;
    set.start[block] = node.start[place]!;
    set.end[block] = node.end[place]!;
    set.group[block] = groupOf[i]!;
    set.shade[block] = shadeOf(groupOf[i]!, node.kind[place]!);
    set.kind[block] = node.kind[place]!;
    set.size[block] = kinds.size[node.kind[place]!] ?? 0;
    set.address[block] = node.address[place]!;
    set.isOlder[block] = node.isOlder[place]!;
  }
  orderEvents(set);
  return set;
}

/** Sorts starts and ends by moment, and adds up the allocated bytes. */
function orderEvents(set: BlockSet): void {
  const { from, to, count, start, end, size, eventsAt, allocated } = set;
  const isIn = (moment: number): boolean => moment > from && moment < to;
  let total = 0;
  const change = new Float64Array(to - from);
  for (let block = 0; block < count; block++) {
    if (start[block]! <= from) total += size[block]!;
    if (isIn(start[block]!)) {
      eventsAt[start[block]! - from]!++;
      change[start[block]! - from]! += size[block]!;
    }
    if (end[block] !== NO_END && isIn(end[block]!)) {
      eventsAt[end[block]! - from]!++;
      change[end[block]! - from]! -= size[block]!;
    }
  }
  let sum = 0;
  for (let i = 0; i < eventsAt.length; i++) {
    const here = eventsAt[i]!;
    eventsAt[i] = sum;
    sum += here;
  }
  set.events = new Uint32Array(sum);
  const next = eventsAt.slice();
  for (let block = 0; block < count; block++) {
    if (isIn(start[block]!)) set.events[next[start[block]! - from]!++] = block * 2;
    if (end[block] !== NO_END && isIn(end[block]!)) set.events[next[end[block]! - from]!++] = block * 2 + 1;
  }
  for (let i = 0; i < allocated.length; i++) allocated[i] = total += change[i]!;
}
