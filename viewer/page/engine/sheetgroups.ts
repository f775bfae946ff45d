// Tables of stacks and of the groups of a grouping.

import { type Kinds, type LivesNode, NO_END } from "../format/lives.ts";
import { framesOf, type Names } from "../format/rest.ts";
import type { Dataset } from "./dataset.ts";
import { isInternalFile } from "./frames.ts";
import type { StackFrame } from "./protocol.ts";
import { type Column, numbers, type Sheet, texts } from "./sheet.ts";

/** What groups are added up from. Without `window`, it has too many allocations. */
export interface Source {
  data: Dataset;
  kinds: Kinds;
  names: Names;
  moment: number;
  live: LivesNode[];
  window: LivesNode[] | null;
  from: number;
  to: number;
  /** From one moment to another: nanoseconds, or moments without a clock. */
  elapsed: (from: number, to: number) => number;
}

interface Sums {
  liveBytes: Float64Array;
  live: Float64Array;
  allocatedBytes: Float64Array;
  allocated: Float64Array;
  largest: Float64Array;
  lifetime: Float64Array;
  freed: Float64Array;
}

function add({ kinds, moment, live, window, from, to, elapsed }: Source, rowOf: Uint32Array, rows: number):
Sums {
  const array = (): Float64Array => new Float64Array(rows);
  const sums: Sums = { liveBytes: array(), live: array(), allocatedBytes: array(), allocated: array(),
    largest: array(), lifetime: array(), freed: array() };
  const see = (row: number, size: number): void => {
    if (size > sums.largest[row]!) sums.largest[row] = size;
  };
  for (const { start, end, kind } of live) {
    for (let i = 0; i < start.length && start[i]! <= moment; i++) {
      if (end[i]! <= moment) continue;
      const [row, size] = [rowOf[kind[i]!]!, kinds.size[kind[i]!]!];
      sums.live[row]!++;
      sums.liveBytes[row]! += size;
      see(row, size);
    }
  }
  for (const { start, end, kind, isOlder } of window ?? []) {
    for (let i = 0; i < start.length && start[i]! < to; i++) {
      if (start[i]! < from || isOlder[i] === 1) continue;
      const [row, size] = [rowOf[kind[i]!]!, kinds.size[kind[i]!]!];
      sums.allocated[row]!++;
      sums.allocatedBytes[row]! += size;
      see(row, size);
      if (end[i] === NO_END) continue;
      sums.freed[row]!++;
      sums.lifetime[row]! += elapsed(start[i]!, end[i]!);
    }
  }
  return sums;
}

/** Groups that have memory at the moment or allocations in the window. */
function sheetOf(source: Source, keyOf: ArrayLike<number>, labels: (keys: number[]) => Column[],
  frames: (key: number) => StackFrame[] | undefined, groupOf: (key: number, kinds: number[], grouping: number) =>
  number | null): Sheet {
  const { kinds, data } = source;
  const rowOfKey = new Map<number, number>();
  const allKeys: number[] = [];
  const kindsOf: number[][] = [];
  const rowOfKind = new Uint32Array(kinds.size.length);
  for (let kind = 0; kind < rowOfKind.length; kind++) {
    const key = keyOf[kind] ?? 0;
    let row = rowOfKey.get(key);
    if (row === undefined) {
      rowOfKey.set(key, row = allKeys.push(key) - 1);
      kindsOf.push([]);
    }
    kindsOf[row]!.push(kind);
    rowOfKind[kind] = row;
  }
  const sums = add(source, rowOfKind, allKeys.length);
  const shown = allKeys.map((_, row) => row).filter((row) => sums.live[row]! > 0 || sums.allocated[row]! > 0);
  const keys = shown.map((row) => allKeys[row]!);
  const of = (array: Float64Array) => (row: number): number => array[shown[row]!]!;
  const unit = data.device.has_clock ? "ns" : "moments";
  const summed = { has_sum: true };
  const columns: Column[] = [
    ...labels(keys),
    numbers("live_bytes", "live", "bytes", of(sums.liveBytes), "Bytes at the moment", summed),
    numbers("live_blocks", "blocks", "count", of(sums.live), "Blocks at the moment", summed),
  ];
  if (source.window !== null) {
    const mean = (row: number): number => sums.lifetime[shown[row]!]! / sums.freed[shown[row]!]!;
    columns.push(
      numbers("allocated_bytes", "allocated", "bytes", of(sums.allocatedBytes), "Bytes allocated in the window, freed"
        + " or not", summed),
      numbers("allocations", "allocations", "count", of(sums.allocated), "Allocations in the window", summed));
    columns.push(numbers(`mean_lifetime_${unit}`, "mean lifetime", unit, mean,
      "Of the window's allocations that were freed in the recording"));
  }
  columns.push(numbers("largest_bytes", "largest block", "bytes", of(sums.largest),
    "The largest block of the moment or the window"));
  const labelOf = columns[0]!;
  return {
    rows: shown.length, columns, sort: "-live_bytes", notes: [],
    group: (row, grouping) => groupOf(keys[row]!, kindsOf[shown[row]!]!, grouping),
    sum: (row) => {
      const stack = frames(keys[row]!);
      return { label: "id" in labelOf ? labelOf.text(labelOf.id(row)) : "", bytes: sums.liveBytes[shown[row]!]!,
        ...(stack === undefined ? {} : { frames: stack }) };
    },
  };
}

/** The rows of a grouping's groups. */
export function groupSheet(source: Source, grouping: number): Sheet {
  const { kinds, data, names } = source;
  const labels = names.groups[grouping] ?? [];
  const name = data.device.groupings[grouping]?.name ?? "group";
  const label = (keys: number[]): Column[] => [texts(name.replaceAll(" ", "_"), name,
    keys.map((group) => labels[group] ?? `group ${group}`), (row) => row)];
  return sheetOf(source, kinds.groups[data.kindGroup(grouping)] ?? [], label, () => undefined,
    (group, _, of) => (of === grouping ? group : null));
}

const lineText = ({ name, file, line }: StackFrame): string => `${line > 0 ? `${file}:${line}` : file} ${name}`;

/** The innermost line of a stack, and that of the user's own code. */
export function lineOf(names: Names, stack: number, isOwn: boolean): string {
  const frames = framesOf(names, stack);
  const frame = (isOwn ? frames.find(({ file }) => !isInternalFile(file)) : undefined) ?? frames[0];
  return frame === undefined ? "no stack" : lineText(frame);
}

export function stackSheet(source: Source): Sheet {
  const { kinds, data, names } = source;
  const label = (keys: number[]): Column[] => [true, false].map((isOwn) => (
    texts(isOwn ? "own_line" : "innermost_line", isOwn ? "innermost own line" : "innermost line",
      keys.map((stack) => lineOf(names, stack, isOwn)), (row) => row, "code")));
  const groupOf = (_: number, ofStack: number[], grouping: number): number | null => {
    const groups = kinds.groups[data.kindGroup(grouping)];
    const group = groups?.[ofStack[0]!] ?? null;
    return ofStack.every((kind) => groups?.[kind] === group) ? group : null;
  };
  return sheetOf(source, kinds.stack, label, (stack) => framesOf(names, stack), groupOf);
}
