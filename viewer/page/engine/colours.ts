// Colours of groups: by the label, so that a group has the same colour in most pages. Each has a contrast of at
// least 3 to its background (a test computes it), neighbours in a stack are separated by edges as well, and red is left
// to out of memory. The hues are from Tableau 10 and Okabe-Ito, at the lightness that each background needs. Pictures
// (`src/picture/colours.rs`) share the numbers in colours.json; both are tested with the same vectors.

import shared from "../../colours.json";

export interface Theme {
  background: string;
  groups: readonly string[];
  other: string;
  pending: string;
  /** Around mapped ranges. */
  frame: string;
  /** How far edges of spans go towards black. */
  edge: number;
  /** The opacity of spans in lanes. */
  lane: number;
}

export type Rgb = readonly [number, number, number];

export function parseColour(text: string): Rgb {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

export function mix(a: Rgb, b: Rgb, part: number): Rgb {
  const at = (i: 0 | 1 | 2): number => Math.round(a[i] + (b[i] - a[i]) * part);
  return [at(0), at(1), at(2)];
}

const hex = (colour: Rgb): string => `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

/** Each hue, and a second tone of it nearer to black or to white. */
function tones(hues: readonly string[], towards: Rgb): string[] {
  return [...hues, ...hues.map((hue) => hex(mix(parseColour(hue), towards, shared.second_tone)))];
}

function theme({ hues, towards, ...rest }: typeof shared.light): Theme {
  return { ...rest, groups: tones(hues, parseColour(towards)) };
}

export const THEMES: { light: Theme; dark: Theme } = { light: theme(shared.light), dark: theme(shared.dark) };

/** The first so many colours are hues, the others their second tones. */
export const HUES = shared.light.hues.length;

/** How far a colour goes towards the background where memory is not allocated at every moment of its column. */
export const AT_TIMES = shared.at_times;

/** FNV-1a over UTF-16 units. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value ^ (value >>> 15)) >>> 0;
}

const pattern = (texts: readonly string[]): string => texts.map((text) => text.replace(/[^a-z ]/g, "\\$&")).join("|");
const { labels: NO_GROUPS, first_words: NO_GROUP_WORDS } = shared.no_group;
const NO_GROUP = new RegExp(`^(${pattern(NO_GROUPS)})$|^(${pattern(NO_GROUP_WORDS)})\\b`, "i");

/** Categories keep the hues that PyTorch's profiler gave them. */
const CATEGORIES = shared.categories.map(({ prefix, hue }) => [new RegExp(`^${prefix}`, "i"), hue] as const);

/** The places in `groups` of the colours of groups, from the bottom of the stack: by the label, or the next one that
 * no group below has taken. All are given out before one is used again, so neighbours differ. Null is `other`. */
export function placesOf(count: number, labels: readonly string[], isCategory: boolean): (number | null)[] {
  const taken = new Set<number>();
  return labels.map((label) => {
    if (NO_GROUP.test(label)) return null;
    const fixed = isCategory ? CATEGORIES.find(([pattern]) => pattern.test(label)) : undefined;
    let at = fixed?.[1] ?? hash(label) % count;
    if (taken.size === count) taken.clear();
    // The step has no factor in common with the number of colours.
    while (fixed === undefined && taken.has(at)) at = (at + shared.step) % count;
    taken.add(at);
    return at;
  });
}

/** The colours of groups, from the bottom of the stack. */
export function coloursOf(theme: Theme, labels: readonly string[], isCategory: boolean): Rgb[] {
  const places = placesOf(theme.groups.length, labels, isCategory);
  return places.map((place) => parseColour(place === null ? theme.other : theme.groups[place]!));
}

/** As the pixels of ImageData hold it on a little-endian machine. */
export function packed([red, green, blue]: Rgb, alpha = 255): number {
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** As CSS has it, in one number. */
export function plainNumber([red, green, blue]: Rgb): number {
  return (red << 16) | (green << 8) | blue;
}
