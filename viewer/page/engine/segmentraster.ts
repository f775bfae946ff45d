// Draws the strips that are in view: mapped ranges, and the blocks in them.

import { mix, packed, parseColour, THEMES } from "./colours.ts";
import type { Kinds, LivesNode } from "../format/lives.ts";
import type { Ranges } from "../format/ranges.ts";
import { type Palette, shadeOf } from "./paint.ts";
import { FIRST_ID } from "./protocol.ts";
import { columnsOf, type Placed } from "./segmentcolumns.ts";
import type { Layout } from "./segmentlayout.ts";
import type { Strip } from "./strips.ts";

/** How far the colour of a mapped range goes from that of frames to the background. */
const MAPPED = 0.72;
/** Blocks of at least this height and width have edges. */
const EDGED_PIXELS = 5;
/** Segments of at least this height that share a strip have a line between them. */
const GAP_PIXELS = 4;

/** All that a picture is drawn from. */
export interface Scene {
  ranges: Ranges;
  strips: Strip[];
  layout: Layout;
  placed: Placed;
  lives: LivesNode & { count: number };
  kinds: Kinds | null;
  groupOfKind: ArrayLike<number>;
  moments: Float64Array;
  palette: Palette;
  isDark: boolean;
  /** Height of what is in view, and the layout's row at its top. */
  height: number;
  scroll: number;
}

/** Pixels and ids, by row. A life is `FIRST_ID` plus its place; a range follows all lives. */
export function drawStrips(scene: Scene, pixels: Uint32Array, ids: Uint32Array): void {
  const { moments: { length: width }, height } = scene;
  const fill = (y0: number, y1: number, x0: number, x1: number, colour: number, id: number): void => {
    for (let y = Math.max(0, y0); y < Math.min(height, y1); y++) {
      pixels.fill(colour, y * width + x0, y * width + x1);
      if (id > 0) ids.fill(id, y * width + x0, y * width + x1);
    }
  };
  drawRanges(scene, fill);
  // From the lowest nodes to the root, so that of blocks in one row those that live longest stay.
  for (const isThin of [false, true]) drawLives(scene, isThin, fill);
  drawGaps(scene, fill);
}

type Fill = (y0: number, y1: number, x0: number, x1: number, colour: number, id: number) => void;

/** The rows of addresses in a strip: where they begin and end. */
export function rowsOf({ strips, layout, scroll }: Pick<Scene, "strips" | "layout" | "scroll">, strip: number,
  address: number, bytes: number): [number, number] {
  const { address: first, size_bytes: size } = strips[strip]!;
  const top = layout.top[strip]! - scroll;
  const scale = layout.high[strip]! / size;
  return [top + Math.round((address - first) * scale), top + Math.round((address + bytes - first) * scale)];
}

function isInView({ layout, scroll, height }: Scene, strip: number): boolean {
  const y = layout.top[strip]! - scroll;
  return y < height && y + layout.high[strip]! > 0;
}

function drawRanges(scene: Scene, fill: Fill): void {
  const { ranges, strips, moments, lives, isDark } = scene;
  const { frame, background } = isDark ? THEMES.dark : THEMES.light;
  const colour = packed(mix(parseColour(frame), parseColour(background), MAPPED));
  strips.forEach((strip, place) => {
    if (!isInView(scene, place)) return;
    for (const range of strip.ranges) {
      const [y0, y1] = rowsOf(scene, place, ranges.address[range]!, ranges.size[range]!);
      fill(y0, Math.max(y0 + 1, y1), ...columnsOf(ranges, range, moments), colour, FIRST_ID + lives.count + range);
    }
  });
}

/** Between segments that share a strip, as between strips. */
function drawGaps(scene: Scene, fill: Fill): void {
  const { ranges, strips, moments, isDark } = scene;
  const colour = packed(parseColour((isDark ? THEMES.dark : THEMES.light).background));
  strips.forEach((strip, place) => {
    if (strip.segments === 1 || !isInView(scene, place)) return;
    for (const range of strip.ranges) {
      const [y0, y1] = rowsOf(scene, place, ranges.address[range]!, ranges.size[range]!);
      if (y1 - y0 >= GAP_PIXELS && ranges.isExpandable[range] === 0) {
        fill(y1 - 1, y1, ...columnsOf(ranges, range, moments), colour, 0);
      }
    }
  });
}

function drawLives(scene: Scene, isThin: boolean, fill: Fill): void {
  const { placed, lives, kinds, groupOfKind, palette, strips, layout, scroll } = scene;
  const [plain, , edges] = palette.shades;
  const inView = Uint8Array.from(strips, (_, strip) => (isInView(scene, strip) ? 1 : 0));
  for (let i = placed.count - 1; i >= 0; i--) {
    const strip = placed.strip[i]!;
    if (inView[strip] === 0) continue;
    const life = placed.life[i]!;
    const kind = lives.kind[life]!;
    let [y0, y1] = rowsOf(scene, strip, lives.address[life]!, kinds?.size[kind] ?? 0);
    if (y1 <= y0 !== isThin) continue;
    if (isThin) {
      y0 = Math.min(y0, layout.top[strip]! - scroll + layout.high[strip]! - 1);
      y1 = y0 + 1;
    }
    const shade = shadeOf(groupOfKind[kind] ?? 0, kind);
    const [x0, x1] = [placed.x0[i]!, placed.x1[i]!];
    fill(y0, y1, x0, x1, plain[shade]!, FIRST_ID + life);
    if (y1 - y0 < EDGED_PIXELS) continue;
    fill(y1 - 1, y1, x0, x1, edges[shade]!, 0);
    if (x1 - x0 >= EDGED_PIXELS && x0 > 0) fill(y0, y1, x0, x0 + 1, edges[shade]!, 0);
  }
}
