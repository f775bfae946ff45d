// What is at a pixel of the picture of segments.

import { type LivesNode, NO_END } from "../format/lives.ts";
import type { Ranges } from "../format/ranges.ts";
import { blockInfo, hex } from "./answers.ts";
import { ownerLabel } from "./mapper.ts";
import { FIRST_ID, type Info, type Span } from "./protocol.ts";
import { stripAt } from "./segmentlayout.ts";
import type { DrawnSegments } from "./segmenter.ts";
import { rangeAt, type Strip } from "./strips.ts";

export function segmentInfo(drawn: DrawnSegments, x: number, y: number, id: number): Info | null {
  const { data, request, names, scene, tally, allocated, reserved } = drawn;
  const { strips, layout, ranges, lives, moments, groupOfKind, palette } = scene;
  const place = stripAt(layout, y + scene.scroll);
  const strip = strips[place];
  const row = y + scene.scroll - layout.top[place]!;
  if (strip === undefined || row >= layout.high[place]! || x < 0 || x >= moments.length) return null;
  const moment = moments[x]!;
  const info: Info = {
    kind: "hole", moment, time_ns: data.clock()?.timeAt(moment) ?? null, allocated_bytes: allocated[x]!,
    active_bytes: allocated[x]!, reserved_least_bytes: reserved[x]!, reserved_most_bytes: reserved[x]!, group: null,
    label: "", colour: 0, group_bytes: null, block: null, hole: null,
  };
  const address = strip.address + ((row + 0.5) / layout.high[place]!) * strip.size_bytes;
  const life = id >= FIRST_ID && id - FIRST_ID < lives.count ? id - FIRST_ID : blockAt(drawn, address, moment);
  if (life >= 0) {
    const group = groupOfKind[lives.kind[life]!] ?? 0;
    const block = blockInfo(data, names, lives, life);
    return { ...info, kind: "block", group, label: names.groups[request.grouping]?.[group] ?? `group ${group}`,
      colour: palette.colour(group), group_bytes: tally.atPeak[group] ?? null, block };
  }
  const [first, size] = mappedAround(ranges, strip, address, moment);
  if (size === 0) return null;
  const [from, to] = holeAround(drawn, first, first + size, address, moment);
  const range = rangeAt(ranges, strip, address, moment);
  return { ...info, hole: { address: hex(from), size_bytes: to - from, range_address: hex(first), range_bytes: size,
    owner: ownerLabel({ data, names }, strip.owner), mapped: spanOf(drawn, ranges.start[range]!, ranges.end[range]!),
    free: freeSpan(drawn, strip, from, to, moment) } };
}

/** The block at an address, or -1: one that a pixel rounds away. */
function blockAt({ scene: { lives, kinds } }: DrawnSegments, at: number, moment: number): number {
  for (let life = 0; life < lives.count; life++) {
    const address = lives.address[life]!;
    if (address > at || address + (kinds?.size[lives.kind[life]!] ?? 0) <= at) continue;
    if (isAlive(lives, life, moment)) return life;
  }
  return -1;
}

/** The addresses that are mapped around one at a moment, without a gap: the first, and how many. */
function mappedAround({ start, end, address, size }: Ranges, { ranges }: Strip, at: number, moment: number):
[number, number] {
  let [first, to] = [0, 0];
  for (const range of ranges) {
    if (start[range]! > moment || end[range]! <= moment) continue;
    if (address[range] === to && to > 0) to += size[range]!;
    else if (to > at) break;
    else [first, to] = [address[range]!, address[range]! + size[range]!];
  }
  return first <= at && at < to ? [first, to - first] : [0, 0];
}

const isAlive = ({ start, end }: LivesNode, life: number, moment: number): boolean => (
  start[life]! <= moment && end[life]! > moment);

/** The hole around an address, between the ends of a mapped range. */
function holeAround({ scene: { lives, kinds } }: DrawnSegments, first: number, last: number, at: number,
  moment: number): [number, number] {
  let [from, to] = [first, last];
  for (let life = 0; life < lives.count; life++) {
    const address = lives.address[life]!;
    if (address >= last || !isAlive(lives, life, moment)) continue;
    const end = address + (kinds?.size[lives.kind[life]!] ?? 0);
    if (end <= at) from = Math.max(from, end);
    else if (address > at) to = Math.min(to, address);
  }
  return [from, to];
}

/** The moments for which no block was in a hole, as far as lives are known; null where they are not. */
function freeSpan(drawn: DrawnSegments, strip: Strip, from: number, to: number, moment: number): Span | null {
  const { window: { region }, scene: { ranges, lives, kinds } } = drawn;
  if (region.level >= 0) return null;
  let [start, end] = [-1, Infinity];
  for (const range of strip.ranges) {
    const address = ranges.address[range]!;
    if (address >= to || address + ranges.size[range]! <= from) continue;
    if (ranges.start[range]! > moment || ranges.end[range]! <= moment) continue;
    start = Math.max(start, ranges.start[range]!);
    end = Math.min(end, ranges.end[range]!);
  }
  let [isStartKnown, isEndKnown] = [start >= region.from, end <= region.to || region.to === drawn.data.device.moments];
  for (let life = 0; life < lives.count; life++) {
    const address = lives.address[life]!;
    if (address >= to || address + (kinds?.size[lives.kind[life]!] ?? 0) <= from) continue;
    if (lives.end[life]! <= moment && lives.end[life]! > start) [start, isStartKnown] = [lives.end[life]!, true];
    if (lives.start[life]! > moment && lives.start[life]! < end) [end, isEndKnown] = [lives.start[life]!, true];
  }
  const known = spanOf(drawn, isStartKnown ? start : region.from, isEndKnown ? end : region.to);
  return { ...known, is_start_known: isStartKnown, is_end_known: isEndKnown };
}

function spanOf({ data }: DrawnSegments, start: number, end: number): Span {
  const clock = data.clock() ?? null;
  const isOpen = end >= NO_END;
  return { start, end: isOpen ? null : end, start_ns: clock?.timeAt(start) ?? null,
    end_ns: isOpen ? null : clock?.timeAt(end) ?? null, is_start_known: true, is_end_known: true };
}
