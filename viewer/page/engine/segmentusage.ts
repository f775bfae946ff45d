// Numbers of the segments in a window: how many, and how they are used when the most bytes are reserved.

import { changeAt, type Ranges } from "../format/ranges.ts";
import type { Addresses } from "./addresses.ts";
import type { SegmentNumbers } from "./protocol.ts";
import type { Strip } from "./strips.ts";

/** A segment with blocks that fill less of it is barely used. */
const BARELY = 0.1;

/** The first moment of a window at which the most bytes are reserved. */
export function mostReserved({ reserved }: Ranges, from: number, to: number):
{ moment: number; reserved_bytes: number } {
  let at = changeAt(reserved, from);
  let [moment, most] = [from, reserved.bytes[at]!];
  for (at++; at < reserved.moment.length && reserved.moment[at]! < to; at++) {
    if (reserved.bytes[at]! > most) [moment, most] = [reserved.moment[at]!, reserved.bytes[at]!];
  }
  return { moment, reserved_bytes: most };
}

export function usage({ start, end }: Ranges, strips: Strip[], found: Addresses, from: number, to: number):
Omit<SegmentNumbers, "moment" | "reserved_bytes"> {
  let [segments, allocated, freed] = [0, 0, 0];
  for (const strip of strips) {
    segments += strip.segments;
    if (strip.segments !== strip.ranges.length) continue;
    for (const range of strip.ranges) {
      if (start[range]! > from) allocated++;
      if (end[range]! < to) freed++;
    }
  }
  const barely = { segments: 0, reserved_bytes: 0, allocated_bytes: 0 };
  const { mapped, thingsAt, node, size } = found;
  for (let range = 0; range < mapped.count; range++) {
    let bytes = 0;
    for (let thing = thingsAt[range]!; thing < thingsAt[range + 1]!; thing++) {
      if (node[thing]! >= 0) bytes += size[thing]!;
    }
    if (bytes === 0 || bytes >= BARELY * mapped.size[range]!) continue;
    barely.segments++;
    barely.reserved_bytes += mapped.size[range]!;
    barely.allocated_bytes += bytes;
  }
  return { segments, allocated_segments: allocated, freed_segments: freed, allocated_bytes: found.allocated_bytes,
    blocks: found.blocks, holes: found.holes, largest_hole_bytes: found.largest_hole_bytes, barely };
}
