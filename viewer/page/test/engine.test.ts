import assert from "node:assert/strict";
import { test } from "node:test";
import { EDGE, FIRST_ID, type FrameReply, NOTHING, OTHER, PENDING } from "../engine/protocol.ts";
import { Bench } from "./bench.ts";
import { pageData } from "./pagedata.ts";
import { training } from "./training.ts";

const DATA = pageData(training(400_000));
const MOMENTS = DATA.header.devices[0]!.moments;

/** The highest row of a column that shows a group or a block, counted from the bottom. */
function stackRows(reply: FrameReply, x: number): number {
  const { height } = reply.request;
  for (let y = 0; y < height; y++) {
    const id = (reply.ids[x * height + y]! & ~EDGE) >>> 0;
    if (id !== NOTHING && id !== PENDING) return height - y;
  }
  return 0;
}

for (const grouping of [0, 1]) {
  for (const [from, to] of [[0, MOMENTS], [20_000, 120_000], [1_000, 3_000], [5_000, 5_040]] as const) {
    test(`the stack adds up to allocated bytes: grouping ${grouping}, moments ${from} to ${to}`, async () => {
      const bench = new Bench(DATA);
      const reply = await bench.frame({ from, to, grouping });
      assert.deepEqual(bench.faults, []);
      const { width, height, top_bytes } = reply.request;
      for (let x = 0; x < width; x += 7) {
        const stack = await bench.stack((x + 0.5) / width);
        const sum = stack.groups.reduce((bytes, group) => bytes + group.bytes, 0);
        assert.equal(stack.moment, reply.columns.moment[x]);
        assert.equal(sum, DATA.allocated[stack.moment], `at moment ${stack.moment}`);
        assert.equal(stack.allocated_bytes, sum);
        assert.equal(stackRows(reply, x), Math.floor((sum / top_bytes) * height + 0.5), `pixels at column ${x}`);
        if (stack.blocks !== undefined) assert.equal(stack.blocks.reduce((n, b) => n + b.size_bytes, 0), sum);
      }
    });
  }
}

for (const [from, to, bottom, top] of [[1_000, 9_000, 0, 1], [50_000, 50_300, 0, 1], [2_000, 4_000, 0.45, 0.55]] as
  const) {
  test(`each block has the rows of its bytes: moments ${from} to ${to}, height ${bottom} to ${top}`, async () => {
    const bench = new Bench(DATA);
    const most = DATA.header.devices[0]!.peaks.reserved_bytes;
    const reply = await bench.frame({ from, to, bottom_bytes: Math.floor(bottom * most), top_bytes: top * most });
    const { width, height, bottom_bytes, top_bytes } = reply.request;
    const row = (bytes: number): number => Math.min(height, Math.max(0,
      Math.floor(((bytes - bottom_bytes) * height) / (top_bytes - bottom_bytes) + 0.5)));
    for (let x = 0; x < width; x++) {
      const { blocks } = await bench.stack((x + 0.5) / width);
      let sum = 0;
      const expected = blocks!.flatMap((block) => {
        const before = row(sum);
        sum += block.size_bytes;
        return row(sum) > before ? [row(sum) - before] : [];
      });
      const seen: number[] = [];
      let last = NOTHING;
      for (let y = height - 1; y >= 0; y--) {
        const id = (reply.ids[x * height + y]! & ~EDGE) >>> 0;
        if (id < FIRST_ID) break;
        if (id === last) seen[seen.length - 1]!++;
        else seen.push(1);
        last = id;
      }
      assert.deepEqual(seen, expected, `column ${x}`);
    }
  });
}

test("no peak is hidden at any zoom", async () => {
  for (const [from, to] of [[0, MOMENTS], [100_000, 150_000], [7_000, 7_100]] as const) {
    const reply = await new Bench(DATA).frame({ from, to });
    const most = DATA.allocated.subarray(from, to).reduce((a, b) => Math.max(a, b), 0);
    assert.ok(reply.columns.allocated.reduce((a, b) => Math.max(a, b), 0) >= most);
  }
});

test("the level of detail is stated", async () => {
  const bench = new Bench(DATA);
  const whole = await bench.frame({});
  assert.deepEqual(whole.detail, { mode: "bands", column_moments: 1024, is_coarser: false });
  const exact = await bench.frame({ from: 10_000, to: 12_000 });
  const { lives } = training(400_000);
  const expected = lives.filter((life) => life.start < 12_000 && (life.end ?? Infinity) > 10_000).length;
  assert.deepEqual(exact.detail, { mode: "blocks", blocks: expected, is_coarser: false });
});

test("bands and blocks of one moment are the same groups in the same order", async () => {
  const bench = new Bench(DATA);
  const whole = await bench.frame({ grouping: 1, width: 300 });
  const fraction = 0.5;
  const bands = await bench.stack(fraction);
  const { moment } = bands;
  await bench.frame({ grouping: 1, from: moment, to: moment + 8, width: 8 });
  const blocks = await bench.stack(0);
  assert.equal(blocks.moment, moment);
  assert.deepEqual(blocks.groups, bands.groups);
  assert.equal(whole.detail.mode, "bands");
});

test("reserved bytes of a window of blocks are those of each pixel's moments", async () => {
  for (const [from, to] of [[0, 20_000], [4_900, 5_100]] as const) {
    const { columns } = await new Bench(DATA).frame({ from, to });
    const step = (to - from) / 200;
    columns.reservedMost.forEach((most, x) => {
      const first = Math.min(Math.ceil(from + x * step), to - 1);
      const moments = DATA.reserved.subarray(first, Math.max(first + 1, Math.ceil(from + (x + 1) * step)));
      assert.equal(most, moments.reduce((a, b) => Math.max(a, b), 0), `most at column ${x}`);
      const least = moments.reduce((a, b) => Math.min(a, b), Infinity);
      assert.equal(columns.reservedLeast[x], least, `least at column ${x}`);
    });
  }
});

test("a search lights its groups and counts them", async () => {
  const bench = new Bench(DATA);
  const reply = await bench.frame({ grouping: 1, query: "^(param|grad)" });
  assert.equal(reply.found?.groups, 2);
  const rows = reply.legend.filter((row) => /^(param|grad)/.test(row.label));
  const expected = rows.reduce((bytes, row) => bytes + row.at_peak_bytes, 0);
  assert.equal(reply.found.at_peak_bytes, expected);
  assert.notEqual((await bench.frame({ query: "(" })).found?.error, "");
});

test("a missing or damaged chunk is named, and the picture is drawn without it", async () => {
  const missing = new Bench(DATA, (id) => id.startsWith("d0/bands/"));
  const reply = await missing.frame({});
  assert.match(missing.faults[0]!, /^d0\/bands\/0\/1\/0: is missing/);
  assert.ok(reply.ids.some((id) => id === OTHER));
  assert.ok(!reply.ids.some((id) => id !== PENDING && (id & ~EDGE) >= FIRST_ID));
  const chunks = new Map(DATA.chunks).set("d0/kinds", "AAAA");
  const damaged = new Bench({ ...DATA, chunks });
  assert.equal((await damaged.frame({ from: 0, to: 1000 })).detail.mode, "bands");
  assert.match(damaged.faults[0]!, /^d0\/kinds: is not a gzip stream/);
});

test("blocks that do not add up to the counters are reported", async () => {
  const bench = new Bench(DATA, (chunk) => chunk.startsWith("d0/lives/1/"));
  await bench.frame({ from: 5000, to: 25_000 });
  assert.match(bench.faults.join(), /^d0\/lives: add up to \d+ bytes at moment \d+, and the counters have/);
});

test("the time axis shows the state in force while nothing happens", async () => {
  const bench = new Bench(DATA);
  // The made-up clock stands still in moments for 20 ms in the middle.
  const gap = (MOMENTS / 2) * 1500;
  const reply = await bench.frame({ axis: "time", from: gap + 2e6, to: gap + 1.8e7 });
  const moments = new Set(reply.columns.moment);
  assert.ok(moments.size <= 512, `${moments.size} moments in a pause`);
  for (const moment of moments) assert.ok(Math.abs(moment - MOMENTS / 2) <= 512);
});
