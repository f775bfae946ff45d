// Segments over time in words.

import type { SegmentOwner, SegmentsReply } from "../engine/protocol.ts";
import { make } from "./dom.ts";
import { bytes, count, share } from "./units.ts";

const number = (value: number, one: string): string => `${count(value)} ${value === 1 ? one : `${one}s`}`;

/** Name, value and note of each number above the picture. */
export function segmentFigures({ numbers, is_missing }: SegmentsReply): [string, string, string][] {
  if (is_missing) return [];
  const { segments, allocated_segments: allocated, freed_segments: freed, barely, reserved_bytes: reserved } = numbers;
  const changes = allocated + freed === 0 ? "" : `${count(allocated)} allocated, ${count(freed)} freed in it`;
  const free = reserved - numbers.allocated_bytes;
  return [
    ["segments in the window", count(segments), changes],
    ["most reserved", bytes(reserved), `at moment ${count(numbers.moment)}`],
    ["of it allocated", bytes(numbers.allocated_bytes), number(numbers.blocks, "block")],
    ["of it free", bytes(free), `${share(free, reserved) || "0 %"}, in ${number(numbers.holes, "hole")}`],
    ["largest hole", bytes(numbers.largest_hole_bytes), "at that moment"],
    ["less than 10 % used", number(barely.segments, "segment"), barely.segments === 0 ? "at that moment"
      : `${bytes(barely.reserved_bytes)}, ${bytes(barely.allocated_bytes)} allocated`],
  ];
}

export function segmentHeading({ label, segments, reserved_bytes: reserved, allocated_bytes: allocated }: SegmentOwner,
  moment: number): HTMLElement {
  const use = reserved === 0 ? "none" : `${bytes(reserved)}, ${share(allocated, reserved) || "0 %"} allocated`;
  const text = `${number(segments, "segment")}; at moment ${count(moment)}: ${use}`;
  const heading = make("p", "owner", "", make("b", "", label), make("span", "", text));
  heading.title = `${label}: ${text}`;
  return heading;
}

/** The level of detail, and what is drawn larger than it is. */
export function segmentNote(reply: SegmentsReply): string {
  const { detail, request: { width }, raised, pixel_bytes: pixel, waiting, numbers } = reply;
  if (numbers.segments === 0) return "";
  const parts: string[] = [];
  if (!detail.is_exact) {
    parts.push(`Each column of pixels shows the highest peak of its columns of ${count(detail.column_moments)} `
      + "moments; blocks that are not alive then are not drawn.");
  } else if (detail.moments > width) {
    parts.push(`Each column of pixels shows one of about ${count(detail.moments / width)} moments, the one with the `
      + "most allocated bytes; blocks that are not alive then are not drawn.");
  } else parts.push("Exact: every moment and every block.");
  parts.push(`A row of pixels is ${bytes(pixel)}; smaller blocks are one row high.`);
  if (raised > 0) parts.push(`Drawn higher than their bytes: ${number(raised, "strip")}.`);
  if (waiting > 0) parts.push("Loading …");
  return parts.join(" ");
}
