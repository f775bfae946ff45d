// Draws the flame graph: what holds or allocates memory, by stack or module.

import type { Names } from "../format/rest.ts";
import { allocatedIn, difference, liveAt } from "./amounts.ts";
import { nodesOf } from "./blocks.ts";
import { hash, mix, parseColour, plainNumber, THEMES } from "./colours.ts";
import type { Dataset } from "./dataset.ts";
import { type Amount, type Box, FlameTree } from "./flametree.ts";
import { isInternalFile } from "./frames.ts";
import type { FlameReply, FlameRequest, Found } from "./protocol.ts";

/** Allocations that a window may have to be summed up; their lives are decoded all at once. */
export const LIVES_MAX = 600_000;
/** How far colours go towards the background, so that text on them can be read. */
const PALE = 0.42;
const PALE_INTERNAL = 0.72;

/** The frames of a graph, as texts: of Python, or the parts of a module's path. */
interface FrameTexts {
  path(key: number): number[];
  label(frame: number): string;
  detail(frame: number): string;
  isInternal(frame: number): boolean;
}

/** A difference has these two frames below its root. */
const MORE = -2;
const LESS = -3;

function stackTexts({ frames: { name, file, line }, stacks, strings }: Names): FrameTexts {
  const none = name.length;
  const text = (place: number | undefined): string => strings[place ?? -1] ?? "?";
  return {
    path: (stack) => ((stacks[stack]?.length ?? 0) > 0 ? [...stacks[stack]!].reverse() : [none]),
    label: (frame) => (frame === none ? "no stack" : text(name[frame])),
    detail: (frame) => (frame === none ? "" : (line[frame] ?? 0) > 0 ? `${text(file[frame])}:${line[frame]!}`
      : text(file[frame])),
    isInternal: (frame) => frame === none || isInternalFile(text(file[frame])),
  };
}

function moduleTexts(labels: readonly string[]): FrameTexts {
  const parts: string[] = [];
  const numbers = new Map<string, number>();
  const paths = labels.map((label) => label.split(".").map((part) => {
    let number = numbers.get(part);
    if (number === undefined) {
      numbers.set(part, number = parts.length);
      parts.push(part);
    }
    return number;
  }));
  return { path: (group) => paths[group] ?? [], label: (part) => parts[part] ?? "?", detail: () => "",
    isInternal: () => false };
}

/** The graph that was drawn last. */
interface Drawn {
  key: string;
  tree: FlameTree;
  texts: FrameTexts;
  more_bytes: number;
  less_bytes: number;
}

export class Flamer {
  private drawn: Drawn | null = null;

  /** Draws a graph, or null while something of it is on the way. */
  draw(data: Dataset, request: FlameRequest): FlameReply | null {
    const began = performance.now();
    const { of, by, moment, from, to, is_inverted: isInverted, is_own: isOwn } = request;
    const window = of === "live" ? [moment] : [from, to];
    const key = [data.place, of, by, isInverted, isOwn, ...window].join(" ");
    if (this.isTooMuch(data, request)) return this.reply(request, null, began);
    if (this.drawn?.key !== key) {
      const names = data.names();
      const amounts = this.amounts(data, request);
      if (names === undefined || amounts === undefined) return null;
      const group = data.device.groupings.findIndex(({ name }) => name === "module");
      const texts = by === "stack" ? stackTexts(names ?? EMPTY) : moduleTexts(names?.groups[group] ?? []);
      this.drawn = { key, texts, ...grow(amounts, texts, request) };
    }
    return this.reply(request, this.drawn, began);
  }

  private isTooMuch({ device }: Dataset, { of, from, to }: FlameRequest): boolean {
    return of === "allocated" && device.lives.count * Math.min(1, (to - from) / device.moments) > LIVES_MAX;
  }

  /** By stack or module, undefined while lives are on the way. */
  private amounts(data: Dataset, { of, by, moment, from, to }: FlameRequest): Map<number, Amount> | undefined {
    const kinds = data.kinds();
    if (kinds === undefined) return undefined;
    if (kinds === null) return new Map();
    const grouping = data.device.groupings.findIndex(({ name }) => name === "module");
    const keyOf = by === "stack" ? kinds.stack : kinds.groups[data.kindGroup(grouping)] ?? [];
    const at = (first: number, end: number): ReturnType<typeof nodesOf> => nodesOf(data, first, end);
    if (of === "live") {
      const nodes = at(moment, moment + 1);
      return nodes === null ? undefined : liveAt(nodes, moment, keyOf, kinds.size);
    }
    if (of === "allocated") {
      const nodes = at(from, to);
      return nodes === null ? undefined : allocatedIn(nodes, from, to, keyOf, kinds.size);
    }
    const [before, after] = [at(from, from + 1), at(to - 1, to)];
    return before === null || after === null ? undefined
      : difference(before, from, after, to - 1, keyOf, kinds.size);
  }

  private reply(request: FlameRequest, drawn: Drawn | null, began: number): FlameReply {
    const tree = drawn?.tree ?? new FlameTree();
    const { boxes, narrow } = tree.layOut(tree.find(request.zoom), request.width);
    const places = new Map(boxes.map((box, place) => [box.node, place]));
    const [isMatch, found] = this.search(request.query, drawn);
    return {
      type: "flame", request, narrow, found, is_too_much: drawn === null, took_ms: performance.now() - began,
      total_bytes: tree.bytes[0]!, blocks: tree.blocks[0]!, more_bytes: drawn?.more_bytes ?? 0,
      less_bytes: drawn?.less_bytes ?? 0,
      rects: boxes.map((box) => ({
        ...textsOf(box, drawn), depth: box.depth, x0: box.x0, x1: box.x1, frame: tree.frame[box.node]!,
        bytes: tree.bytes[box.node]!, blocks: tree.blocks[box.node]!,
        parent: box.node === 0 ? -1 : places.get(tree.parent[box.node]!) ?? -1,
        colour: this.colour(box, request, drawn, isMatch),
      })),
    };
  }

  private search(query: string, drawn: Drawn | null): [((frame: number) => boolean) | null, Found | null] {
    if (query === "" || drawn === null) return [null, null];
    let pattern: RegExp;
    try {
      pattern = new RegExp(query, "i");
    } catch (fault) {
      return [null, { groups: 0, at_peak_bytes: 0, error: fault instanceof Error ? fault.message : String(fault) }];
    }
    const { tree, texts } = drawn;
    const known = new Map<number, boolean>();
    const isMatch = (frame: number): boolean => {
      let is = known.get(frame);
      if (is === undefined) {
        is = frame >= 0 && pattern.test(`${texts.label(frame)} ${texts.detail(frame)}`);
        known.set(frame, is);
      }
      return is;
    };
    const found = tree.found(isMatch);
    const frames = [...new Set(tree.frame)].filter(isMatch).length;
    return [isMatch, { groups: frames, at_peak_bytes: found.bytes, error: "" }];
  }

  /** By the function or the module's part; of a difference by its side. */
  private colour({ node }: Box, { is_dark: isDark, of }: FlameRequest, drawn: Drawn | null,
    isMatch: ((frame: number) => boolean) | null): number {
    const theme = isDark ? THEMES.dark : THEMES.light;
    const back = parseColour(theme.background);
    const frame = drawn?.tree.frame[node] ?? -1;
    if (drawn === null || node === 0) return plainNumber(mix(parseColour(theme.other), back, PALE_INTERNAL));
    const { texts, tree } = drawn;
    let top = node;
    while (tree.parent[top] !== 0) top = tree.parent[top]!;
    const side = of === "difference" ? (tree.frame[top] === MORE ? 1 : 0) : null;
    const isInternal = frame >= 0 && texts.isInternal(frame);
    const place = side ?? hash(frame < 0 ? "" : texts.label(frame)) % theme.groups.length;
    const pure = parseColour(isInternal && side === null ? theme.other : theme.groups[place]!);
    const isDimmed = isMatch !== null && !isMatch(frame);
    return plainNumber(mix(pure, back, isDimmed ? 0.88 : isInternal ? PALE_INTERNAL : PALE));
  }
}

const EMPTY: Names = { streams: [], pools: [], marks: [], groups: [], strings: [], stacks: [],
  frames: { name: [], file: [], line: [] } };

function textsOf({ node }: Box, drawn: Drawn | null): { label: string; detail: string } {
  const frame = drawn?.tree.frame[node] ?? -1;
  if (drawn === null || node === 0) return { label: "all", detail: "" };
  if (frame === MORE) return { label: "more at the end of the window", detail: "" };
  if (frame === LESS) return { label: "less at the end of the window", detail: "" };
  return { label: drawn.texts.label(frame), detail: drawn.texts.detail(frame) };
}

function grow(amounts: Map<number, Amount>, texts: FrameTexts, request: FlameRequest):
{ tree: FlameTree; more_bytes: number; less_bytes: number } {
  const tree = new FlameTree();
  let [more, less] = [0, 0];
  for (const [key, { bytes, blocks }] of amounts) {
    if (bytes === 0) continue;
    const path = pathOf(key, texts, request);
    if (bytes > 0) more += bytes;
    else less -= bytes;
    const side = request.of === "difference" ? [bytes > 0 ? MORE : LESS] : [];
    tree.add([...side, ...path], { bytes: Math.abs(bytes), blocks: Math.abs(blocks) });
  }
  return { tree, more_bytes: more, less_bytes: less };
}

function pathOf(key: number, texts: FrameTexts, { is_inverted: isInverted, is_own: isOwn }: FlameRequest): number[] {
  const all = texts.path(key);
  const own = isOwn ? all.filter((frame) => !texts.isInternal(frame)) : all;
  const path = own.length > 0 ? own : all;
  return isInverted ? path.toReversed() : path;
}
