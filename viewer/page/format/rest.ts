// Times, marks and names.

import { ArrayReader, ChunkError } from "./varint.ts";

export const MARK = {
  step: 0, phase: 1, rangeBegin: 2, rangeEnd: 3, instant: 4, outOfMemory: 5, snapshot: 6, lost: 7, patternBegin: 8,
  patternEnd: 9,
} as const;

export interface Marks {
  moment: Float64Array;
  kind: Float64Array;
  name: Float64Array;
  bytes: Float64Array;
  time: Float64Array;
}

export function decodeMarks(chunk: string, data: Uint8Array): Marks {
  const reader = new ArrayReader(data, chunk);
  const moment = reader.rising();
  const [kind, name, bytes] = [reader.plain(), reader.plain(), reader.plain()];
  const time = reader.rising();
  reader.same(moment.length, kind, name, bytes);
  reader.end();
  return { moment, kind, name, bytes, time };
}

export function decodeTimes(chunk: string, data: Uint8Array): Float64Array {
  const reader = new ArrayReader(data, chunk);
  const times = reader.rising();
  reader.end();
  return times;
}

export interface Names {
  streams: string[];
  pools: string[];
  marks: string[];
  groups: string[][];
  strings: string[];
  frames: { name: number[]; file: number[]; line: number[] };
  stacks: number[][];
}

export const NO_NAMES: Names = {
  streams: [], pools: [], marks: [], groups: [], strings: [], frames: { name: [], file: [], line: [] }, stacks: [],
};

export function decodeNames(chunk: string, data: Uint8Array): Names {
  let names: Partial<Names>;
  try {
    names = JSON.parse(new TextDecoder().decode(data)) as Partial<Names>;
  } catch {
    throw new ChunkError(chunk, "is not JSON: the file is damaged or cut off");
  }
  for (const key of ["streams", "pools", "marks", "groups", "strings", "stacks"] as const) {
    if (!Array.isArray(names[key])) throw new ChunkError(chunk, `has no list "${key}"`);
  }
  return { ...NO_NAMES, ...names };
}

export interface Frame {
  name: string;
  file: string;
  line: number;
}

/** The frames of a stack, innermost first. */
export function framesOf(names: Names, stack: number): Frame[] {
  const { name, file, line } = names.frames;
  const text = (place: number | undefined): string => names.strings[place ?? -1] ?? "?";
  return (names.stacks[stack] ?? []).map((frame) => (
    { name: text(name[frame]), file: text(file[frame]), line: line[frame] ?? 0 }
  ));
}
