// The messages between the page and its worker.

import type { Header } from "../format/header.ts";
import type { Lanes } from "./lanes.ts";
import type { TableReply, TableRequest, TableText, TextFormat } from "./tableprotocol.ts";

/** Pixels of the picture of ids. A group or a life is `value + FIRST_ID`. */
export const NOTHING = 0;
export const OTHER = 1;
export const PENDING = 2;
export const FIRST_ID = 3;
/** Room in the envelope of a private pool: `value + ENVELOPE`. */
export const ENVELOPE = 0x40000000;
/** Set on the pixel that separates a block or a group from the one above it. */
export const EDGE = 0x80000000;

export type Axis = "moment" | "time";

/** What every picture depends on. */
export interface Look {
  device: number;
  grouping: number;
  is_dark: boolean;
  query: string;
  /** The group drawn in full colour while others are dimmed. */
  lit: number | null;
}

/** A picture to draw. `from` and `to` are moments, or nanoseconds since the start on the time axis. */
export interface FrameRequest extends Look {
  axis: Axis;
  from: number;
  to: number;
  bottom_bytes: number;
  top_bytes: number;
  width: number;
  height: number;
}

export interface LegendRow {
  group: number;
  label: string;
  colour: number;
  /** At the highest column of the window, and the most at any drawn moment. */
  at_peak_bytes: number;
  most_bytes: number;
}

export interface Found {
  groups: number;
  at_peak_bytes: number;
  /** A regular expression that cannot be read, or "". */
  error: string;
}

export type Detail =
  | { mode: "none" }
  | { mode: "bands"; column_moments: number; is_coarser: boolean }
  | { mode: "blocks"; blocks: number; is_coarser: false };

/** For each pixel column: its moment, and bytes. All arrays share one buffer. */
export interface Columns {
  moment: Float64Array<ArrayBuffer>;
  allocated: Float64Array<ArrayBuffer>;
  allocatedLeast: Float64Array<ArrayBuffer>;
  active: Float64Array<ArrayBuffer>;
  reservedMost: Float64Array<ArrayBuffer>;
  reservedLeast: Float64Array<ArrayBuffer>;
}

/** The outline of a private pool's envelope, in bytes by column of pixels. */
export interface EnvelopeShape {
  group: number;
  label: string;
  bottom: Float64Array;
  top: Float64Array;
}

export interface FrameReply {
  type: "frame";
  request: FrameRequest;
  pixels: Uint8ClampedArray<ArrayBuffer>;
  /** By column: `ids[x * height + y]`. */
  ids: Uint32Array<ArrayBuffer>;
  columns: Columns;
  detail: Detail;
  /** The highest envelopes in view, and how many others there are; none in a grouping without envelopes. */
  envelopes: EnvelopeShape[];
  other_envelopes: number;
  /** Chunks that are not there yet. */
  waiting: number;
  /** Of the blocks that `ids` number; a question about another set has no answer. */
  set: number;
  peak: { moment: number; allocated_bytes: number };
  legend: LegendRow[];
  groups_in_view: number;
  found: Found | null;
  /** Time that drawing took. */
  took_ms: number;
}

/** A map of the addresses at one moment. `ratio` is device pixels for each CSS pixel; sizes are device pixels. */
export interface MapRequest extends Look {
  moment: number;
  width: number;
  /** The height to fill at the moment with the most reserved bytes; a map of many owners is higher. */
  height: number;
  ratio: number;
}

/** Of one moment, from the ranges and lives that the map is drawn from. */
export interface MapNumbers {
  moment: number;
  reserved_bytes: number;
  allocated_bytes: number;
  /** How many: ranges of an expandable segment that touch count as one. */
  ranges: number;
  blocks: number;
  holes: number;
  largest_hole_bytes: number;
}

/** A pool and stream: where its heading is, and what it has. */
export interface MapOwner {
  y: number;
  label: string;
  ranges: number;
  reserved_bytes: number;
  allocated_bytes: number;
}

export interface MapLabel {
  from: number;
  to: number;
  row: number;
  bytes: number;
}

export interface MapReply {
  type: "map";
  request: MapRequest;
  /** Two lines of pixels for each row: its frame above and below, and its inside, to be stretched to its height. */
  pixels: Uint8ClampedArray<ArrayBuffer>;
  height: number;
  row_height: number;
  frame_height: number;
  /** The top of each row, and one line of ids for each: `ids[row * width + x]`. */
  rows: Int32Array;
  ids: Uint32Array;
  owners: MapOwner[];
  /** Holes that are wide enough for their size as text, each in the row that shows most of it. */
  labels: MapLabel[];
  row_bytes: number;
  /** Ranges below this are drawn wider than their bytes. */
  least_bytes: number;
  numbers: MapNumbers;
  /** Whether the page lacks its ranges. */
  is_missing: boolean;
  time_ns: number | null;
  /** Numbers the map; a question about another one has no answer. */
  set: number;
  legend: LegendRow[];
  groups_in_view: number;
  found: Found | null;
  took_ms: number;
}

/** Segments of a window to draw, as the stack of a frame; sizes and `scroll` in device pixels. */
export interface SegmentsRequest extends Look {
  axis: Axis;
  from: number;
  to: number;
  width: number;
  height: number;
  ratio: number;
  /** What is above the view. */
  scroll: number;
  /** How many times higher than needed. */
  stretch: number;
}

/** Segments of a window, and their use at its first moment with the most reserved bytes. */
export interface SegmentNumbers {
  /** How many in the window; how many of them, without expandable ones, are allocated and freed in it. */
  segments: number;
  allocated_segments: number;
  freed_segments: number;
  moment: number;
  reserved_bytes: number;
  allocated_bytes: number;
  blocks: number;
  holes: number;
  largest_hole_bytes: number;
  /** Those with blocks that fill less than a tenth. */
  barely: { segments: number; reserved_bytes: number; allocated_bytes: number };
}

/** A pool and stream: where its heading is in the view, and what it has at the moment of the numbers. */
export interface SegmentOwner {
  y: number;
  label: string;
  segments: number;
  reserved_bytes: number;
  allocated_bytes: number;
}

export interface SegmentsReply {
  type: "segments";
  request: SegmentsRequest;
  /** Of the view, by row. */
  pixels: Uint8ClampedArray<ArrayBuffer>;
  ids: Uint32Array<ArrayBuffer>;
  /** `scroll` of the request, if there is so much. */
  scroll: number;
  content_height: number;
  /** Strips in view. */
  strips: { y: number; height: number; size_bytes: number }[];
  owners: SegmentOwner[];
  /** For each pixel column: its moment, and bytes then. */
  columns: { moment: Float64Array; allocated: Float64Array; reserved: Float64Array };
  detail: { is_exact: boolean; moments: number; column_moments: number };
  /** Strips that are drawn higher than their bytes. */
  raised: number;
  pixel_bytes: number;
  /** Chunks that are not there yet. */
  waiting: number;
  numbers: SegmentNumbers;
  is_missing: boolean;
  peak: { moment: number; allocated_bytes: number };
  set: number;
  legend: LegendRow[];
  groups_in_view: number;
  found: Found | null;
  took_ms: number;
}

/** A flame graph to draw. `from`, `to` and `moment` are moments; `width` is CSS pixels. */
export interface FlameRequest {
  device: number;
  /** Bytes at `moment`, allocated from `from` to `to`, or at `to - 1` minus those at `from`. */
  of: "live" | "allocated" | "difference";
  by: "stack" | "module";
  moment: number;
  from: number;
  to: number;
  /** Innermost frames at the top. */
  is_inverted: boolean;
  /** Without frames of PyTorch, Python and packages, where a stack has others. */
  is_own: boolean;
  /** The frames from the root to the one that has the full width. */
  zoom: number[];
  width: number;
  query: string;
  is_dark: boolean;
}

export interface FlameRect {
  depth: number;
  x0: number;
  x1: number;
  frame: number;
  /** The place of the parent among the rectangles, -1 for the root. */
  parent: number;
  bytes: number;
  blocks: number;
  label: string;
  detail: string;
  colour: number;
}

export interface FlameReply {
  type: "flame";
  request: FlameRequest;
  rects: FlameRect[];
  /** Of a difference: what there is more of, and less. Their sum is `total_bytes`. */
  more_bytes: number;
  less_bytes: number;
  total_bytes: number;
  blocks: number;
  /** Rectangles that are narrower than a pixel, with all below them. */
  narrow: number;
  /** Whether the window has too many allocations to be summed up. */
  is_too_much: boolean;
  found: Found | null;
  took_ms: number;
}

export interface StackFrame {
  name: string;
  file: string;
  line: number;
}

export interface BlockInfo {
  address: string;
  size_bytes: number;
  requested_bytes: number;
  stream: string;
  pool: string;
  start: number;
  end: number | null;
  is_older: boolean;
  start_ns: number | null;
  end_ns: number | null;
  frames: StackFrame[];
}

/** Moments from `start` to before `end`, null for one behind the tape; what is not known may lie farther away. */
export interface Span {
  start: number;
  end: number | null;
  start_ns: number | null;
  end_ns: number | null;
  is_start_known: boolean;
  is_end_known: boolean;
}

/** Bytes of a mapped range without a block. */
export interface HoleInfo {
  address: string;
  size_bytes: number;
  range_address: string;
  range_bytes: number;
  owner: string;
  /** Over time: how long the range is mapped, and the hole free. */
  mapped?: Span;
  free?: Span | null;
}

/** What is at a pixel. */
export interface Info {
  kind: "group" | "block" | "hole" | "envelope" | "other" | "pending" | "nothing";
  moment: number;
  time_ns: number | null;
  allocated_bytes: number;
  active_bytes: number;
  reserved_least_bytes: number;
  reserved_most_bytes: number;
  group: number | null;
  label: string;
  colour: number;
  group_bytes: number | null;
  block: BlockInfo | null;
  hole: HoleInfo | null;
  /** The height of the envelope in which the place is. */
  envelope_bytes?: number;
  /** Of a row of a table: the grouping of `group`, and the stack of a row of stacks. */
  grouping?: number;
  frames?: StackFrame[];
}

/** The stack at a column, read from the decoded data. */
export interface Stack {
  moment: number;
  allocated_bytes: number;
  /** Of the pixel's columns: at the peak, and the most. */
  active_bytes: number;
  reserved_most_bytes: number;
  groups: { label: string; bytes: number }[];
  /** In a grouping with envelopes: their heights. */
  envelopes?: { label: string; bytes: number }[];
  blocks?: { address: string; size_bytes: number; label: string }[];
}

export type ToEngine =
  | { type: "start"; header: Header }
  | { type: "chunk"; id: string; text: string | null }
  | { type: "device"; device: number }
  | { type: "frame"; request: FrameRequest }
  | { type: "map"; request: MapRequest }
  | { type: "flame"; request: FlameRequest }
  | { type: "segments"; request: SegmentsRequest }
  | { type: "minimap"; device: number; axis: Axis; width: number }
  /** Buffers of a picture that is not shown any more, for the next ones. */
  | { type: "recycle"; buffers: ArrayBuffer[] }
  | { type: "info"; ticket: number; set: number; x: number; id: number }
  | { type: "mapInfo"; ticket: number; set: number; id: number }
  | { type: "segmentInfo"; ticket: number; set: number; x: number; y: number; id: number }
  | { type: "stack"; ticket: number; fraction: number }
  | { type: "table"; request: TableRequest }
  | { type: "tableInfo"; ticket: number; request: TableRequest; row: number }
  | { type: "tableText"; ticket: number; request: TableRequest; format: TextFormat; most: number };

export type FromEngine =
  | { type: "ready" }
  | { type: "need"; id: string }
  | { type: "device"; device: number; times: Float64Array | null; lanes: Lanes }
  | FrameReply
  | MapReply
  | FlameReply
  | SegmentsReply
  | TableReply
  /** A request was worked on: with a picture if anything of it has arrived, else that one follows. */
  | { type: "taken" }
  | { type: "minimap"; device: number; axis: Axis; allocated: Float64Array; reserved: Float64Array }
  | { type: "info"; ticket: number; info: Info | null }
  | { type: "stack"; ticket: number; stack: Stack | null }
  | { type: "tableText"; ticket: number; text: TableText | null }
  | { type: "fault"; chunk: string; text: string };
