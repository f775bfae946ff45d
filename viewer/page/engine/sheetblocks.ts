// Tables of blocks: those of a moment, and the allocations of a window.

import { type Kinds, type LivesNode, NO_END } from "../format/lives.ts";
import type { Names } from "../format/rest.ts";
import type { Clock } from "./clock.ts";
import type { Dataset } from "./dataset.ts";
import { type Column, numbers, type Sheet, type TextColumn, texts } from "./sheet.ts";
import { lineOf } from "./sheetgroups.ts";

/** Lives: a node and a place in it for each row. */
export interface Lives {
  nodes: LivesNode[];
  node: Uint32Array;
  place: Uint32Array;
}

/** The lives of nodes that `isIn` selects. */
export function select(nodes: LivesNode[], isIn: (life: LivesNode, place: number) => boolean): Lives {
  let count = 0;
  const each = (see: (node: number, place: number) => void): void => {
    nodes.forEach((life, node) => {
      for (let place = 0; place < life.start.length; place++) if (isIn(life, place)) see(node, place);
    });
  };
  each(() => { count++; });
  const lives = { nodes, node: new Uint32Array(count), place: new Uint32Array(count) };
  count = 0;
  each((node, place) => {
    lives.node[count] = node;
    lives.place[count++] = place;
  });
  return lives;
}

/** A line for each stack; a page may have a hundred thousand, so each is made when it is asked for. */
function stackLines(names: Names, id: (row: number) => number): TextColumn {
  const known: string[] = [];
  const none = names.stacks.length;
  const column = texts("own_line", "innermost own line", [], (row) => Math.min(id(row), none), "code");
  return { ...column, texts: none + 1, text: (stack) => known[stack] ??= lineOf(names, stack, true) };
}

export function blockSheet(data: Dataset, kinds: Kinds, names: Names, clock: Clock | null, lives: Lives): Sheet {
  const { nodes, node, place } = lives;
  const life = (row: number): LivesNode => nodes[node[row]!]!;
  const kind = (row: number): number => life(row).kind[place[row]!]!;
  const isOlder = (row: number): boolean => life(row).isOlder[place[row]!] === 1;
  const start = (row: number): number => life(row).start[place[row]!]!;
  const began = (row: number): number => (isOlder(row) ? NaN : start(row));
  const ended = (row: number): number => {
    const end = life(row).end[place[row]!]!;
    return end === NO_END ? NaN : end;
  };
  const time = (at: (row: number) => number) => (row: number): number => {
    const moment = at(row);
    return Number.isNaN(moment) || clock === null ? NaN : clock.timeAt(moment);
  };
  const size = (row: number): number => kinds.size[kind(row)]!;
  const requested = (row: number): number => kinds.requested[kind(row)]!;
  const module = data.device.groupings.findIndex(({ name }) => name === "module");
  const modules = kinds.groups[data.kindGroup(module)];
  const summed = { has_sum: true };
  const columns: Column[] = [
    numbers("address", "address", "address", (row) => life(row).address[place[row]!]!,
      "Shows the block in the address map when it was allocated", { is_place: true }),
    numbers("size_bytes", "size", "bytes", size, "", summed),
    numbers("requested_bytes", "requested", "bytes", requested, "", summed),
    numbers("rounding_bytes", "rounding", "bytes", (row) => size(row) - requested(row), "Size minus requested", summed),
    stackLines(names, (row) => kinds.stack[kind(row)]!),
    ...(module < 0 ? [] : [texts("module", "module", names.groups[module] ?? [], (row) => modules?.[kind(row)] ?? 0)]),
    texts("stream", "stream", names.streams, (row) => kinds.stream[kind(row)]!),
    texts("pool", "pool", names.pools, (row) => kinds.pool[kind(row)]!),
    numbers("allocated_moment", "allocated (moment)", "moment", began,
      "Not known of blocks from before the recording"),
    ...(clock === null ? [] : [numbers("allocated_ns", "allocated (time)", "ns", time(began), "From the start")]),
    numbers("freed_moment", "freed (moment)", "moment", ended, "None if after the recording"),
  ];
  if (clock !== null) {
    columns.push(
      numbers("freed_ns", "freed (time)", "ns", time(ended), "From the start"),
      numbers("lifetime_ns", "lifetime", "ns", (row) => time(ended)(row) - time(began)(row), "Allocation to free"));
  } else {
    columns.push(numbers("lifetime_moments", "lifetime", "moments", (row) => ended(row) - began(row),
      "Moments from allocation to free"));
  }
  return {
    rows: node.length, columns, sort: "-size_bytes", notes: [], moment: start,
    group: (row, grouping) => kinds.groups[data.kindGroup(grouping)]?.[kind(row)] ?? null,
    life: (row) => ({ node: node[row]!, place: place[row]! }),
  };
}
