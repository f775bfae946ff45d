// The address map in words.

import type { MapOwner, MapReply } from "../engine/protocol.ts";
import { make } from "./dom.ts";
import { bytes, count, duration, share, shortBytes } from "./units.ts";

/** Name, value and note of each number above the map. */
export function mapFigures({ numbers, time_ns, is_missing }: MapReply): [string, string, string][] {
  if (is_missing) return [];
  const { reserved_bytes: reserved, allocated_bytes: allocated, largest_hole_bytes: largest } = numbers;
  const free = reserved - allocated;
  return [
    ["moment", count(numbers.moment), time_ns === null ? "" : `at ${duration(time_ns, 1000)}`],
    ["allocated", bytes(allocated), `${count(numbers.blocks)} ${numbers.blocks === 1 ? "block" : "blocks"}`],
    ["reserved", bytes(reserved), `${count(numbers.ranges)} ${numbers.ranges === 1 ? "range" : "ranges"}`],
    ["free in ranges", bytes(free), `${share(free, reserved) || "0 %"} of reserved`],
    ["largest hole", bytes(largest), `of ${count(numbers.holes)} ${numbers.holes === 1 ? "hole" : "holes"}`],
    ["fragmentation", free > 0 ? `${(100 * (1 - largest / free)).toFixed(1)} %` : "none", "1 - largest hole / free"],
  ];
}

export function ownerHeading({ label, ranges, reserved_bytes: reserved, allocated_bytes: allocated }: MapOwner):
HTMLElement {
  const text = `${bytes(reserved)} in ${count(ranges)} ${ranges === 1 ? "range" : "ranges"}, ${
    share(allocated, reserved) || "0 %"} allocated`;
  const heading = make("p", "owner", "", make("b", "", label), make("span", "", text));
  heading.title = `${label}: ${text}`;
  return heading;
}

export function mapNote({ row_bytes: row, least_bytes: least, numbers }: MapReply): string {
  if (numbers.ranges === 0) return "";
  const wider = least > 1 ? ` Ranges below ${shortBytes(2 ** Math.round(Math.log2(least)))} are drawn wider.` : "";
  return `A full row is ${shortBytes(row)}. Empty space in a frame is mapped and not allocated.${wider}`;
}
