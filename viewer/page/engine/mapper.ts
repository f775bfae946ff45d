// Draws the map of the addresses, and answers questions about the one drawn last.

import type { Kinds } from "../format/lives.ts";
import { EMPTY_RANGES } from "../format/ranges.ts";
import { type Names, NO_NAMES } from "../format/rest.ts";
import { ChunkError } from "../format/varint.ts";
import { type Addresses, addressesAt, mappedAt } from "./addresses.ts";
import { blockInfo, hex } from "./answers.ts";
import { nodesOf } from "./blocks.ts";
import { packed, parseColour, THEMES } from "./colours.ts";
import type { Dataset } from "./dataset.ts";
import { chooseScale, layOut, type Layout, leastBytes, type Scale } from "./maplayout.ts";
import { type Palette, shadeOf } from "./paint.ts";
import { Palettes } from "./palettes.ts";
import type { Spares } from "./picture.ts";
import { EDGE, FIRST_ID, type Info, type MapLabel, type MapOwner, type MapReply, type MapRequest } from "./protocol.ts";
import { Tally } from "./tally.ts";

/** Blocks of at least this many pixels have an edge. */
const EDGED_PIXELS = 3;

/** Holes of at least this many CSS pixels have a label. */
const LABELLED_PIXELS = 76;

/** What the last map was drawn from. */
interface Drawn {
  number: number;
  data: Dataset;
  request: MapRequest;
  names: Names;
  kinds: Kinds | null;
  groupOfKind: Float64Array;
  found: Addresses;
  palette: Palette;
  tally: Tally;
}

export class Mapper {
  private drawn: Drawn | null = null;
  private readonly palettes = new Palettes();
  private scale: { key: string; scale: Scale; height: number } | null = null;
  private known: { data: Dataset; moment: number; found: Addresses } | null = null;
  /** Devices whose blocks were reported to lie outside the ranges. */
  private readonly reported = new Set<number>();

  constructor(
    private readonly spares: Spares,
    private readonly fault: (error: ChunkError) => void,
  ) {}

  /** Draws the map of a moment, or null while something of it is on the way. */
  draw(data: Dataset, request: MapRequest): MapReply | null {
    const began = performance.now();
    const { device } = data;
    const { grouping, moment, width, ratio } = request;
    const [names, ranges, kinds, clock] = [data.names(), data.ranges(), data.kinds(), data.clock()];
    const nodes = nodesOf(data, moment, moment + 1);
    if (names === undefined || ranges === undefined || kinds === undefined || clock === undefined) return null;
    if (nodes === null || width < 8) return null;
    const found = this.known?.data === data && this.known.moment === moment ? this.known.found
      : addressesAt(ranges ?? EMPTY_RANGES, kinds, nodes, moment);
    this.known = { data, moment, found };
    if (ranges !== null) this.check(data, found, moment);
    const pad = Math.max(1, Math.round(ratio));
    const [layout, scale] = this.layout(data, found, { ...request, width: width - 2 * pad });
    const groupLabels = names?.groups[grouping] ?? [];
    const palette = this.palettes.choose(request, groupLabels, device.groupings[grouping]);
    const tally = new Tally(device.groupings[grouping]?.groups ?? 0);
    const groupOfKind = kinds?.groups[data.kindGroup(grouping)] ?? new Float64Array();
    this.drawn = { number: (this.drawn?.number ?? 0) + 1, data, request, names: names ?? NO_NAMES, kinds, groupOfKind,
      found, palette, tally };
    const [ids, pixels, labels] = this.raster(this.drawn, layout, pad);
    const [legend, inView] = this.legend(this.drawn, groupLabels);
    return {
      type: "map", request, pixels, ids, labels, height: layout.height, row_height: scale.rowHeight, frame_height: pad,
      rows: Int32Array.from(layout.rows), owners: owners(this.drawn, layout), row_bytes: scale.rowBytes,
      least_bytes: leastBytes(scale), time_ns: clock?.timeAt(moment) ?? null, set: this.drawn.number, legend,
      numbers: { moment, reserved_bytes: found.reserved_bytes, allocated_bytes: found.allocated_bytes,
        ranges: found.mapped.count, blocks: found.blocks, holes: found.holes,
        largest_hole_bytes: found.largest_hole_bytes },
      is_missing: ranges === null && device.peaks.reserved_bytes > 0, groups_in_view: inView,
      found: this.palettes.found(tally), took_ms: performance.now() - began,
    };
  }

  private check(data: Dataset, found: Addresses, moment: number): void {
    if (found.misplaced === 0 || this.reported.has(data.place)) return;
    this.reported.add(data.place);
    this.fault(new ChunkError(`d${data.place}/ranges`,
      `do not cover ${found.misplaced} blocks at moment ${moment}, or these blocks overlap: they are not on the map`));
  }

  /** On the scale that fits the moment with the most reserved bytes, so that stepping does not change it. */
  private layout(data: Dataset, found: Addresses, { width, height, ratio }: MapRequest): [Layout, Scale] {
    const key = [data.place, width, height, ratio].join(" ");
    if (this.scale?.key !== key) {
      const ranges = data.ranges();
      const fullest = ranges === undefined || ranges === null ? found.mapped
        : mappedAt(ranges, data.device.peaks.reserved_moment);
      const scale = chooseScale(fullest, width, height, ratio);
      this.scale = { key, scale, height: Math.max(height, layOut(fullest, scale).height) };
    }
    const { scale } = this.scale;
    const layout = layOut(found.mapped, scale);
    if (layout.height <= this.scale.height) return [layout, scale];
    const coarser = chooseScale(found.mapped, width, this.scale.height, ratio);
    return [layOut(found.mapped, coarser), coarser];
  }

  /** One line of ids for each row, and two of pixels: the frame, and what is in it. */
  private raster(drawn: Drawn, layout: Layout, pad: number):
  [Uint32Array, Uint8ClampedArray<ArrayBuffer>, MapLabel[]] {
    const { request: { width, is_dark, ratio }, found, kinds, palette, groupOfKind } = drawn;
    const ids = new Uint32Array(layout.rows.length * width);
    const pixels = this.spares.take(2 * width * layout.rows.length);
    const [plain, , edges] = palette.shades;
    const labels = new Map<number, MapLabel>();
    const frame = packed(parseColour((is_dark ? THEMES.dark : THEMES.light).frame));
    for (const { row, from, to, range, offset, bytes } of layout.parts) {
      const [line, top] = [row * width + pad, (2 * row + 1) * width + pad];
      const first = found.mapped.address[range]! + offset;
      const scale = (to - from) / bytes;
      const pixel = (address: number): number => (
        Math.min(to, Math.max(from, from + Math.round((address - first) * scale))));
      for (let thing = thingAt(found, range, first); thing < found.thingsAt[range + 1]!; thing++) {
        const address = found.address[thing]!;
        if (address >= first + bytes) break;
        const [x0, x1] = [pixel(address), pixel(address + found.size[thing]!)];
        if (x1 <= x0) continue;
        ids.fill(thing + FIRST_ID, line + x0, line + x1);
        const node = found.node[thing]!;
        if (node < 0) {
          const known = labels.get(thing);
          const isWider = x1 - x0 > (known === undefined ? LABELLED_PIXELS * ratio : known.to - known.from);
          if (isWider) labels.set(thing, { from: pad + x0, to: pad + x1, row, bytes: found.size[thing]! });
          continue;
        }
        const kind = found.nodes[node]!.kind[found.place[thing]!]!;
        const shade = kinds === null ? 0 : shadeOf(groupOfKind[kind] ?? 0, kind);
        pixels.fill(plain[shade]!, top + x0, top + x1);
        const isEnd = address + found.size[thing]! <= first + bytes;
        if (isEnd && x1 - x0 >= EDGED_PIXELS) pixels[top + x1 - 1] = edges[shade]!;
      }
      // The frame is outside; a range that goes on in another row is open there.
      const left = offset === 0 ? pad : 0;
      const right = offset + bytes >= found.mapped.size[range]! ? pad : 0;
      pixels.fill(frame, top + from - left, top + from);
      pixels.fill(frame, top + to, top + to + right);
      pixels.fill(frame, top - width + from - left, top - width + to + right);
    }
    return [ids, new Uint8ClampedArray(pixels.buffer), [...labels.values()]];
  }

  private legend({ found, groupOfKind, tally, palette }: Drawn, labels: string[]): ReturnType<Tally["rows"]> {
    const sums = new Map<number, number>();
    for (let thing = 0; thing < found.thingsAt[found.mapped.count]!; thing++) {
      if (found.node[thing]! < 0) continue;
      const group = groupOfKind[found.nodes[found.node[thing]!]!.kind[found.place[thing]!]!] ?? 0;
      sums.set(group, (sums.get(group) ?? 0) + found.size[thing]!);
    }
    for (const [group, bytes] of sums) if (group < tally.most.length) tally.see(group, bytes, true);
    return tally.rows((group) => labels[group] ?? `group ${group}`, (group) => palette.colour(group));
  }

  /** Describes a block or a hole of the map that has this number. */
  info(set: number, id: number): Info | null {
    const { drawn } = this;
    const thing = ((id & ~EDGE) >>> 0) - FIRST_ID;
    if (drawn?.number !== set || thing < 0 || thing >= drawn.found.thingsAt[drawn.found.mapped.count]!) return null;
    const { found, data, request, names, groupOfKind, palette, tally } = drawn;
    const node = found.nodes[found.node[thing]!];
    const info: Info = {
      kind: "hole", moment: request.moment, time_ns: data.clock()?.timeAt(request.moment) ?? null,
      allocated_bytes: found.allocated_bytes, active_bytes: found.allocated_bytes,
      reserved_least_bytes: found.reserved_bytes, reserved_most_bytes: found.reserved_bytes, group: null, label: "",
      colour: 0, group_bytes: null, block: null, hole: null,
    };
    if (node === undefined) {
      const range = rangeOf(found, thing);
      return { ...info, hole: { address: hex(found.address[thing]!), size_bytes: found.size[thing]!,
        range_address: hex(found.mapped.address[range]!), range_bytes: found.mapped.size[range]!,
        owner: ownerLabel(drawn, found.mapped.owner[range]!) } };
    }
    const group = groupOfKind[node.kind[found.place[thing]!]!] ?? 0;
    return { ...info, kind: "block", group, label: names.groups[request.grouping]?.[group] ?? `group ${group}`,
      colour: palette.colour(group), group_bytes: tally.atPeak[group] ?? null,
      block: blockInfo(data, names, node, found.place[thing]!) };
  }
}

/** The thing of a range that has an address. */
function thingAt(found: Addresses, range: number, address: number): number {
  let [low, high] = [found.thingsAt[range]!, found.thingsAt[range + 1]! - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (found.address[middle]! <= address) low = middle;
    else high = middle - 1;
  }
  return low;
}

function rangeOf(found: Addresses, thing: number): number {
  let range = 0;
  while (found.thingsAt[range + 1]! <= thing) range++;
  return range;
}

/** A pool and stream in words. */
export function ownerLabel({ data, names }: Pick<Drawn, "data" | "names">, owner: number): string {
  const place = data.device.groupings.findIndex((one) => one.name === "pool and stream");
  const label = names.groups[place]?.[owner] ?? `pool and stream ${owner}`;
  // A pool's name is its pair of numbers; that of the default pool says nothing to most readers.
  return label.replace(/^\(0, 0\)/, "default pool").replace(/^\(/, "pool (");
}

function owners(drawn: Drawn, layout: Layout): MapOwner[] {
  const { mapped, thingsAt, node, size } = drawn.found;
  let range = 0;
  return layout.headings.map(({ owner, y }) => {
    const one: MapOwner = { y, label: ownerLabel(drawn, owner), ranges: 0, reserved_bytes: 0, allocated_bytes: 0 };
    for (; range < mapped.count && mapped.owner[range] === owner; range++) {
      one.ranges++;
      one.reserved_bytes += mapped.size[range]!;
      for (let thing = thingsAt[range]!; thing < thingsAt[range + 1]!; thing++) {
        if (node[thing]! >= 0) one.allocated_bytes += size[thing]!;
      }
    }
    return one;
  });
}
