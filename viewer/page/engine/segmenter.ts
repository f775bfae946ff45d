// Draws segments over time, and answers questions about the picture drawn last.

import type { Kinds } from "../format/lives.ts";
import { EMPTY_RANGES } from "../format/ranges.ts";
import { type Names, NO_NAMES } from "../format/rest.ts";
import { ChunkError } from "../format/varint.ts";
import { type Addresses, addressesAt } from "./addresses.ts";
import { nodesOf } from "./blocks.ts";
import { pixelEdges } from "./clock.ts";
import type { Dataset } from "./dataset.ts";
import { ownerLabel } from "./mapper.ts";
import { Palettes } from "./palettes.ts";
import type { Spares } from "./picture.ts";
import type { Info, SegmentOwner, SegmentsReply, SegmentsRequest } from "./protocol.ts";
import { addUp, momentsOf, type Placed, placeLives, reservedAt } from "./segmentcolumns.ts";
import { segmentInfo } from "./segmentinfo.ts";
import { layOutStrips } from "./segmentlayout.ts";
import { Region } from "./segmentlives.ts";
import { drawStrips, type Scene } from "./segmentraster.ts";
import { mostReserved, usage } from "./segmentusage.ts";
import { type Strip, StripFinder, stripsOf } from "./strips.ts";
import { Tally } from "./tally.ts";

/** Between two pictures of one window while its lives arrive. */
const PARTIAL_MS = 250;

/** What a window shows, whatever its colours and its part in view are. */
interface Window {
  key: string;
  region: Region;
  lives: number;
  from: number;
  to: number;
  moments: Float64Array;
  strips: Strip[];
  placed: Placed;
}

/** What the last picture was drawn from. */
export interface DrawnSegments {
  number: number;
  data: Dataset;
  request: SegmentsRequest;
  names: Names;
  window: Window;
  scene: Scene;
  tally: Tally;
  allocated: Float64Array;
  reserved: Float64Array;
}

export class Segmenter {
  private drawn: DrawnSegments | null = null;
  private region: Region | null = null;
  private window: Window | null = null;
  private at: { data: Dataset; moment: number; found: Addresses } | null = null;
  private readonly palettes = new Palettes();
  private partialAt = 0;
  /** Devices whose blocks were reported to lie outside the ranges. */
  private readonly reported = new Set<number>();

  constructor(
    private readonly spares: Spares,
    private readonly fault: (error: ChunkError) => void,
  ) {}

  /** Draws a window, or null while too little of it is there. */
  draw(data: Dataset, request: SegmentsRequest): SegmentsReply | null {
    const began = performance.now();
    const { device } = data;
    const { width, height, grouping, ratio } = request;
    const [names, known, kinds] = [data.names(), data.ranges(), data.kinds()];
    const clock = request.axis === "time" ? data.clock() : null;
    if (names === undefined || known === undefined || kinds === undefined || clock === undefined) return null;
    if (width < 1 || height < 1) return null;
    const ranges = known ?? EMPTY_RANGES;
    const window = this.windowOf(data, request, pixelEdges(width, request.from, request.to, clock), kinds);
    if (window === null) return null;
    const { region, from, to, moments, strips, placed } = window;
    const most = mostReserved(ranges, from, to);
    const found = this.addresses(data, kinds, most.moment);
    if (found === null) return null;
    if (known !== null) this.check(data, placed);

    const layout = layOutStrips(strips, height, ratio, request.stretch);
    const scroll = Math.max(0, Math.min(request.scroll, layout.height - height));
    const labels = names?.groups[grouping] ?? [];
    const palette = this.palettes.choose(request, labels, device.groupings[grouping]);
    const groupOfKind = kinds?.groups[data.kindGroup(grouping)] ?? new Float64Array();
    const scene: Scene = { ranges, strips, layout, placed, lives: region.lives.now(), kinds, groupOfKind, moments,
      palette, isDark: request.is_dark, height, scroll };
    const [pixels, ids] = [this.spares.take(width * height), this.spares.take(width * height)];
    drawStrips(scene, pixels, ids);

    const tally = new Tally(device.groupings[grouping]?.groups ?? 0);
    const { kind } = region.lives;
    const { allocated, peak } = addUp(placed, width, (life) => kinds?.size[kind[life]!] ?? 0,
      (life) => groupOfKind[kind[life]!] ?? 0, tally);
    const [legend, inView] = tally.rows((group) => labels[group] ?? `group ${group}`, (group) => palette.colour(group));
    const reserved = reservedAt(ranges, strips, moments);
    this.drawn = { number: (this.drawn?.number ?? 0) + 1, data, request, names: names ?? NO_NAMES, window, scene, tally,
      allocated, reserved };
    const shown = strips.map((strip, place) => ({ y: layout.top[place]! - scroll, height: layout.high[place]!,
      size_bytes: strip.size_bytes })).filter(({ y, height: high }) => y < height && y + high > 0);
    return {
      type: "segments", request, pixels: new Uint8ClampedArray(pixels.buffer), ids, scroll,
      content_height: layout.height, strips: shown, owners: this.owners(this.drawn, found),
      columns: { moment: moments.slice(), allocated, reserved },
      detail: { is_exact: region.level < 0, moments: to - from,
        column_moments: device.levels[region.level]?.column_moments ?? 0 },
      raised: layout.raised, pixel_bytes: layout.pixel_bytes, waiting: region.waiting,
      numbers: { ...usage(ranges, strips, found, from, to), ...most },
      is_missing: known === null && device.peaks.reserved_bytes > 0,
      peak: { moment: moments[peak] ?? 0, allocated_bytes: allocated[peak] ?? 0 },
      set: this.drawn.number, legend, groups_in_view: inView, found: this.palettes.found(tally),
      took_ms: performance.now() - began,
    };
  }

  private windowOf(data: Dataset, { from, to, axis, width }: SegmentsRequest, edges: Float64Array, kinds: Kinds | null):
  Window | null {
    const first = Math.max(0, Math.floor(edges[0]!));
    const end = Math.min(data.device.moments, Math.max(first + 1, Math.ceil(edges[width]!)));
    if (this.region?.isFor(data, first, end, width) !== true) this.region = Region.of(data, first, end, width);
    const { region } = this;
    if (region === null) return null;
    if (region.waiting > 0) {
      region.advance(kinds?.size ?? []);
      const isDue = performance.now() - this.partialAt > PARTIAL_MS && region.level >= 0 && region.lives.count > 0;
      if (region.waiting > 0 && !isDue) return null;
      this.partialAt = performance.now();
    }
    const key = [data.place, from, to, axis, width].join(" ");
    const { window } = this;
    if (window?.key === key && window.region === region && window.lives === region.lives.count) return window;
    const moments = momentsOf(region, edges, this.spares);
    if (moments === null) return null;
    const ranges = data.ranges() ?? EMPTY_RANGES;
    const strips = stripsOf(ranges, first, end);
    const placed = placeLives(region.lives, moments, new StripFinder(ranges, strips));
    this.window = { key, region, lives: region.lives.count, from: first, to: end, moments, strips, placed };
    return this.window;
  }

  /** What fills the ranges at a moment, null while lives are on the way. */
  private addresses(data: Dataset, kinds: Kinds | null, moment: number): Addresses | null {
    if (this.at?.data === data && this.at.moment === moment) return this.at.found;
    const nodes = nodesOf(data, moment, moment + 1);
    if (nodes === null) return null;
    const found = addressesAt(data.ranges() ?? EMPTY_RANGES, kinds, nodes, moment);
    this.at = { data, moment, found };
    return found;
  }

  private check(data: Dataset, { misplaced }: Placed): void {
    if (misplaced === 0 || this.reported.has(data.place)) return;
    this.reported.add(data.place);
    this.fault(new ChunkError(`d${data.place}/ranges`,
      `do not cover ${misplaced} blocks of the window: they are not among the segments over time`));
  }

  /** Headings in view. */
  private owners({ data, names, scene: { layout, strips, scroll, height } }: DrawnSegments, found: Addresses):
  SegmentOwner[] {
    const inView = layout.headings.map(({ owner, y }) => ({ owner, y: y - scroll }))
      .filter(({ y }) => y > -height && y < height);
    const { mapped, thingsAt, node, size } = found;
    return inView.map(({ owner, y }) => {
      const one: SegmentOwner = { y, label: ownerLabel({ data, names }, owner), segments: 0, reserved_bytes: 0,
        allocated_bytes: 0 };
      for (const strip of strips) if (strip.owner === owner) one.segments += strip.segments;
      for (let range = 0; range < mapped.count; range++) {
        if (mapped.owner[range] !== owner) continue;
        one.reserved_bytes += mapped.size[range]!;
        for (let thing = thingsAt[range]!; thing < thingsAt[range + 1]!; thing++) {
          if (node[thing]! >= 0) one.allocated_bytes += size[thing]!;
        }
      }
      return one;
    });
  }

  /** Describes the block, hole or segment at a pixel of the picture that has this number. */
  info(set: number, x: number, y: number, id: number): Info | null {
    return this.drawn?.number === set ? segmentInfo(this.drawn, x, y, id) : null;
  }
}
