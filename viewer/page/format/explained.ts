// A moment that `explain` explained: JSON, checked before anything is drawn from it.

import { ChunkError } from "./varint.ts";

/** Neighbouring blocks of one state in a segment. */
export interface ExplainedRun {
  offset: number;
  bytes: number;
  state: "live" | "pinning" | "free" | "pending free";
}

export interface ExplainedSegment {
  pool: string;
  stream: string;
  bytes: number;
  pinning_bytes: number;
  runs: ExplainedRun[];
}

export interface ExplainedMoment {
  moment: number;
  /** The verdict and its reason; of a peak a sentence. */
  heading: string;
  also: string[];
  request: { bytes: number; code: string } | null;
  arithmetic: { name: string; how: string; bytes: number }[];
  pinning: { bytes: number; lower_bound_bytes: number; blocks: { bytes: number; code: string; module: string | null;
    segment: number | null }[]; left_out: number } | null;
  remedies: string[];
  segments: ExplainedSegment[];
  segments_left_out: number;
}

const STATES = ["live", "pinning", "free", "pending free"];

export function parseExplained(chunk: string, text: string): ExplainedMoment {
  let found: ExplainedMoment;
  try {
    found = JSON.parse(text) as ExplainedMoment;
  } catch {
    throw new ChunkError(chunk, "is not JSON: the file is damaged");
  }
  const isRun = ({ offset, bytes, state }: ExplainedRun, of: number): boolean =>
    offset >= 0 && bytes > 0 && offset + bytes <= of && STATES.includes(state);
  const isGood = Array.isArray(found.segments) && Array.isArray(found.arithmetic) && Array.isArray(found.remedies)
    && found.segments.every(({ bytes, runs }) => Array.isArray(runs) && runs.every((run) => isRun(run, bytes)));
  if (!isGood) throw new ChunkError(chunk, "has segments and blocks that do not match");
  return found;
}
