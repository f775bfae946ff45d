// What is at a place, in words: for the tooltip and for the panel of the pinned thing.

import { isInternalFile } from "../engine/frames.ts";
import type { BlockInfo, Info, Span, StackFrame } from "../engine/protocol.ts";
import { make, swatch } from "./dom.ts";
import { bytes, count, duration, exactBytes, share } from "./units.ts";

/** Frames in a tooltip. */
const TIP_FRAMES = 5;

export function isInternal(frame: StackFrame): boolean {
  return isInternalFile(frame.file);
}

function rows(...pairs: (readonly [string, string] | null)[]): HTMLElement {
  const list = make("dl", "facts");
  for (const pair of pairs) {
    if (pair !== null && pair[1] !== "") list.append(make("dt", "", pair[0]), make("dd", "", pair[1]));
  }
  return list;
}

function momentText(moment: number, time_ns: number | null): string {
  return time_ns === null ? count(moment) : `${count(moment)} at ${duration(time_ns, 1000)}`;
}

function head(info: Info, text: string): HTMLElement {
  const title = make("p", "title");
  title.append(swatch(info.colour), make("span", "", text));
  return title;
}

function lifetime(block: BlockInfo): string {
  const begin = block.is_older ? "before the recording" : `moment ${count(block.start)}`;
  if (block.end === null) return `${begin} to the end of the recording`;
  const moments = block.end - block.start;
  const time = block.start_ns !== null && block.end_ns !== null && !block.is_older
    ? `, ${duration(block.end_ns - block.start_ns)}` : "";
  return `${begin} to ${count(block.end)}: ${block.is_older ? "at least " : ""}${count(moments)} moments${time}`;
}

export function frameText(frame: StackFrame): string {
  return frame.line > 0 ? `${frame.file}:${frame.line} ${frame.name}` : `${frame.file} ${frame.name}`;
}

/** The frames, innermost first: the user's are emphasised, those of libraries are dimmed. */
function stackList(frames: StackFrame[], isShort: boolean): HTMLElement {
  const list = make("ol", "stack");
  const users = frames.filter((frame) => !isInternal(frame));
  const shown = isShort ? (users.length > 0 ? users : frames).slice(0, TIP_FRAMES) : frames;
  let isFirst = true;
  for (const frame of shown) {
    const isOwn = !isInternal(frame);
    const item = make("li", isOwn ? (isFirst ? "own first" : "own") : "internal");
    if (isOwn) isFirst = false;
    item.append(make("b", "", frame.name), make("span", "", frame.line > 0 ? `${frame.file}:${frame.line}`
      : frame.file));
    list.append(item);
  }
  const hidden = frames.length - shown.length;
  if (hidden > 0) list.append(make("li", "more", `${count(hidden)} more frames: click to see them`));
  return list;
}

function blockParts(info: Info, block: BlockInfo, isShort: boolean): HTMLElement[] {
  const parts = [
    head(info, `${bytes(block.size_bytes)} block`),
    rows(
      ["address", block.address],
      ["size", exactBytes(block.size_bytes)],
      ["requested", block.requested_bytes === block.size_bytes ? "the same" : exactBytes(block.requested_bytes)],
      ["group", info.label],
      isShort ? null : ["group's bytes", info.group_bytes === null ? ""
        : `${exactBytes(info.group_bytes)}, ${share(info.group_bytes, info.allocated_bytes)} of allocated`],
      ["stream", block.stream], ["pool", block.pool], ["alive", lifetime(block)],
      ["allocated", `${bytes(info.allocated_bytes)} at moment ${momentText(info.moment, info.time_ns)}`],
    ),
  ];
  parts.push(block.frames.length > 0 ? stackList(block.frames, isShort)
    : make("p", "note", "The recording has no stack for this block."));
  return parts;
}

function spanText(span: Span | null | undefined): string {
  if (span === undefined || span === null) return "";
  const { start, end, start_ns, end_ns, is_start_known: isStartKnown, is_end_known: isEndKnown } = span;
  const first = isStartKnown ? `moment ${count(start)}` : `before moment ${count(start)}`;
  const last = end === null ? "the end of the recording" : isEndKnown ? count(end) : `after ${count(end)}`;
  const time = start_ns !== null && end_ns !== null && isStartKnown && isEndKnown
    ? `: ${duration(end_ns - start_ns)}` : "";
  return `${first} to ${last}${time}`;
}

function holeRows({ hole, moment, time_ns }: Info): HTMLElement[] {
  if (hole === null) return [];
  return [rows(["address", hole.address], ["size", exactBytes(hole.size_bytes)],
    ["in range", `${hole.range_address}, ${bytes(hole.range_bytes)}`], ["pool and stream", hole.owner],
    ["range mapped", spanText(hole.mapped)], ["hole free", spanText(hole.free)],
    ["moment", momentText(moment, time_ns)])];
}

/** Describes a place. */
export function describe(info: Info, isShort: boolean): HTMLElement[] {
  if (info.block !== null) return blockParts(info, info.block, isShort);
  const { reserved_least_bytes: least, reserved_most_bytes: most } = info;
  const common: [string, string][] = [
    ["allocated", isShort ? bytes(info.allocated_bytes) : exactBytes(info.allocated_bytes)],
    ["reserved", least === most ? bytes(most) : `${bytes(least)} to ${bytes(most)}`],
    ["moment", momentText(info.moment, info.time_ns)],
  ];
  switch (info.kind) {
    case "nothing":
      return [rows(...common)];
    case "hole":
      return [make("p", "title", `${bytes(info.hole?.size_bytes ?? 0)} hole`), ...holeRows(info)];
    case "envelope":
      return [head(info, `private pool ${info.label}: capacity ${bytes(info.envelope_bytes ?? 0)}`),
        rows(["capacity", exactBytes(info.envelope_bytes ?? 0)], ["in blocks", exactBytes(info.group_bytes ?? 0)],
          ...common)];
    case "pending":
      return [make("p", "title", "freed, in use by another stream"),
        rows(["bytes", exactBytes(info.group_bytes ?? 0)], ...common)];
    default:
      return [head(info, info.kind === "other" ? "other: all smaller groups" : info.label),
        rows(["bytes", exactBytes(info.group_bytes ?? 0)],
          ["share", `${share(info.group_bytes ?? 0, info.allocated_bytes)} of allocated`], ...common),
        ...(info.frames === undefined || info.frames.length === 0 ? [] : [stackList(info.frames, isShort)])];
  }
}

/** The stack, or the label of a group, as text to paste elsewhere. */
export function copyText(info: Info): string {
  const { block } = info;
  if (block === null) return info.label;
  const size = `${block.address}: ${exactBytes(block.size_bytes)}, requested ${exactBytes(block.requested_bytes)}`;
  return [size, ...block.frames.map((frame) => `  ${frameText(frame)}`)].join("\n");
}
