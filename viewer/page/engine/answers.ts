// Answers to questions about the picture drawn last.

import { heightAt } from "../format/envelopes.ts";
import { type LivesNode, NO_END } from "../format/lives.ts";
import { framesOf, type Names, NO_NAMES } from "../format/rest.ts";
import { stackOf } from "./bands.ts";
import type { Dataset } from "./dataset.ts";
import { type BlockInfo, ENVELOPE, FIRST_ID, type Info, OTHER, PENDING, type Stack } from "./protocol.ts";
import type { Drawn } from "./render.ts";
import { Walk } from "./walk.ts";

export const hex = (address: number): string => `0x${address.toString(16)}`;

function labelOf(drawn: Drawn, group: number): string {
  return drawn.names?.groups[drawn.request.grouping]?.[group] ?? `group ${group}`;
}

/** A life in words: the one at a place of a node. */
export function blockInfo(data: Dataset, names: Names, node: LivesNode, place: number): BlockInfo | null {
  const kinds = data.kinds();
  if (kinds === undefined || kinds === null) return null;
  const kind = node.kind[place]!;
  const clock = data.clock() ?? null;
  const [start, end] = [node.start[place]!, node.end[place]!];
  return {
    address: hex(node.address[place]!), size_bytes: kinds.size[kind] ?? 0,
    requested_bytes: kinds.requested[kind] ?? 0, stream: names.streams[kinds.stream[kind]!] ?? "?",
    pool: names.pools[kinds.pool[kind]!] ?? "?", start, end: end === NO_END ? null : end,
    is_older: node.isOlder[place] === 1, start_ns: clock?.timeAt(start) ?? null,
    end_ns: end === NO_END ? null : clock?.timeAt(end) ?? null, frames: framesOf(names, kinds.stack[kind]!),
  };
}

function blockOf(drawn: Drawn, block: number): BlockInfo | null {
  const { set, data, names } = drawn;
  if (set === null || block >= set.count) return null;
  return blockInfo(data, names ?? NO_NAMES, set.nodes[set.node[block]!]!, set.place[block]!);
}

/** The bytes of a group at pixel column `x`. */
function bytesOf(drawn: Drawn, x: number, group: number): number | null {
  const { set, columns, chosen, tiles } = drawn;
  if (set === null) {
    const found = stackOf(tiles, chosen.level[x]!, chosen.column[x]!).find(([g]) => g === group);
    return found?.[1] ?? 0;
  }
  let sum = 0;
  const moment = columns.moment[x]!;
  for (let i = 0; i < set.count; i++) {
    if (set.group[i] === group && set.start[i]! <= moment && set.end[i]! > moment) sum += set.size[i]!;
  }
  return sum;
}

export function infoAt(drawn: Drawn, x: number, id: number): Info {
  const { columns, set, data } = drawn;
  const moment = columns.moment[x] ?? 0;
  const info: Info = {
    kind: id === OTHER ? "other" : id === PENDING ? "pending" : "nothing", moment,
    time_ns: data.clock()?.timeAt(moment) ?? null, allocated_bytes: columns.allocated[x] ?? 0,
    active_bytes: columns.active[x] ?? 0, reserved_least_bytes: columns.reservedLeast[x] ?? 0,
    reserved_most_bytes: columns.reservedMost[x] ?? 0, group: null, label: "", colour: 0, group_bytes: null,
    block: null, hole: null,
  };
  if (id === OTHER) {
    const inGroups = set !== null ? 0
      : stackOf(drawn.tiles, drawn.chosen.level[x]!, drawn.chosen.column[x]!)
        .reduce((sum, [, bytes]) => sum + bytes, 0);
    return { ...info, label: "other", colour: drawn.palette.colour(-1), group_bytes: info.allocated_bytes - inGroups };
  }
  if (id === PENDING) return { ...info, group_bytes: info.active_bytes - info.allocated_bytes };
  if (id < FIRST_ID) return info;
  if (id >= ENVELOPE) {
    const group = id - ENVELOPE;
    return { ...info, kind: "envelope", group, label: labelOf(drawn, group), colour: drawn.palette.colour(group),
      group_bytes: bytesOf(drawn, x, group), ...envelopeOf(drawn, group, moment) };
  }
  const group = set === null ? id - FIRST_ID : set.group[id - FIRST_ID]!;
  return { ...info, kind: set === null ? "group" : "block", group, label: labelOf(drawn, group),
    colour: drawn.palette.colour(group), group_bytes: bytesOf(drawn, x, group),
    block: set === null ? null : blockOf(drawn, id - FIRST_ID), ...envelopeOf(drawn, group, moment) };
}

/** The height of a group's envelope; nothing for a group without one. */
function envelopeOf({ envelopes }: Drawn, group: number, moment: number): Pick<Info, "envelope_bytes"> {
  const envelope = envelopes?.[group] ?? null;
  return envelope === null ? {} : { envelope_bytes: heightAt(envelope, moment) };
}

/** The envelopes at a moment. */
function envelopesAt(drawn: Drawn, moment: number): Pick<Stack, "envelopes"> {
  const { envelopes } = drawn;
  return envelopes === null ? {} : { envelopes: envelopes.flatMap((envelope, group) => (envelope === null ? []
    : [{ label: labelOf(drawn, group), bytes: heightAt(envelope, moment) }])) };
}

/** The whole stack at a pixel column, read from the decoded data. */
export function stackAt(drawn: Drawn, x: number): Stack {
  const { set, columns, chosen, data, request, tiles } = drawn;
  const moment = columns.moment[x]!;
  const counters = { moment, allocated_bytes: columns.allocated[x]!, active_bytes: columns.active[x]!,
    reserved_most_bytes: columns.reservedMost[x]!, ...envelopesAt(drawn, moment) };
  if (set === null) {
    const groups = stackOf(tiles, chosen.level[x]!, chosen.column[x]!)
      .map(([group, bytes]) => ({ label: labelOf(drawn, group), bytes }));
    const rest = columns.allocated[x]! - groups.reduce((sum, { bytes }) => sum + bytes, 0);
    if (rest !== 0) groups.push({ label: "other", bytes: rest });
    return { ...counters, groups };
  }
  const walk = new Walk(set, data.device.groupings[request.grouping]?.groups ?? 0, null);
  walk.advance(moment, moment);
  const sums = new Map<number, number>();
  const blocks = walk.blocks().map((block) => {
    const group = set.group[block]!;
    sums.set(group, (sums.get(group) ?? 0) + set.size[block]!);
    const address = set.nodes[set.node[block]!]!.address[set.place[block]!]!;
    return { address: hex(address), size_bytes: set.size[block]!, label: labelOf(drawn, group) };
  });
  const groups = [...sums].map(([group, bytes]) => ({ label: labelOf(drawn, group), bytes }));
  const sum = groups.reduce((bytes, group) => bytes + group.bytes, 0);
  return { ...counters, allocated_bytes: sum, groups, blocks };
}
