// Plots over time that replays made: JSON, checked before anything is drawn from it.

import { ChunkError } from "./varint.ts";

/** Each array of bytes has one number for each stretch, and `edges` one more than there are stretches. */
export interface WastePlot {
  settings: string;
  /** By how much the replay differs from the recording. */
  differs: string | null;
  error: string | null;
  /** Moments. */
  edges: number[];
  parts: { name: string; bytes: number[] }[];
}

/** The recorded run or the edited one. */
export interface StrategyRun {
  edges: number[];
  /** When the stretches end, since the first record. */
  time_ns: number[];
  live_bytes: number[];
}

export interface StrategyRow {
  run: number;
  setting: number;
  strategy: string;
  label: string;
  reserved_bytes: number[];
  peak_reserved_bytes: number;
  efficiency: number;
  device_allocs: number;
  device_frees: number;
  driver_time_ns: number;
  num_alloc_retries: number;
  num_ooms: number;
}

export interface StrategiesPlot {
  summary: string;
  capacity_bytes: number | null;
  inferred: string[];
  runs: StrategyRun[];
  rows: StrategyRow[];
}

function isNumbers(value: unknown, length: number): value is number[] {
  return Array.isArray(value) && value.length === length && value.every((one) => typeof one === "number" && one >= 0);
}

function isEdges(value: unknown): value is number[] {
  return Array.isArray(value) && isNumbers(value, value.length)
    && value.every((edge, i, all: number[]) => i === 0 || edge >= all[i - 1]!);
}

function parse(chunk: string, text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    throw new ChunkError(chunk, "is not JSON: the file is damaged");
  }
}

export function parseWaste(chunk: string, text: string): WastePlot {
  const plot = parse(chunk, text) as unknown as WastePlot;
  const isGood = isEdges(plot.edges) && Array.isArray(plot.parts)
    && plot.parts.every((part) => isNumbers(part.bytes, plot.edges.length - 1));
  if (!isGood) throw new ChunkError(chunk, "has parts and stretches that do not match");
  return plot;
}

export function parseStrategies(chunk: string, text: string): StrategiesPlot {
  const plot = parse(chunk, text) as unknown as StrategiesPlot;
  const isGood = Array.isArray(plot.runs) && Array.isArray(plot.rows)
    && plot.runs.every((run) => isEdges(run.edges) && isNumbers(run.live_bytes, run.edges.length - 1)
      && isNumbers(run.time_ns, run.edges.length - 1))
    && plot.rows.every(({ run, reserved_bytes: bytes }) => isNumbers(bytes, (plot.runs[run]?.edges.length ?? 0) - 1));
  if (!isGood) throw new ChunkError(chunk, "has rows and stretches that do not match");
  return plot;
}
