// The table of segments: mapped ranges at a moment, with their blocks and holes.

import type { Kinds, LivesNode } from "../format/lives.ts";
import type { Ranges } from "../format/ranges.ts";
import type { Names } from "../format/rest.ts";
import { addressesAt } from "./addresses.ts";
import type { Dataset } from "./dataset.ts";
import { ownerLabel } from "./mapper.ts";
import { numbers, type Sheet, texts } from "./sheet.ts";

export function rangeSheet(data: Dataset, names: Names, ranges: Ranges, kinds: Kinds | null, nodes: LivesNode[],
  moment: number): Sheet {
  const { mapped, thingsAt, node, size, misplaced } = addressesAt(ranges, kinds, nodes, moment);
  const array = (): Float64Array => new Float64Array(mapped.count);
  const [allocated, blocks, holes, free, largest] = [array(), array(), array(), array(), array()];
  for (let range = 0; range < mapped.count; range++) {
    for (let thing = thingsAt[range]!; thing < thingsAt[range + 1]!; thing++) {
      const bytes = size[thing]!;
      if (node[thing]! >= 0) {
        blocks[range]!++;
        allocated[range]! += bytes;
        continue;
      }
      holes[range]!++;
      free[range]! += bytes;
      largest[range] = Math.max(largest[range]!, bytes);
    }
  }
  const owners = [...new Set(mapped.owner)];
  const placeOf = new Map(owners.map((owner, place) => [owner, place]));
  const of = (list: Float64Array) => (row: number): number => list[row]!;
  const summed = { has_sum: true };
  return {
    rows: mapped.count, sort: "address", moment: () => moment,
    columns: [
      numbers("address", "address", "address", of(mapped.address), "Shows the address map", { is_place: true }),
      numbers("size_bytes", "size", "bytes", of(mapped.size), "", summed),
      numbers("allocated_bytes", "allocated", "bytes", of(allocated), "", summed),
      numbers("blocks", "blocks", "count", of(blocks), "", summed),
      numbers("free_bytes", "free", "bytes", of(free), "Bytes in holes", summed),
      numbers("holes", "holes", "count", of(holes), "", summed),
      numbers("largest_hole_bytes", "largest hole", "bytes", of(largest)),
      texts("pool_and_stream", "pool and stream", owners.map((owner) => ownerLabel({ data, names }, owner)),
        (row) => placeOf.get(mapped.owner[row]!)!),
    ],
    notes: misplaced === 0 ? []
      : [`${misplaced} ${misplaced === 1 ? "block is" : "blocks are"} not in a mapped range: the page is damaged.`],
  };
}
