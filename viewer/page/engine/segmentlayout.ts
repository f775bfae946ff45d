// Where strips are: one below the other, on one scale of bytes, under a heading for each owner.

import type { Strip } from "./strips.ts";

/** In CSS pixels. */
const HEADING = 26;
const GAP = 3;
const GAP_DENSE = 1;
const STRIP_LEAST = 2;
/** Strips of this height on average can be read; more of them than fit so make the view scroll. */
const STRIP_MEAN = 6;
/** Strips below this height on average have less between them. */
const DENSE = 14;
/** Halvings of the scale's bounds. */
const ROUNDS = 48;

export interface Layout {
  /** The top and height of each strip, in pixels. */
  top: Float64Array;
  high: Float64Array;
  headings: { owner: number; y: number }[];
  height: number;
  /** Strips that are higher than their bytes. */
  raised: number;
  /** How many bytes a pixel is. */
  pixel_bytes: number;
}

/** Fits strips into a height, or into the least height in which they can be read; `stretch` times that. */
export function layOutStrips(strips: Strip[], height: number, ratio: number, stretch: number): Layout {
  const px = (css: number): number => Math.round(css * ratio);
  const owners = new Set(strips.map(({ owner }) => owner)).size;
  const [least, heading] = [px(STRIP_LEAST), px(HEADING)];
  const isDense = stretch * (height - owners * heading) < strips.length * DENSE * ratio;
  const gap = px(isDense ? GAP_DENSE : GAP);
  const around = owners * heading + strips.length * gap;
  const wanted = stretch * Math.max(height - around, strips.length * STRIP_MEAN * ratio);
  const highOf = (bytes: number, scale: number): number => Math.max(least, Math.floor(bytes * scale));
  const sum = (scale: number): number => strips.reduce((all, { size_bytes }) => all + highOf(size_bytes, scale), 0);
  let [low, high] = [0, wanted / Math.max(1, strips.reduce((most, { size_bytes }) => Math.max(most, size_bytes), 1))];
  for (let round = 0; round < ROUNDS; round++) {
    const middle = (low + high) / 2;
    if (sum(middle) <= wanted) low = middle;
    else high = middle;
  }
  const out: Layout = { top: new Float64Array(strips.length), high: new Float64Array(strips.length), headings: [],
    height: 0, raised: 0, pixel_bytes: low > 0 ? 1 / low : 0 };
  let y = 0;
  strips.forEach(({ owner, size_bytes: bytes }, strip) => {
    if (out.headings.at(-1)?.owner !== owner) {
      out.headings.push({ owner, y });
      y += heading;
    }
    out.top[strip] = y;
    out.high[strip] = highOf(bytes, low);
    if (bytes * low < least) out.raised++;
    y += (out.high[strip] ?? 0) + gap;
  });
  out.height = Math.max(1, y);
  return out;
}

/** The strip at a height, or the last one above it. */
export function stripAt({ top }: Layout, y: number): number {
  let [low, high] = [0, top.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (top[middle]! <= y) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
