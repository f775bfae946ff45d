// One picture of a window, from whatever has arrived, and the chunks that a finer one needs.

import type { Envelopes } from "../format/envelopes.ts";
import type { Names } from "../format/rest.ts";
import { ChunkError } from "../format/varint.ts";
import { drawBands } from "./bands.ts";
import { type BlockSet, makeBlockSet, nodesOf } from "./blocks.ts";
import { pixelEdges } from "./clock.ts";
import type { Dataset } from "./dataset.ts";
import { drawEnvelopedBands, drawEnvelopedBlocks, type Shapes } from "./enveloped.ts";
import { choosePeaks, chooseReserved, drawBlocks, findMismatch } from "./exact.ts";
import { chooseColumns, type Chosen, EXACT_MOMENTS_MAX, levelFor } from "./levels.ts";
import { paint, type Palette } from "./paint.ts";
import { Palettes } from "./palettes.ts";
import { copyColumns, newColumns, Picture, Spares } from "./picture.ts";
import type { Columns, Detail, FrameReply, FrameRequest } from "./protocol.ts";
import { Scratch } from "./scratch.ts";
import { Tally } from "./tally.ts";
import { Tiles } from "./tiles.ts";

/** Lives that a window may have to be drawn block by block. */
const LIVES_MAX = 2_000_000;
/** Moments beside a window whose blocks are made ready with it. */
const MARGIN_MIN = 4096;
/** A moment of at least so many pixels has an edge at its side. */
const SIDES_PIXELS = 3;
const NO_SHAPES: Shapes = { shapes: [], others: 0 };

/** What the last picture was drawn from, for questions about it. */
export interface Drawn {
  data: Dataset;
  tiles: Tiles;
  request: FrameRequest;
  columns: Columns;
  chosen: Chosen;
  set: BlockSet | null;
  names: Names | null;
  palette: Palette;
  /** Null in a grouping without envelopes. */
  envelopes: Envelopes | null;
}

export class Renderer {
  drawn: Drawn | null = null;
  readonly spares = new Spares();
  private readonly scratch = new Scratch();
  /** The number of the set of blocks that was compared with the counters. */
  private checked = 0;
  private set: { data: Dataset; set: BlockSet } | null = null;
  private readonly palettes = new Palettes();

  constructor(private readonly fault: (error: ChunkError) => void) {}

  /** Draws a window, or null while nothing of it has arrived. */
  draw(data: Dataset, request: FrameRequest, waiting: () => number): FrameReply | null {
    const began = performance.now();
    const { device } = data;
    const { width, height, grouping } = request;
    const names = data.names();
    const clock = request.axis === "time" ? data.clock() : null;
    if (names === undefined || clock === undefined || width < 1 || height < 1) return null;
    const edges = pixelEdges(width, request.from, request.to, clock);
    const [from, to] = [edges[0]!, edges[width]!];
    const columns = newColumns(width, this.spares);
    const level = levelFor(device, to - from, width);
    const tiles = new Tiles(data, grouping);
    this.ask(tiles, level, from, to);
    const chosen = chooseColumns(tiles, level, edges, columns, true);
    if (!chosen.level.some((use) => use >= 0)) return null;

    const set = to - from <= EXACT_MOMENTS_MAX ? this.blocks(data, grouping, from, to) : null;
    if (set !== null && set.number !== this.checked) this.check(set, columns, chosen, data);
    if (set !== null) {
      choosePeaks(set, edges, columns, device.moments);
      const ranges = data.ranges();
      if (ranges !== undefined && ranges !== null) chooseReserved(ranges.reserved, edges, columns, device.moments);
    }
    let peakX = 0;
    for (let x = 1; x < width; x++) if (columns.allocated[x]! > columns.allocated[peakX]!) peakX = x;
    const groups = device.groupings[grouping]?.groups ?? 0;
    const tally = new Tally(groups);
    const picture = new Picture(width, height, request.bottom_bytes, request.top_bytes, this.spares);
    const labels = names?.groups[grouping] ?? [];
    const envelopes = device.groupings[grouping]?.quantity === "envelope" ? data.envelopes() ?? [] : null;
    const rest = [columns, picture, tally, peakX] as const;
    const { shapes, others } = envelopes === null ? NO_SHAPES
      : set !== null ? drawEnvelopedBlocks(set, groups, envelopes, labels, ...rest)
        : drawEnvelopedBands(tiles, chosen, envelopes, labels, ...rest);
    if (envelopes === null && set !== null) drawBlocks(set, groups, ...rest);
    else if (envelopes === null) drawBands(tiles, chosen, ...rest);
    const palette = this.palettes.choose(request, labels, device.groupings[grouping]);
    const [legend, inView] = tally.rows((group) => labels[group] ?? `group ${group}`, (group) => palette.colour(group));
    if (this.drawn !== null) this.spares.give([this.drawn.columns.moment.buffer]);
    this.drawn = { data, tiles, request, columns, chosen, set, names, palette, envelopes };
    return {
      type: "frame", request, columns: copyColumns(columns, this.spares), legend, groups_in_view: inView,
      waiting: waiting(),
      pixels: paint(picture, palette, set?.shade ?? null, set !== null && width / (to - from) >= SIDES_PIXELS,
        this.spares.take(width * height)),
      ids: picture.ids, detail: this.detail(data, level, chosen, set, from, to), envelopes: shapes,
      other_envelopes: others, set: set?.number ?? 0,
      peak: { moment: columns.moment[peakX]!, allocated_bytes: columns.allocated[peakX]! },
      found: this.palettes.found(tally), took_ms: performance.now() - began,
    };
  }

  /** Once for each set of blocks. */
  private check(set: BlockSet, columns: Columns, chosen: Chosen, data: Dataset): void {
    this.checked = set.number;
    const found = findMismatch(set, columns, chosen);
    if (found === null) return;
    const { moment, blocks, counters } = found;
    this.fault(new ChunkError(`d${data.place}/lives`,
      `add up to ${blocks} bytes at moment ${moment}, and the counters have ${counters} bytes: blocks are missing`));
  }

  private ask(tiles: Tiles, level: number, from: number, to: number): void {
    const { column_moments: size, columns } = tiles.data.device.levels[level] ?? { column_moments: 1, columns: 1 };
    const first = Math.min(Math.max(Math.floor(from / size), 0), columns - 1);
    const last = Math.min(Math.max(Math.ceil(to / size) - 1, first), columns - 1);
    tiles.ask(level, first, last, true);
  }

  /** The blocks of a window and some on both sides, null while they are on the way or if there are too many. */
  private blocks(data: Dataset, grouping: number, from: number, to: number): BlockSet | null {
    const { device } = data;
    const last = this.set;
    const [first, end] = [Math.floor(from), Math.min(Math.max(Math.ceil(to), Math.floor(from) + 1), device.moments)];
    if (last?.data === data && last.set.grouping === grouping && last.set.from <= first && last.set.to >= end) {
      return last.set;
    }
    const kinds = data.kinds();
    if (device.lives.count === 0 && device.peaks.allocated_bytes > 0) return null;
    const margin = Math.max(MARGIN_MIN, Math.ceil((end - first) / 8));
    const [low, high] = [Math.max(0, first - margin), Math.min(device.moments, end + margin)];
    const nodes = nodesOf(data, low, high);
    if (nodes === null || kinds === undefined || kinds === null) return null;
    if (nodes.reduce((sum, node) => sum + node.start.length, 0) > LIVES_MAX) return null;
    const set = makeBlockSet(data, grouping, kinds, nodes, low, high, this.scratch);
    this.set = { data, set };
    return set;
  }

  private detail(data: Dataset, level: number, chosen: Chosen, set: BlockSet | null, from: number,
    to: number): Detail {
    if (set !== null) {
      let blocks = 0;
      for (let i = 0; i < set.count; i++) if (set.start[i]! < to && set.end[i]! > from) blocks++;
      return { mode: "blocks", blocks, is_coarser: false };
    }
    let coarsest = level;
    for (const use of chosen.level) coarsest = Math.max(coarsest, use);
    return { mode: "bands", column_moments: data.device.levels[coarsest]?.column_moments ?? 0,
      is_coarser: coarsest > level };
  }
}
