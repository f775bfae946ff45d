// Marks, arranged in lanes above the chart: steps, phases, nested ranges, and single moments.

import { MARK, type Marks, type Names } from "../format/rest.ts";

/** Spans of one lane, ordered, not overlapping. */
export interface Lane {
  title: string;
  start: Float64Array;
  end: Float64Array;
  name: Uint32Array;
}

export interface Point {
  moment: number;
  time_ns: number;
  kind: "instant" | "snapshot" | "outOfMemory" | "lost";
  name: string;
  bytes: number;
}

export interface Lanes {
  lanes: Lane[];
  names: string[];
  points: Point[];
  /** Ranges nested too deeply to be drawn. */
  deeper: number;
}

/** Lanes of nested ranges. */
const DEPTH_MAX = 3;
/** Single moments that are drawn and can be pointed at. */
const POINTS_MAX = 20_000;

interface Spans {
  start: number[];
  end: number[];
  name: number[];
}

const newSpans = (): Spans => ({ start: [], end: [], name: [] });

function lane(title: string, spans: Spans): Lane {
  return { title, start: Float64Array.from(spans.start), end: Float64Array.from(spans.end),
    name: Uint32Array.from(spans.name) };
}

function endOpen(spans: Spans, moment: number): void {
  if (spans.end.length < spans.start.length) spans.end.push(moment);
}

function begin(spans: Spans, moment: number, name: number): void {
  endOpen(spans, moment);
  spans.start.push(moment);
  spans.name.push(name);
}

/** Open ranges by depth: a range takes the first lane that has none open. */
class Ranges {
  readonly depths: Spans[] = [];
  deeper = 0;
  private readonly open: (number | null)[] = [];

  lanes(title: string): Lane[] {
    return this.depths.map((spans, depth) => lane(depth === 0 ? title : "", spans));
  }

  begin(moment: number, name: number): void {
    let depth = this.open.findIndex((taken) => taken === null);
    if (depth < 0) depth = this.open.push(null) - 1;
    this.open[depth] = name;
    if (depth >= DEPTH_MAX) this.deeper++;
    else begin(this.depths[depth] ??= newSpans(), moment, name);
  }

  end(moment: number, name: number): void {
    let depth = this.open.lastIndexOf(name);
    if (depth < 0) depth = this.open.findLastIndex((taken) => taken !== null);
    if (depth < 0) return;
    this.open[depth] = null;
    const spans = this.depths[depth];
    if (depth < DEPTH_MAX && spans !== undefined) endOpen(spans, moment);
  }
}

const POINT_KINDS = new Map<number, Point["kind"]>([[MARK.instant, "instant"], [MARK.snapshot, "snapshot"],
  [MARK.outOfMemory, "outOfMemory"], [MARK.lost, "lost"]]);

export function arrange(marks: Marks | null, names: Names, moments: number): Lanes {
  const [steps, phases, ranges, patterns] = [newSpans(), newSpans(), new Ranges(), new Ranges()];
  const points: Point[] = [];
  marks?.moment.forEach((moment, i) => {
    const name = marks.name[i]!;
    const kind = marks.kind[i]!;
    if (kind === MARK.step) {
      // A phase belongs to the step in which it began.
      endOpen(phases, moment);
      begin(steps, moment, name);
    } else if (kind === MARK.phase) begin(phases, moment, name);
    else if (kind === MARK.rangeBegin) ranges.begin(moment, name);
    else if (kind === MARK.rangeEnd) ranges.end(moment, name);
    else if (kind === MARK.patternBegin) patterns.begin(moment, name);
    else if (kind === MARK.patternEnd) patterns.end(moment, name);
    else if (points.length < POINTS_MAX || kind === MARK.outOfMemory || kind === MARK.lost) {
      points.push({ moment, time_ns: marks.time[i] ?? 0, kind: POINT_KINDS.get(kind) ?? "instant",
        name: names.marks[name] ?? "", bytes: marks.bytes[i]! });
    }
  });
  for (const spans of [steps, phases, ...ranges.depths, ...patterns.depths]) endOpen(spans, moments);
  const lanes = [lane("steps", steps), lane("phases", phases), ...ranges.lanes("ranges"), ...patterns.lanes("pattern")];
  return { lanes: lanes.filter((one) => one.start.length > 0), names: names.marks, points,
    deeper: ranges.deeper + patterns.deeper };
}
