// Makes tables: what is allocated, mapped or marked, as rows that can be sorted and searched.

import type { LivesNode } from "../format/lives.ts";
import { changeAt, EMPTY_RANGES, type Ranges } from "../format/ranges.ts";
import { NO_NAMES, type Names } from "../format/rest.ts";
import { blockInfo } from "./answers.ts";
import { nodesOf } from "./blocks.ts";
import type { Clock } from "./clock.ts";
import type { Dataset } from "./dataset.ts";
import { LIVES_MAX } from "./flamer.ts";
import type { Palette } from "./paint.ts";
import { Palettes } from "./palettes.ts";
import { Peaks } from "./peaks.ts";
import type { Info } from "./protocol.ts";
import { cell, type Column, matching, type Sheet, sorted, sumOf, textOf } from "./sheet.ts";
import { blockSheet, select } from "./sheetblocks.ts";
import { groupSheet, type Source, stackSheet } from "./sheetgroups.ts";
import { markSheet, oomSheet, oomsOf } from "./sheetmarks.ts";
import { rangeSheet } from "./sheetranges.ts";
import type { TableReply, TableRequest, TableText, TextFormat } from "./tableprotocol.ts";

/** Moments whose bytes are kept all at once, for the peaks of marks. */
const MOMENTS_MAX = 8_000_000;
const TOO_MANY = "The window has more than 600,000 allocations";

/** A sheet, and what it was made of. */
interface Made {
  key: string;
  data: Dataset;
  names: Names;
  ranges: Ranges;
  /** Of the blocks that the sheet numbers. */
  nodes: LivesNode[];
  sheet: Sheet;
}

interface Arranged {
  key: string;
  order: Uint32Array;
  sums: (number | null)[];
  error: string;
}

const EMPTY: Sheet = { rows: 0, columns: [], sort: "", notes: [] };

export class Tabler {
  private made: Made | null = null;
  private arranged: Arranged | null = null;
  private peaks: { data: Dataset; peaks: Peaks } | null = null;
  /** Allocated bytes at moments of one device. */
  private known: { data: Dataset; allocated: Map<number, number> } | null = null;
  private readonly palettes = new Palettes();

  /** A slice of a table, or null while something of it is on the way. */
  draw(data: Dataset, request: TableRequest): TableReply | null {
    const began = performance.now();
    const made = this.make(data, request);
    if (made === null) return null;
    const { sheet } = made;
    const [column, isUp, sort] = sortOf(sheet, request.sort);
    const { order, sums, error } = this.arrange(made, request, column, isUp, sort);
    const grouping = this.groupingOf(data, request);
    const palette = this.palette(made, request, grouping);
    const rows = Array.from(order.subarray(request.first, request.first + request.count), (row) => {
      const group = sheet.group?.(row, grouping) ?? null;
      return { row, cells: sheet.columns.map((one) => cell(one, row)), moment: sheet.moment?.(row) ?? null, group,
        colour: group === null ? null : palette.colour(group) };
    });
    return {
      type: "table", request, heads: sheet.columns.map(({ head }) => head), sort, total: sheet.rows,
      matching: order.length, sums, rows, grouping, notes: sheet.notes, error, took_ms: performance.now() - began,
    };
  }

  /** All matching rows of a table, at most `most`. */
  text(data: Dataset, request: TableRequest, format: TextFormat, most: number): TableText | null {
    const made = this.make(data, request);
    if (made === null) return null;
    const [column, isUp, sort] = sortOf(made.sheet, request.sort);
    const { order } = this.arrange(made, request, column, isUp, sort);
    const rows = order.subarray(0, most);
    return { parts: textOf(made.sheet, rows, format), rows: rows.length, matching: order.length };
  }

  /** Describes a row of a table that has blocks or groups. */
  info(data: Dataset, request: TableRequest, row: number): Info | null {
    const made = this.make(data, request);
    if (made === null || row >= made.sheet.rows) return null;
    const { sheet, names, ranges, nodes } = made;
    const life = sheet.life?.(row);
    const sum = sheet.sum?.(row);
    if (life === undefined && sum === undefined) return null;
    const moment = request.rows === "allocations" ? sheet.moment!(row) : request.moment;
    const grouping = this.groupingOf(data, request);
    const group = sheet.group?.(row, grouping) ?? null;
    const [allocated, ofGroup] = bytesAt(data, nodes, moment, grouping, group);
    const reserved = ranges.reserved.bytes[changeAt(ranges.reserved, moment)] ?? 0;
    return {
      kind: life === undefined ? "group" : "block", moment, time_ns: data.clock()?.timeAt(moment) ?? null,
      allocated_bytes: allocated, active_bytes: allocated, reserved_least_bytes: reserved,
      reserved_most_bytes: reserved, group, grouping,
      label: sum?.label ?? names.groups[grouping]?.[group ?? -1] ?? "", group_bytes: sum?.bytes ?? ofGroup,
      colour: group === null ? 0x868c94 : this.palette(made, request, grouping).colour(group), hole: null,
      block: life === undefined ? null : blockInfo(data, names, nodes[life.node]!, life.place),
      ...(sum?.frames === undefined ? {} : { frames: sum.frames }),
    };
  }

  /** Rows of a grouping have its groups; others those of the request's grouping. */
  private groupingOf({ device }: Dataset, { rows, grouping }: TableRequest): number {
    const own = device.groupings.findIndex(({ name, quantity }) => quantity === "allocated" && name === rows);
    return own >= 0 ? own : grouping;
  }

  private palette({ data, names }: Made, { is_dark: isDark }: TableRequest, grouping: number): Palette {
    return this.palettes.choose({ device: data.place, grouping, is_dark: isDark, query: "", lit: null },
      names.groups[grouping] ?? [], data.device.groupings[grouping]);
  }

  private arrange({ key: sheetKey, sheet }: Made, { query }: TableRequest, column: Column | undefined, isUp: boolean,
    sort: string): Arranged {
    const key = [sheetKey, sort, query].join(" ");
    if (this.arranged?.key === key) return this.arranged;
    let [pattern, error]: [RegExp | null, string] = [null, ""];
    try {
      pattern = query === "" ? null : new RegExp(query, "i");
    } catch (fault) {
      error = fault instanceof Error ? fault.message : String(fault);
    }
    const found = matching(sheet, pattern);
    const order = column === undefined ? found : sorted(sheet, found, column, isUp);
    this.arranged = { key, order, error, sums: sheet.columns.map((one) => sumOf(one, order)) };
    return this.arranged;
  }

  private make(data: Dataset, request: TableRequest): Made | null {
    const { rows, moment, from, to } = request;
    const key = [data.place, rows, moment, from, to].join(" ");
    if (this.made?.key === key && this.made.data === data) return this.made;
    const [names, kinds, clock, ranges] = [data.names(), data.kinds(), data.clock(), data.ranges()];
    if (names === undefined || kinds === undefined || clock === undefined || ranges === undefined) return null;
    const base = { key, data, names: names ?? NO_NAMES, ranges: ranges ?? EMPTY_RANGES };
    const parts = this.parts(base, request, clock);
    this.made = parts === null ? this.made : { ...base, ...parts };
    return parts === null ? null : this.made;
  }

  private parts(base: Omit<Made, "nodes" | "sheet">, request: TableRequest, clock: Clock | null):
  { nodes: LivesNode[]; sheet: Sheet } | null {
    const { data, names, ranges } = base;
    const { rows, moment, from, to } = request;
    const kinds = data.kinds() ?? null;
    if (rows === "marks") return this.marks(data, names, clock, from, to);
    if (rows === "out of memory") return this.ooms(base, from, to);
    if (rows === "allocations") {
      if (isTooMuch(data, from, to)) return { nodes: [], sheet: { ...EMPTY, notes: [`${TOO_MANY}: zoom in.`] } };
      const window = nodesOf(data, from, to);
      if (window === null || kinds === null) return window === null ? null : { nodes: [], sheet: EMPTY };
      const lives = select(window, ({ start, isOlder }, i) => start[i]! >= from && start[i]! < to && isOlder[i] === 0);
      return { nodes: window, sheet: { ...blockSheet(data, kinds, names, clock, lives), sort: "allocated_moment" } };
    }
    const live = nodesOf(data, moment, moment + 1);
    const isOfGroups = rows !== "blocks" && rows !== "segments";
    const window = !isOfGroups || isTooMuch(data, from, to) ? [] : nodesOf(data, from, to);
    if (live === null || window === null) return null;
    if (rows === "segments") return { nodes: live, sheet: rangeSheet(data, names, ranges, kinds, live, moment) };
    if (kinds === null) return { nodes: live, sheet: EMPTY };
    if (rows === "blocks") {
      const lives = select(live, ({ start, end }, i) => start[i]! <= moment && end[i]! > moment);
      return { nodes: live, sheet: blockSheet(data, kinds, names, clock, lives) };
    }
    const isCut = isTooMuch(data, from, to);
    const source: Source = { data, kinds, names, moment, live, window: isCut ? null : window, from, to,
      elapsed: (a, b) => (clock === null ? b - a : clock.timeAt(b) - clock.timeAt(a)) };
    const grouping = data.device.groupings.findIndex(({ name, quantity }) => (
      quantity === "allocated" && name === rows));
    const sheet = grouping < 0 ? stackSheet(source) : groupSheet(source, grouping);
    const notes = isCut ? [`${TOO_MANY}: its columns are left out; zoom in.`] : [];
    return { nodes: live, sheet: { ...sheet, notes: [...sheet.notes, ...notes] } };
  }

  private ooms({ data, ranges }: Omit<Made, "nodes" | "sheet">, from: number, to: number):
  { nodes: LivesNode[]; sheet: Sheet } | null {
    const marks = data.marks();
    if (marks === undefined) return null;
    if (marks === null) return { nodes: [], sheet: EMPTY };
    const ooms = oomsOf(marks, from, to);
    const allocated: number[] = [];
    if (this.known?.data !== data) this.known = { data, allocated: new Map() };
    const { allocated: known } = this.known;
    for (const at of ooms) {
      const moment = marks.moment[at]!;
      let bytes = known.get(moment);
      if (bytes === undefined) {
        // One moment after the other: chunks of many moments may not all be kept.
        const nodes = nodesOf(data, moment, moment + 1);
        if (nodes === null) return null;
        bytes = bytesAt(data, nodes, moment, 0, null)[0];
        known.set(moment, bytes);
      }
      allocated.push(bytes);
    }
    return { nodes: [], sheet: oomSheet(marks, ooms, allocated, ranges, data.device.has_clock) };
  }

  private marks(data: Dataset, names: Names, clock: Clock | null, from: number, to: number):
  { nodes: LivesNode[]; sheet: Sheet } | null {
    const marks = data.marks();
    if (marks === undefined) return null;
    if (marks === null) return { nodes: [], sheet: EMPTY };
    const { lives, moments } = data.device;
    const kinds = data.kinds() ?? null;
    if (lives.count <= LIVES_MAX && moments <= MOMENTS_MAX && kinds !== null && this.peaks?.data !== data) {
      const nodes = nodesOf(data, 0, moments);
      if (nodes === null) return null;
      this.peaks = { data, peaks: new Peaks(nodes, kinds.size, moments) };
    }
    const peaks = this.peaks?.data === data ? this.peaks.peaks : null;
    return { nodes: [], sheet: markSheet(marks, names, clock, moments, from, to, peaks) };
  }
}

/** The lives of a window are decoded all at once. */
function isTooMuch({ device }: Dataset, from: number, to: number): boolean {
  return device.lives.count * Math.min(1, (to - from) / device.moments) > LIVES_MAX;
}

/** The column to sort by and its direction; an unknown one means the usual order. */
function sortOf(sheet: Sheet, wanted: string): [Column | undefined, boolean, string] {
  const find = (sort: string): Column | undefined => (
    sheet.columns.find(({ head }) => head.key === sort.replace(/^-/, "")));
  const sort = find(wanted) === undefined ? sheet.sort : wanted;
  return [find(sort), !sort.startsWith("-"), sort];
}

/** Allocated bytes at a moment, and those of a group. */
function bytesAt(data: Dataset, nodes: LivesNode[], moment: number, grouping: number, group: number | null):
[number, number] {
  const kinds = data.kinds() ?? null;
  const groups = kinds?.groups[data.kindGroup(grouping)];
  let [all, ofGroup] = [0, 0];
  for (const { start, end, kind } of nodes) {
    for (let i = 0; i < start.length && start[i]! <= moment; i++) {
      if (end[i]! <= moment) continue;
      const bytes = kinds?.size[kind[i]!] ?? 0;
      all += bytes;
      if (group !== null && groups?.[kind[i]!] === group) ofGroup += bytes;
    }
  }
  return [all, ofGroup];
}
