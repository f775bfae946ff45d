import assert from "node:assert/strict";
import { test } from "node:test";
import type { SegmentsReply } from "../engine/protocol.ts";
import { layOutStrips, stripAt } from "../engine/segmentlayout.ts";
import { rangeAt, type Strip, StripFinder, stripsOf } from "../engine/strips.ts";
import { decodeRanges, type Ranges } from "../format/ranges.ts";
import { Bench } from "./bench.ts";
import { ArrayWriter } from "./encode.ts";
import { pageData, type PageData } from "./pagedata.ts";
import { FIRST_ADDRESS, type Life, random, type Tape, training } from "./training.ts";

const MIB = 2 ** 20;
const TAPE = training(60_000);
const DATA = pageData(TAPE);

interface RangeText {
  start: number;
  end: number;
  mib: number;
  size: number;
  owner: number;
  isExpandable: boolean;
}

function ranges(...list: RangeText[]): Ranges {
  return decodeRanges("d0/ranges", new ArrayWriter().rising(list.map((r) => r.start))
    .plain(list.map((r) => (r.end === 0 ? 0 : r.end - r.start))).deltaBytes(list.map((r) => r.mib * MIB))
    .plainBytes(list.map((r) => r.size * MIB)).plain(list.map((r) => r.owner))
    .plain(list.map((r) => (r.isExpandable ? 1 : 0))).bytes);
}

function aliveAt({ lives }: Tape, moment: number): Life[] {
  const alive = lives.filter((life) => life.start <= moment && (life.end ?? Infinity) > moment);
  return alive.sort((a, b) => a.address - b.address);
}

/** Bytes of each column against the counters, and its moment against all that it stands for. */
function checkColumns({ allocated, reserved }: PageData, { columns, request: { from, to, width } }: SegmentsReply,
  isPeak: boolean): void {
  columns.moment.forEach((moment, x) => {
    assert.equal(columns.allocated[x], allocated[moment], `allocated at ${moment}`);
    assert.equal(columns.reserved[x], reserved[moment], `reserved at ${moment}`);
    const [first, end] = [from + ((to - from) * x) / width, from + ((to - from) * (x + 1)) / width];
    if (!isPeak || end - first < 1) return;
    const most = Math.max(...allocated.subarray(Math.ceil(first), Math.ceil(end)));
    assert.equal(columns.allocated[x], most, `the peak of column ${x}`);
  });
}

for (const [from, to] of [[0, TAPE.moments], [20_000, 30_000], [31_000, 31_100], [TAPE.moments - 40, TAPE.moments]] as
  const) {
  test(`columns of ${from} to ${to} have the bytes of the counters`, async () => {
    const bench = new Bench(DATA);
    checkColumns(DATA, await bench.segments({ from, to }), true);
    assert.deepEqual(bench.faults, []);
  });
}

test("columns on the axis of time have the bytes of the counters", async () => {
  const reply = await new Bench(DATA).segments({ axis: "time", from: 3e6, to: 4e7 });
  checkColumns(DATA, reply, false);
});

test("pixels show the blocks and holes that have their addresses at the column's moment", async () => {
  const bench = new Bench(DATA);
  const reply = await bench.segments({ from: 2000, to: 30_000 });
  const { columns, strips, pixel_bytes: slack, request: { width, height }, ids } = reply;
  const strip = strips[0]!;
  let checked = 0;
  for (let x = 3; x < width; x += 37) {
    const moment = columns.moment[x]!;
    const alive = aliveAt(TAPE, moment);
    for (let y = Math.ceil(strip.y); y < Math.min(height, strip.y + strip.height); y += 7) {
      const address = FIRST_ADDRESS + ((y + 0.5 - strip.y) / strip.height) * strip.size_bytes;
      const info = await bench.segmentInfo(reply, x, y);
      if (address >= FIRST_ADDRESS + DATA.reserved[moment]! + slack) {
        assert.equal(ids[y * width + x], 0, "nothing is drawn where nothing is mapped");
        continue;
      }
      if (info === null) continue;
      assert.equal(info.moment, moment);
      const found = info.block ?? info.hole!;
      const [first, end] = [Number(found.address), Number(found.address) + found.size_bytes];
      assert.ok(first - slack <= address && address < end + slack, `pixel ${x}, ${y}`);
      if (info.block !== null) assert.ok(alive.some((life) => life.address === first && life.size === end - first));
      else {
        const below = alive.findLast((life) => life.address < end);
        const above = alive.find((life) => life.address >= end);
        assert.equal(first, below === undefined ? FIRST_ADDRESS : below.address + below.size);
        assert.equal(end, above?.address ?? FIRST_ADDRESS + DATA.reserved[moment]!);
      }
      checked++;
    }
  }
  assert.ok(checked > 200, `${checked} pixels`);
});

test("the rows of a column are its bytes", async () => {
  const reply = await new Bench(DATA).segments({ height: 2000 });
  const { ids, columns, pixel_bytes: row, request: { width, height } } = reply;
  for (let x = 0; x < width; x += 11) {
    const seen = new Map<number, number>();
    for (let y = 0; y < height; y++) seen.set(ids[y * width + x]!, (seen.get(ids[y * width + x]!) ?? 0) + 1);
    const mapped = height - (seen.get(0) ?? 0);
    // Each range rounds its two ends.
    assert.ok(Math.abs(mapped * row - columns.reserved[x]!) <= 2 * row, `column ${x}: ${mapped} rows`);
  }
});

test("a hole states since when and until when it is free", async () => {
  const bench = new Bench(DATA);
  const reply = await bench.segments();
  const { request: { width, height } } = reply;
  let holes = 0;
  for (let x = 40; x < width; x += 31) {
    for (let y = 30; y < height; y += 17) {
      const info = await bench.segmentInfo(reply, x, y);
      const { hole } = info ?? {};
      if (info === null || hole === null || hole === undefined) continue;
      const [from, to] = [Number(hole.address), Number(hole.address) + hole.size_bytes];
      const beside = TAPE.lives.filter((life) => life.address < to && life.address + life.size > from);
      const { start, end } = hole.free!;
      const isIn = (life: Life): boolean => life.start < (end ?? Infinity) && (life.end ?? Infinity) > start;
      assert.ok(!beside.some(isIn), "no block is in the hole");
      const before = Math.max(...beside.map((life) => (life.end ?? 0) <= info.moment ? life.end ?? 0 : 0), 0);
      assert.ok(start >= before && start <= info.moment && (end ?? Infinity) > info.moment);
      holes++;
    }
  }
  assert.ok(holes > 10, `${holes} holes`);
});

test("legend, search and numbers count bytes at the peak", async () => {
  const reply = await new Bench(DATA).segments({ grouping: 1, query: "^param" });
  const { numbers, peak, legend, found } = reply;
  const { peaks } = DATA.header.devices[0]!;
  assert.equal(peak.allocated_bytes, peaks.allocated_bytes);
  assert.equal(legend.reduce((sum, row) => sum + row.at_peak_bytes, 0), peaks.allocated_bytes);
  assert.equal(found?.at_peak_bytes, legend.find((row) => row.label === "parameter")!.at_peak_bytes);
  assert.deepEqual([numbers.moment, numbers.reserved_bytes], [peaks.reserved_moment, peaks.reserved_bytes]);
  assert.equal(numbers.allocated_bytes, DATA.allocated[peaks.reserved_moment]);
  assert.equal(numbers.blocks, aliveAt(TAPE, peaks.reserved_moment).length);
  assert.equal(numbers.segments, 1);
});

test("a window of too many moments is drawn at the peaks of columns", async () => {
  const data = pageData(training(420_000, 4));
  const bench = new Bench(data);
  const reply = await bench.segments({ width: 100 });
  assert.equal(reply.detail.is_exact, false);
  checkColumns(data, reply, false);
  // The same region serves a window in it; a narrow one is exact.
  checkColumns(data, await bench.segments({ from: 40_000, to: 400_000, width: 100 }), false);
  const exact = await bench.segments({ from: 40_000, to: 50_000, width: 100 });
  assert.equal(exact.detail.is_exact, true);
  checkColumns(data, exact, true);
  assert.deepEqual(bench.faults, []);
});

test("segments that reuse addresses share a strip, and touching ranges of an expandable one do", () => {
  const range = (mib: number, size: number, start = 0, end = 0, isExpandable = false, owner = 0): RangeText => (
    { start, end, mib, size, owner, isExpandable });
  const all = ranges(range(0, 20, 0, 10), range(20, 20), range(100, 4, 0, 0, true), range(104, 2, 0, 0, true),
    range(10, 5, 12, 30), range(106, 2, 15, 0, true), range(0, 40, 31, 36, false, 1));
  const shown = (from: number, to: number): [number, number, number, number][] => stripsOf(all, from, to)
    .map(({ owner, address, size_bytes: size, segments }) => [owner, address / MIB, size / MIB, segments]);
  assert.deepEqual(shown(0, 40), [[0, 0, 20, 2], [0, 20, 20, 1], [0, 100, 8, 1], [1, 0, 40, 1]]);
  assert.deepEqual(shown(10, 12), [[0, 20, 20, 1], [0, 100, 6, 1]]);
  assert.deepEqual(shown(11, 13), [[0, 10, 5, 1], [0, 20, 20, 1], [0, 100, 6, 1]]);
  const strips = stripsOf(all, 0, 40);
  const finder = new StripFinder(all, strips);
  const places = [[5, 3], [12, 13], [12, 11], [12, 33], [30, 5], [105, 2], [107, 2], [107, 16], [50, 3]] as const;
  assert.deepEqual(places.map(([mib, moment]) => finder.find(mib * MIB, moment)), [0, 0, -1, 3, 1, 2, -1, 2, -1]);
  assert.equal(rangeAt(all, strips[0]!, 12 * MIB, 13), 4);
});

for (const [count, owners, height] of [[1, 1, 500], [57, 2, 500], [4000, 3, 500], [1000, 1000, 400]] as const) {
  test(`${count} segments of ${owners} owners are laid out in order and in proportion`, () => {
    const chance = random(count);
    const strips: Strip[] = Array.from({ length: count }, (_, i) => ({ owner: Math.floor((i * owners) / count),
      address: i * 1024 * MIB, size_bytes: (chance() < 0.5 ? 2 : 20 + Math.floor(200 * chance())) * MIB, ranges: [i],
      segments: 1 }));
    for (const stretch of [1, 8]) {
      const layout = layOutStrips(strips, height, 1, stretch);
      assert.equal(layout.headings.length, owners);
      let end = 0;
      strips.forEach(({ size_bytes: size }, i) => {
        const [top, high] = [layout.top[i]!, layout.high[i]!];
        assert.ok(top >= end && high >= 2, `strip ${i}`);
        end = top + high;
        const ideal = size / layout.pixel_bytes;
        assert.ok(high <= Math.max(2, ideal) && (ideal < 2 || high > ideal - 1), `${high} rows for ${ideal}`);
        assert.equal(stripAt(layout, top), i);
      });
      assert.ok(layout.height >= end && layout.raised <= count);
      if (count < 20) assert.ok(layout.height <= stretch * height && layout.height > 0.9 * stretch * height - 40);
    }
  });
}

test("blocks that no range covers are reported once", async () => {
  const none = new ArrayWriter().plain([]).plain([]).deltaBytes([]).plainBytes([]).plain([]).plain([]).text;
  const bench = new Bench({ ...DATA, chunks: new Map(DATA.chunks).set("d0/ranges", none) });
  await bench.segments();
  await bench.segments({ from: 100, to: 200 });
  assert.equal(bench.faults.length, 1);
  assert.match(bench.faults[0]!, /^d0\/ranges: do not cover \d+ blocks of the window/);
});
