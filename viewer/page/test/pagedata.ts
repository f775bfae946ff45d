// The chunks of a made-up tape, computed the plain way: the reference that the decoded data are compared with.

import type { Device, Header } from "../format/header.ts";
import { ArrayWriter, pack, zigzag } from "./encode.ts";
import { FIRST_ADDRESS, type Life, type Tape } from "./training.ts";

const LEAF = 256;
const RESERVED_STEP = 2 ** 28;

export interface PageData {
  header: Header;
  chunks: Map<string, string>;
  /** At each moment. */
  allocated: Float64Array;
  reserved: Float64Array;
}

interface Counters {
  allocated: Float64Array;
  requested: Float64Array;
  active: Float64Array;
  reserved: Float64Array;
}

function counters(tape: Tape): Counters {
  const array = (): Float64Array => new Float64Array(tape.moments);
  const out = { allocated: array(), requested: array(), active: array(), reserved: array() };
  for (const life of tape.lives) {
    out.allocated[life.start]! += life.size;
    out.requested[life.start]! += life.requested;
    if (life.end === null) continue;
    out.allocated[life.end]! -= life.size;
    out.requested[life.end]! -= life.requested;
  }
  for (let m = 1; m < tape.moments; m++) {
    out.allocated[m]! += out.allocated[m - 1]!;
    out.requested[m]! += out.requested[m - 1]!;
  }
  let reserved = 0;
  for (let m = 0; m < tape.moments; m++) {
    const allocated = out.allocated[m]!;
    out.active[m] = allocated + (m % 911 < 60 ? 96 * 2 ** 20 : 0);
    const needed = Math.max(out.active[m]!, tape.extents[m]!);
    while (reserved < needed) reserved += RESERVED_STEP;
    const least = Math.ceil(needed / RESERVED_STEP) * RESERVED_STEP;
    if (m % 5000 === 4999) reserved = Math.max(least, reserved - 2 ** 30);
    out.reserved[m] = reserved;
  }
  return out;
}

/** The groups of each stack, renumbered so that those whose bytes live longest are first. */
function numbered(tape: Tape, labelOf: (stack: number) => string): { groupOf: number[]; labels: string[] } {
  const weight = new Map<string, number>();
  const bytes = new Map<string, number>();
  for (const life of tape.lives) {
    const label = labelOf(life.stack);
    const long = (life.end ?? tape.moments) - life.start;
    weight.set(label, (weight.get(label) ?? 0) + life.size * long);
    bytes.set(label, (bytes.get(label) ?? 0) + life.size);
  }
  const mean = (label: string): number => weight.get(label)! / bytes.get(label)!;
  const labels = [...weight.keys()].sort((a, b) => mean(b) - mean(a));
  return { labels, groupOf: tape.labels.map((_, stack) => labels.indexOf(labelOf(stack))) };
}

function seriesText(c: Counters, first: number, size: number, columns: number, peaks: Uint32Array): string {
  const arrays: number[][] = Array.from({ length: 10 }, () => []);
  for (let column = first; column < Math.min(first + 4096, columns); column++) {
    const from = column * size;
    const to = Math.min(from + size, c.allocated.length);
    const peak = peaks[column]!;
    const range = (array: Float64Array): [number, number] => {
      let [most, least] = [-Infinity, Infinity];
      for (let m = from; m < to; m++) [most, least] = [Math.max(most, array[m]!), Math.min(least, array[m]!)];
      return [most, least];
    };
    const [, least] = range(c.allocated);
    const [reservedMost, reservedLeast] = range(c.reserved);
    [peak - from, c.allocated[peak]!, least, c.allocated[to - 1]!, c.active[peak]!, c.requested[peak]!, reservedMost,
      reservedLeast, c.reserved[to - 1]!, c.reserved[peak]!].forEach((value, i) => arrays[i]!.push(value));
  }
  const writer = new ArrayWriter().plain(arrays[0]!);
  for (const array of arrays.slice(1)) writer.deltaBytes(array);
  return writer.text;
}

function bandsText(stacks: Float64Array[]): string {
  const most = new Map<number, number>();
  for (const stack of stacks) stack.forEach((bytes, g) => { if (bytes > (most.get(g) ?? 0)) most.set(g, bytes); });
  const groups = [...most].sort((a, b) => b[1] - a[1]).slice(0, 64).map(([g]) => g).sort((a, b) => a - b);
  const now = groups.map((g) => stacks[0]![g]!);
  const [counts, which, change] = [[] as number[], [] as number[], [] as number[]];
  const unit = 512;
  const writer = new ArrayWriter().rising(groups).plainBytes(now, unit);
  for (const stack of stacks.slice(1)) {
    let [changes, before] = [0, 0];
    groups.forEach((g, place) => {
      if (stack[g] === now[place]) return;
      which.push(place - before);
      before = place;
      change.push((stack[g]! - now[place]!) / unit);
      now[place] = stack[g]!;
      changes++;
    });
    counts.push(changes);
  }
  return writer.plain(counts).plain(which).signed(change).text;
}

function livesChunks(lives: Life[], kindOf: (life: Life) => number, height: number,
  put: (id: string, text: string) => void, moments: number): void {
  const nodes = new Map<string, Life[]>();
  for (const life of lives) {
    const last = (life.end ?? moments) - 1;
    let h = 0;
    while (Math.floor(life.start / (LEAF * 2 ** h)) !== Math.floor(last / (LEAF * 2 ** h)) && h < height) h++;
    const id = `${h}/${Math.floor(life.start / (LEAF * 2 ** h))}`;
    const node = nodes.get(id);
    if (node === undefined) nodes.set(id, [life]);
    else node.push(life);
  }
  for (const [id, node] of nodes) {
    const [h, i] = id.split("/").map(Number) as [number, number];
    node.sort((a, b) => a.start - b.start);
    const last = new Map<number, number>();
    const writer = new ArrayWriter().rising(node.map((life) => life.start - i * LEAF * 2 ** h))
      .plain(node.map((life) => (life.end === null ? 0 : life.end - life.start))).plain(node.map(kindOf));
    writer.number(node.length).number(512);
    for (const life of node) {
      const kind = kindOf(life);
      const units = life.address / 512;
      writer.number(zigzag(units - (last.get(kind) ?? 0)));
      last.set(kind, units);
    }
    writer.rising(node.flatMap((life, place) => (life.start === 0 ? [place] : [])));
    put(`lives/${h}/${i}`, writer.text);
  }
}

/** Ranges of one expandable segment, mapped and unmapped at its end as the reserved bytes change. */
function rangesText(reserved: Float64Array): string {
  const ranges: { start: number; end: number; size: number; address: number }[] = [];
  const open: typeof ranges = [];
  reserved.forEach((bytes, m) => {
    let change = bytes - (m > 0 ? reserved[m - 1]! : 0);
    for (; change < 0; change += open.pop()!.size) open.at(-1)!.end = m;
    for (; change > 0; change -= RESERVED_STEP) {
      const range = { start: m, end: 0, size: RESERVED_STEP,
        address: FIRST_ADDRESS + open.length * RESERVED_STEP };
      ranges.push(range);
      open.push(range);
    }
  });
  return new ArrayWriter().rising(ranges.map((range) => range.start))
    .plain(ranges.map((range) => (range.end === 0 ? 0 : range.end - range.start)))
    .deltaBytes(ranges.map((range) => range.address)).plainBytes(ranges.map((range) => range.size))
    .plain(ranges.map(() => 0)).plain(ranges.map(() => 1)).text;
}

/** Stacks of groups at given moments, walked once. */
function stacksAt(tape: Tape, groupOf: number[], groups: number, moments: Uint32Array): Float64Array[] {
  const events: [number, number, number][] = [];
  for (const life of tape.lives) {
    events.push([life.start, groupOf[life.stack]!, life.size]);
    if (life.end !== null) events.push([life.end, groupOf[life.stack]!, -life.size]);
  }
  events.sort((a, b) => a[0] - b[0]);
  const now = new Float64Array(groups);
  let at = 0;
  return Array.from(moments, (moment) => {
    for (; at < events.length && events[at]![0] <= moment; at++) now[events[at]![1]]! += events[at]![2];
    return now.slice();
  });
}

export function pageData(tape: Tape): PageData {
  const { moments } = tape;
  const c = counters(tape);
  const chunks = new Map<string, string>();
  const put = (id: string, text: string): void => { chunks.set(`d0/${id}`, text); };
  const groupings = [
    { name: "stack", ...numbered(tape, (stack) => tape.labels[stack]!) },
    { name: "category", ...numbered(tape, (stack) => tape.categories[stack]!) },
  ];
  const levels: Device["levels"] = [];
  for (let size = 256; levels.length === 0 || levels.at(-1)!.columns > 1024; size *= 4) {
    const columns = Math.ceil(moments / size);
    const level = levels.push({ column_moments: size, columns }) - 1;
    const peaks = new Uint32Array(columns);
    for (let column = 0; column < columns; column++) {
      let peak = column * size;
      for (let m = peak; m < Math.min((column + 1) * size, moments); m++) {
        if (c.allocated[m]! > c.allocated[peak]!) peak = m;
      }
      peaks[column] = peak;
    }
    for (let tile = 0; tile * 4096 < columns; tile++) {
      put(`series/${level}/${tile}`, seriesText(c, tile * 4096, size, columns, peaks));
    }
    groupings.forEach(({ groupOf, labels }, g) => {
      const stacks = stacksAt(tape, groupOf, labels.length, peaks);
      for (let tile = 0; tile * 512 < columns; tile++) {
        put(`bands/${g}/${level}/${tile}`, bandsText(stacks.slice(tile * 512, (tile + 1) * 512)));
      }
    });
  }
  put("ranges", rangesText(c.reserved));
  const height = Math.max(0, Math.ceil(Math.log2(moments / LEAF)));
  const kinds = new Map<string, { number: number; life: Life }>();
  const kindOf = (life: Life): number => {
    const key = `${life.size} ${life.requested} ${life.stack} ${life.stream}`;
    let kind = kinds.get(key);
    if (kind === undefined) kinds.set(key, kind = { number: kinds.size, life });
    return kind.number;
  };
  livesChunks(tape.lives, kindOf, height, put, moments);
  const all = [...kinds.values()].map((kind) => kind.life);
  const writer = new ArrayWriter().plainBytes(all.map((k) => k.size)).plainBytes(all.map((k) => k.requested))
    .plain(all.map((k) => k.stack)).plain(all.map((k) => k.stream)).plain(all.map(() => 0));
  for (const { groupOf } of groupings) writer.plain(all.map((k) => groupOf[k.stack]!));
  put("kinds", writer.text);
  // A clock that stands still for a while: a time axis has a gap there.
  const step = 256;
  const clock = (m: number): number => m * 1500 + (m > moments / 2 ? 2e7 : 0);
  const samples = [...Array(Math.ceil((moments - 1) / step)).keys()].map((i) => i * step);
  put("times", new ArrayWriter().rising([...samples, moments - 1].map(clock)).text);
  const markNames = [...new Set(tape.marks.map((mark) => mark.name))];
  put("marks", new ArrayWriter().rising(tape.marks.map((m) => m.moment)).plain(tape.marks.map((m) => m.kind))
    .plain(tape.marks.map((m) => markNames.indexOf(m.name))).plain(tape.marks.map((m) => m.bytes))
    .rising(tape.marks.map((m) => clock(m.moment))).text);
  put("names", pack(JSON.stringify(names(tape, markNames, groupings.map((g) => g.labels)))));
  const devices = [device(tape, c, levels, groupings, height, step)];
  const { allocated, reserved } = c;
  return { header: { version: 1, producer: "vramtape test", devices }, chunks, allocated, reserved };
}

function names(tape: Tape, marks: string[], groups: string[][]): Record<string, unknown> {
  const strings = ["train.py", "train_step", "/env/lib/python3.11/site-packages/torch/nn/modules/module.py",
    "_call_impl", "model.py", ...tape.labels];
  return {
    streams: ["default stream", "stream 7"], pools: ["default, large"], marks, groups, strings,
    frames: { name: [3, 1, ...tape.labels.map((_, i) => i + 5)], file: [2, 0, ...tape.labels.map(() => 4)],
      line: [1511, 88, ...tape.labels.map((_, i) => 10 + i)] },
    stacks: tape.labels.map((_, i) => [0, i + 2, 0, 1]),
  };
}

function device(tape: Tape, c: Counters, levels: Device["levels"], groupings: { name: string; labels: string[] }[],
  height: number, step: number): Device {
  const peak = (array: Float64Array): number => array.reduce((most, bytes) => Math.max(most, bytes), 0);
  const [allocated, reserved] = [peak(c.allocated), peak(c.reserved)];
  return {
    run: "gpt-training.vtape", device: 0, name: "NVIDIA RTX A5000", records: tape.moments - 1, moments: tape.moments,
    has_clock: true, start_ns: "0", lost: 0, left_out: 0, ooms: 0, levels,
    capacity_bytes: Math.ceil(reserved / 2 ** 30 + 1) * 2 ** 30,
    groupings: groupings.map(({ name, labels }) => ({ name, quantity: "allocated", groups: labels.length })),
    lives: { leaf_moments: LEAF, height, count: tape.lives.length }, time_step_moments: step,
    peaks: { allocated_bytes: allocated, allocated_moment: c.allocated.indexOf(allocated), reserved_bytes: reserved,
      reserved_moment: c.reserved.indexOf(reserved), active_bytes: peak(c.active), requested_bytes: peak(c.requested),
      live_bytes: peak(c.active), enveloped_bytes: 0 },
    facts: [["settings", "max_split_size_mb:128"], ["torch", "2.11.0"], ["host", "node-17"]], plots: [],
  };
}

/** The elements of a page. */
export function elements(data: PageData): { header: string; first: string; rest: string } {
  const element = (id: string, text: string): string => `<script type="text/plain" id="${id}">${text}</script>`;
  const level = Math.max(0, data.header.devices[0]!.levels.length - 1);
  const early = new RegExp(`^d0/(names|marks|times|series/${level}|bands/0/${level})`);
  const [first, rest]: [string[], string[]] = [[], []];
  for (const [id, text] of data.chunks) (early.test(id) ? first : rest).push(element(id, text));
  const header = element("header", JSON.stringify(data.header).replaceAll("<", "\\u003c"));
  return { header, first: first.join("\n"), rest: rest.join("\n") };
}
