// From ids to colours. The picture is made by column and shown by row, so it is turned in squares that fit the cache.

import { AT_TIMES, coloursOf, mix, packed, parseColour, plainNumber, type Rgb, type Theme } from "./colours.ts";
import type { Picture } from "./picture.ts";
import { EDGE, ENVELOPE, FIRST_ID, NOTHING, PENDING } from "./protocol.ts";

const DIMMED = 0.78;
/** Blocks of a group differ by so much in lightness, by their kinds. */
const TONE = 0.07;
export const TONES = 3;
const SQUARE = 32;
/** How far the room in an envelope goes towards the background. */
const ROOM = 0.72;

const WHITE: Rgb = [255, 255, 255];

/** The entry of a block in a palette's shades. */
export function shadeOf(group: number, kind: number): number {
  return (group + FIRST_ID) * TONES + ((Math.imul(kind, 0x9e3779b1) >>> 16) % TONES);
}

/** The colours of ids: groups in four shades and three tones each. */
export class Palette {
  /** Always allocated, at times, and the edges of both. */
  readonly shades: readonly [Uint32Array, Uint32Array, Uint32Array, Uint32Array];
  readonly hatch: number;
  /** Room in an envelope. */
  readonly envelope: number;
  private readonly plain: Uint32Array;

  /** `isLit` of a group (-1 for the rest), or null if all are. */
  constructor(theme: Theme, labels: readonly string[], groups: number, isCategory: boolean,
    isLit: ((group: number) => boolean) | null) {
    const size = groups + FIRST_ID;
    const array = (): Uint32Array => new Uint32Array(size * TONES);
    this.shades = [array(), array(), array(), array()];
    this.plain = new Uint32Array(size);
    const back = parseColour(theme.background);
    const ink: Rgb = [0, 0, 0];
    this.hatch = packed(parseColour(theme.pending));
    this.envelope = packed(mix(parseColour(theme.other), back, ROOM));
    const colours = coloursOf(theme, Array.from({ length: groups }, (_, group) => labels[group] ?? `group ${group}`),
      isCategory);
    for (let id = FIRST_ID - 2; id < size; id++) {
      const group = id < FIRST_ID ? -1 : id - FIRST_ID;
      const pure = colours[group] ?? parseColour(theme.other);
      const colour = isLit === null || isLit(group) ? pure : mix(pure, back, DIMMED);
      this.plain[id] = plainNumber(pure);
      for (let tone = 0; tone < TONES; tone++) {
        const toned = tone === 1 ? colour : mix(colour, tone === 0 ? ink : WHITE, TONE);
        [toned, mix(toned, back, AT_TIMES)].forEach((shade, place) => {
          this.shades[place]![id * TONES + tone] = packed(shade);
          this.shades[place + 2]![id * TONES + tone] = packed(mix(shade, ink, theme.edge));
        });
      }
    }
  }

  colour(group: number): number {
    return this.plain[group < 0 ? FIRST_ID - 2 : group + FIRST_ID] ?? 0;
  }
}

/** Draws a picture. `shadesOf` has the entry of each block in the shades, null if ids are groups. */
export function paint(picture: Picture, palette: Palette, shadesOf: Uint32Array | null, hasSides: boolean,
  pixels: Uint32Array<ArrayBuffer>): Uint8ClampedArray<ArrayBuffer> {
  const { width, height, ids, leastRow } = picture;
  const { shades, hatch, envelope } = palette;
  for (let top = 0; top < height; top += SQUARE) {
    const bottom = Math.min(top + SQUARE, height);
    for (let left = 0; left < width; left += SQUARE) {
      const right = Math.min(left + SQUARE, width);
      for (let x = left; x < right; x++) {
        const least = height - leastRow[x]!;
        for (let y = top, from = x * height + top, to = top * width + x; y < bottom; y++, from++, to += width) {
          const mixed = ids[from]!;
          if (mixed === NOTHING) continue;
          const id = (mixed & ~EDGE) >>> 0;
          if (id === PENDING) {
            if ((x + y) % 6 < 2) pixels[to] = hatch;
            continue;
          }
          if (id >= ENVELOPE) {
            pixels[to] = envelope;
            continue;
          }
          // Blocks of a pixel's height have no sides: next to one another they would be a barcode.
          const isSide = hasSides && x > 0 && ((ids[from - height]! & ~EDGE) >>> 0) !== id
            && ((ids[from + 1]! & ~EDGE) >>> 0 === id || (y > 0 && (ids[from - 1]! & ~EDGE) >>> 0 === id));
          const shade = (mixed >= EDGE || isSide ? 2 : 0) + (y < least ? 1 : 0);
          pixels[to] = shades[shade]![shadesOf !== null && id >= FIRST_ID ? shadesOf[id - FIRST_ID]! : id * TONES + 1]!;
        }
      }
    }
  }
  return new Uint8ClampedArray(pixels.buffer);
}
