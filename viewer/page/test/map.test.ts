import assert from "node:assert/strict";
import { test } from "node:test";
import { addressesAt, mappedAt } from "../engine/addresses.ts";
import { chooseScale, layOut } from "../engine/maplayout.ts";
import { FIRST_ID } from "../engine/protocol.ts";
import { decodeKinds, decodeLives, type LivesNode } from "../format/lives.ts";
import { decodeRanges, type Ranges } from "../format/ranges.ts";
import { Bench } from "./bench.ts";
import { ArrayWriter } from "./encode.ts";
import { pageData } from "./pagedata.ts";
import { FIRST_ADDRESS, random, training } from "./training.ts";

const TAPE = training(60_000);
const DATA = pageData(TAPE);
const MIB = 2 ** 20;

/** The peak moments of all columns, and others. */
function moments(): number[] {
  const found = [0, 1, TAPE.moments - 1];
  for (let from = 0; from < TAPE.moments; from += 2560) {
    let peak = from;
    for (let m = from; m < Math.min(from + 256, TAPE.moments); m++) {
      if (DATA.allocated[m]! > DATA.allocated[peak]!) peak = m;
    }
    found.push(peak, from + 77);
  }
  return found.filter((moment) => moment < TAPE.moments);
}

interface RangeText {
  start: number;
  length: number;
  address: number;
  size: number;
  owner: number;
  isExpandable: number;
}

function ranges(...list: RangeText[]): Ranges {
  return decodeRanges("d0/ranges", new ArrayWriter().rising(list.map((r) => r.start)).plain(list.map((r) => r.length))
    .deltaBytes(list.map((r) => r.address)).plainBytes(list.map((r) => r.size)).plain(list.map((r) => r.owner))
    .plain(list.map((r) => r.isExpandable)).bytes);
}

test("the map's bytes are those of the counters at every moment", async () => {
  const bench = new Bench(DATA);
  for (const moment of moments()) {
    const { numbers } = await bench.map(moment);
    const alive = TAPE.lives.filter((life) => life.start <= moment && (life.end ?? Infinity) > moment);
    alive.sort((a, b) => a.address - b.address);
    assert.equal(numbers.moment, moment);
    assert.equal(numbers.allocated_bytes, DATA.allocated[moment], `allocated at ${moment}`);
    assert.equal(numbers.reserved_bytes, DATA.reserved[moment], `reserved at ${moment}`);
    assert.equal(numbers.blocks, alive.length);
    // The segment is one range from the first address on.
    const holes: number[] = [];
    let at = FIRST_ADDRESS;
    for (const { address, size } of [...alive, { address: FIRST_ADDRESS + DATA.reserved[moment]!, size: 0 }]) {
      if (address > at) holes.push(address - at);
      at = address + size;
    }
    assert.equal(numbers.ranges, DATA.reserved[moment]! > 0 ? 1 : 0);
    assert.equal(numbers.holes, holes.length, `holes at ${moment}`);
    assert.equal(numbers.largest_hole_bytes, Math.max(0, ...holes));
  }
  assert.deepEqual(bench.faults, []);
});

test("every pixel of a range shows the block or hole that has its address", async () => {
  const bench = new Bench(DATA);
  const moment = DATA.header.devices[0]!.peaks.allocated_moment;
  const reply = await bench.map(moment);
  const { ids, request: { width } } = reply;
  // Wrapped rows of one range: pixel `x` of row `y` is at a known address.
  const inner = width - 2;
  const rowBytes = reply.row_bytes;
  for (let row = 0; row < reply.rows.length; row++) {
    for (let x = 1; x < width - 1; x += 13) {
      const id = ids[row * width + x]!;
      if (id === 0) continue;
      const info = await bench.mapInfo(reply, id);
      const thing = info?.block ?? info?.hole;
      const first = Number(thing!.address);
      const address = FIRST_ADDRESS + row * rowBytes + ((x - 1 + 0.5) / inner) * rowBytes;
      const slack = rowBytes / inner;
      assert.ok(address >= first - slack && address <= first + thing!.size_bytes + slack, `row ${row}, pixel ${x}`);
    }
  }
});

test("the map's legend and search count bytes at the moment", async () => {
  const bench = new Bench(DATA);
  const moment = DATA.header.devices[0]!.peaks.allocated_moment;
  const reply = await bench.map(moment, { grouping: 1, query: "^param" });
  assert.equal(reply.legend.reduce((sum, row) => sum + row.at_peak_bytes, 0), DATA.allocated[moment]);
  const parameters = reply.legend.find((row) => row.label === "parameter")!;
  assert.equal(reply.found?.at_peak_bytes, parameters.at_peak_bytes);
});

test("blocks that no range covers are reported once", async () => {
  const bench = new Bench({ ...DATA, chunks: new Map(DATA.chunks).set("d0/ranges", ranges().start.length === 0
    ? new ArrayWriter().plain([]).plain([]).deltaBytes([]).plainBytes([]).plain([]).plain([]).text : "") });
  await bench.map(5000);
  await bench.map(6000);
  assert.equal(bench.faults.length, 1);
  assert.match(bench.faults[0]!, /^d0\/ranges: do not cover \d+ blocks at moment 5000/);
});

test("only ranges of an expandable segment are joined, and only those that touch", () => {
  const range = (address: number, owner: number, isExpandable: number, start = 0, length = 0): RangeText => (
    { start, length, address: address * MIB, size: 2 * MIB, owner, isExpandable });
  const all = ranges(range(0, 0, 1), range(2, 0, 1), range(6, 0, 1), range(10, 0, 0), range(12, 0, 0), range(14, 1, 1),
    range(4, 0, 1, 5, 3));
  const sizes = (moment: number): number[] => {
    const { count, size } = mappedAt(all, moment);
    return Array.from(size.subarray(0, count), (bytes) => bytes / MIB);
  };
  assert.deepEqual(sizes(0), [4, 2, 2, 2, 2]);
  assert.deepEqual(sizes(5), [8, 2, 2, 2]);
  assert.deepEqual(sizes(8), [4, 2, 2, 2, 2]);
});

test("holes and blocks cover the ranges without a gap", () => {
  const chance = random(3);
  const all = ranges(...Array.from({ length: 40 }, (_, i) => (
    { start: 0, length: 0, address: i * 4 * MIB, size: 2 * MIB, owner: i % 3, isExpandable: 0 })));
  const kinds = decodeKinds("d0/kinds", new ArrayWriter().plainBytes([512, MIB]).plainBytes([512, MIB]).plain([0, 0])
    .plain([0, 0]).plain([0, 0]).bytes);
  const addresses: number[] = [];
  for (let i = 0; i < 40; i++) for (const part of [0, 3]) if (chance() < 0.6) addresses.push(i * 4 * MIB + part * 512);
  const writer = new ArrayWriter().rising(addresses.map(() => 0)).plain(addresses.map(() => 0))
    .plain(addresses.map(() => 0)).number(addresses.length).number(512);
  addresses.forEach((address, i) => writer.number(2 * ((address - (addresses[i - 1] ?? 0)) / 512)));
  const node: LivesNode = decodeLives("d0/lives/0/0", writer.rising([]).bytes, 0);
  const found = addressesAt(all, kinds, [node], 0);
  assert.equal(found.misplaced, 0);
  assert.equal(found.blocks, addresses.length);
  for (let range = 0; range < found.mapped.count; range++) {
    let at = found.mapped.address[range]!;
    for (let thing = found.thingsAt[range]!; thing < found.thingsAt[range + 1]!; thing++) {
      assert.equal(found.address[thing], at);
      at += found.size[thing]!;
    }
    assert.equal(at, found.mapped.address[range]! + found.mapped.size[range]!);
  }
});

for (const [gib, count] of [[1 / 64, 2], [1, 500], [80, 40], [80, 4000], [80, 1]] as const) {
  test(`a map of ${gib} GiB in ${count} ranges fits, and rows do not overlap`, () => {
    const size = (gib * 1024 * MIB) / count;
    const mapped = mappedAt(ranges(...Array.from({ length: count }, (_, i) => (
      { start: 0, length: 0, address: i * 2 * size, size, owner: Math.floor((4 * i) / count), isExpandable: 0 }))), 0);
    for (const width of [340, 1200, 2500]) {
      const scale = chooseScale(mapped, width, 500, 1);
      const layout = layOut(mapped, scale);
      const most = width < 600 && count > 1000 ? 1000 : 500;
      assert.ok(layout.height <= most, `${layout.height} pixels at ${width}`);
      assert.equal(layout.headings.length, Math.min(4, count));
      let [row, end] = [-1, 0];
      const bytes = new Float64Array(mapped.count);
      for (const part of layout.parts) {
        if (part.row !== row) [row, end] = [part.row, 0];
        assert.ok(part.from >= end && part.to > part.from && part.to <= width);
        assert.equal(part.offset, bytes[part.range]);
        bytes[part.range]! += part.bytes;
        end = part.to;
      }
      assert.deepEqual(bytes, mapped.size.subarray(0, mapped.count));
    }
  });
}

test("the scale is the same at all moments", async () => {
  const bench = new Bench(DATA);
  const [one, two] = [await bench.map(3000), await bench.map(50_000)];
  for (const { from, to, row, bytes } of two.labels) {
    const ids = new Set(two.ids.subarray(row * 400 + from, row * 400 + to));
    assert.equal(ids.size, 1, "a label is in one hole");
    const info = await bench.mapInfo(two, [...ids][0]!);
    assert.equal(info?.hole?.size_bytes, bytes);
  }
  assert.equal(one.row_bytes, two.row_bytes);
  assert.ok(one.ids.every((id) => id === 0 || id >= FIRST_ID));
});
