// Colours of groups: by the label, so that a group has the same colour in most pages. Each has a contrast of at
// least 3 to its background (a test computes it), neighbours in a stack are separated by edges as well, and red is left
// to out of memory.

export interface Theme {
  background: string;
  groups: readonly string[];
  other: string;
  pending: string;
  /** Around mapped ranges. */
  frame: string;
}

/** The hues, from Tableau 10 and Okabe-Ito, at the lightness that each background needs. */
const LIGHT = ["#4e79a7", "#cb6a14", "#2b8f88", "#4f8b3f", "#a17d14", "#8c61a6", "#c15c86", "#8a624e", "#3489bd",
  "#7a862b", "#5a69bd", "#a8559e"];
const DARK = ["#6d9fd6", "#ee9647", "#5abfb8", "#7cbd6a", "#d6b54b", "#b88bd0", "#e48eb0", "#bb917b", "#62b5e6",
  "#adbb5a", "#8e9bec", "#d68bcf"];

const HUE = { blue: 0, orange: 1, teal: 2, green: 3, gold: 4, purple: 5, rose: 6, brown: 7, sky: 8, indigo: 10 };

/** Categories keep the hues that PyTorch's profiler gave them. */
const CATEGORIES: readonly [RegExp, number][] = [
  [/^param/i, HUE.green],
  [/^optim/i, HUE.gold],
  [/^grad/i, HUE.blue],
  [/^activation/i, HUE.orange],
  [/^temp/i, HUE.purple],
  [/^autograd/i, HUE.indigo],
  [/^input/i, HUE.brown],
  [/^(workspace|comm)/i, HUE.teal],
];

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
  return [...hues, ...hues.map((hue) => hex(mix(parseColour(hue), towards, 0.2)))];
}

export const THEMES: { light: Theme; dark: Theme } = {
  light: { background: "#ffffff", groups: tones(LIGHT, [0, 0, 0]), other: "#868c94", pending: "#8a8f96",
    frame: "#a9b1ba" },
  dark: { background: "#15171b", groups: tones(DARK, [255, 255, 255]), other: "#7b828b", pending: "#8f959d",
    frame: "#515a66" },
};

/** FNV-1a over UTF-16 units. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return (value ^ (value >>> 15)) >>> 0;
}

const NO_GROUP = /^(other|unknown|none|\?|)$|^(unattributed|no (stack|module|step|phase))\b/i;

/** The step from a colour that is taken to the next: it has no factor in common with their number, 24. */
const STEP = 7;

/** The colours of groups, from the bottom of the stack: by the label, or the next one that no group below has taken.
 * All are given out before one is used again, so neighbours differ. */
export function coloursOf(theme: Theme, labels: readonly string[], isCategory: boolean): Rgb[] {
  const count = theme.groups.length;
  const taken = new Set<number>();
  return labels.map((label) => {
    if (NO_GROUP.test(label)) return parseColour(theme.other);
    const fixed = isCategory ? CATEGORIES.find(([pattern]) => pattern.test(label)) : undefined;
    let at = fixed?.[1] ?? hash(label) % count;
    if (taken.size === count) taken.clear();
    while (fixed === undefined && taken.has(at)) at = (at + STEP) % count;
    taken.add(at);
    return parseColour(theme.groups[at]!);
  });
}

/** As the pixels of ImageData hold it on a little-endian machine. */
export function packed([red, green, blue]: Rgb, alpha = 255): number {
  return ((alpha << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** As CSS has it, in one number. */
export function plainNumber([red, green, blue]: Rgb): number {
  return (red << 16) | (green << 8) | blue;
}
