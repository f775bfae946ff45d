import assert from "node:assert/strict";
import { test } from "node:test";
import { FlameTree } from "../engine/flametree.ts";
import type { FlameReply, FlameRequest } from "../engine/protocol.ts";
import { Bench } from "./bench.ts";
import { pageData } from "./pagedata.ts";
import { processorMs } from "./processor.ts";
import { random, training } from "./training.ts";

const TAPE = training(60_000);
const DATA = pageData(TAPE);
const LAST = TAPE.moments - 1;

/** Bytes by label of the stack, the plain way. */
function plain({ of, moment = 0, from = 0, to = TAPE.moments }: Partial<FlameRequest>): Map<string, number> {
  const sums = new Map<string, number>();
  const add = (stack: number, bytes: number): void => {
    sums.set(TAPE.labels[stack]!, (sums.get(TAPE.labels[stack]!) ?? 0) + bytes);
  };
  for (const { start, end, size, stack } of TAPE.lives) {
    const isAt = (at: number): boolean => start <= at && (end ?? Infinity) > at;
    if (of === "live" && isAt(moment)) add(stack, size);
    if (of === "allocated" && start >= from && start < to) add(stack, size);
    if (of === "difference") add(stack, (isAt(to - 1) ? size : 0) - (isAt(from) ? size : 0));
  }
  return sums;
}

const sum = (values: Iterable<number>): number => [...values].reduce((all, one) => all + one, 0);

/** Bytes of a graph by the label of the frame that no other stack has. */
function byLabel({ rects }: FlameReply, labels: Iterable<string>): Map<string, number> {
  return new Map([...labels].map((label) => (
    [label, sum(rects.filter((rect) => rect.label === label).map((rect) => rect.bytes))])));
}

test("a graph of a moment has the allocated bytes, stack by stack", async () => {
  const bench = new Bench(DATA);
  for (const moment of [0, 1, DATA.header.devices[0]!.peaks.allocated_moment, 31_007, LAST]) {
    const reply = await bench.flame({ of: "live", moment, width: 1e7 });
    const expected = plain({ of: "live", moment });
    assert.equal(reply.total_bytes, DATA.allocated[moment]);
    const alive = TAPE.lives.filter((life) => life.start <= moment && (life.end ?? Infinity) > moment);
    assert.equal(reply.blocks, alive.length);
    assert.deepEqual(byLabel(reply, expected.keys()), expected);
  }
});

test("a graph of a window has its allocations, and a difference what is more and what is less", async () => {
  const bench = new Bench(DATA);
  for (const [from, to] of [[0, LAST], [20_000, 31_000], [7, 8]] as const) {
    const allocated = await bench.flame({ of: "allocated", from, to, width: 1e7 });
    const expected = plain({ of: "allocated", from, to });
    assert.deepEqual(byLabel(allocated, expected.keys()), expected);
    const changed = await bench.flame({ of: "difference", from, to });
    const { more_bytes: more, less_bytes: less, total_bytes: total } = changed;
    const changes = [...plain({ of: "difference", from, to }).values()];
    assert.equal(more, sum(changes.filter((bytes) => bytes > 0)));
    assert.equal(less, Math.abs(sum(changes.filter((bytes) => bytes < 0))));
    assert.equal(more - less, DATA.allocated[to - 1]! - DATA.allocated[from]!);
    assert.equal(total, more + less);
  }
});

test("rectangles lie in their parents, and none is wider than its bytes", async () => {
  const bench = new Bench(DATA);
  for (const isInverted of [false, true]) {
    const moment = DATA.header.devices[0]!.peaks.allocated_moment;
    const reply = await bench.flame({ moment, is_inverted: isInverted, width: 60 });
    assert.ok(reply.rects.length > 10 && reply.narrow > 0, `${reply.rects.length} and ${reply.narrow}`);
    for (const rect of reply.rects.slice(1)) {
      const parent = reply.rects[rect.parent]!;
      assert.ok(rect.x0 >= parent.x0 - 1e-6 && rect.x1 <= parent.x1 + 1e-6 && rect.depth === parent.depth + 1);
      assert.ok(Math.abs((rect.x1 - rect.x0) / 60 - rect.bytes / reply.total_bytes) < 1e-9);
    }
  }
});

test("a zoom gives a frame the full width below its ancestors", async () => {
  const bench = new Bench(DATA);
  const moment = DATA.header.devices[0]!.peaks.allocated_moment;
  const whole = await bench.flame({ moment });
  const rect = whole.rects.find((one) => one.depth === 3 && one.bytes < whole.total_bytes / 4)!;
  const zoom: number[] = [];
  for (let at = rect; at.parent >= 0; at = whole.rects[at.parent]!) zoom.unshift(at.frame);
  const zoomed = await bench.flame({ moment, zoom });
  const same = zoomed.rects.find((one) => one.depth === 3)!;
  assert.deepEqual([same.label, same.bytes, same.x0, same.x1], [rect.label, rect.bytes, 0, 1000]);
  assert.equal(zoomed.rects[0]!.bytes, whole.total_bytes);
});

test("a search counts the bytes of a match below a match once", () => {
  const tree = new FlameTree();
  tree.add([1, 2, 1], { bytes: 10, blocks: 1 });
  tree.add([1, 3], { bytes: 5, blocks: 1 });
  tree.add([4], { bytes: 7, blocks: 1 });
  assert.deepEqual(tree.found((frame) => frame === 1), { bytes: 15, blocks: 2 });
  assert.deepEqual(tree.found((frame) => frame === 4 || frame === 3), { bytes: 12, blocks: 2 });
});

test("a pattern that cannot be read is an error in the reply", async () => {
  const { found } = await new Bench(DATA).flame({ query: "(" });
  assert.ok(found !== null && found.error !== "");
});

test("a hundred thousand stacks are laid out within a second of processor time", () => {
  const chance = random(3);
  const tree = new FlameTree();
  let bytes = 0;
  for (let stack = 0; stack < 100_000; stack++) {
    const path = Array.from({ length: 20 }, (_, depth) => depth < 12 ? Math.floor(chance() * 3) : stack);
    tree.add(path, { bytes: 512 * (stack % 7 + 1), blocks: 1 });
    bytes += 512 * (stack % 7 + 1);
  }
  const began = process.cpuUsage();
  const { boxes, narrow } = tree.layOut(0, 1280);
  assert.equal(tree.bytes[0], bytes);
  assert.ok(boxes.length < 1280 * 21 && narrow > 1000, `${boxes.length} rectangles, ${narrow} narrow`);
  assert.ok(processorMs(began) < 1000);
});
