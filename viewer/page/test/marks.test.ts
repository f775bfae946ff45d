import assert from "node:assert/strict";
import { test } from "node:test";
import { Clock, pixelEdges, thingsOf } from "../engine/clock.ts";
import { arrange } from "../engine/lanes.ts";
import { MARK, type Marks, NO_NAMES } from "../format/rest.ts";

function marks(...list: [moment: number, kind: number, name: number][]): Marks {
  const column = (i: 0 | 1 | 2): Float64Array => Float64Array.from(list, (mark) => mark[i]);
  return { moment: column(0), kind: column(1), name: column(2), bytes: column(1), time: column(0) };
}

test("steps last to the next, phases to the end of their step, ranges nest", () => {
  const names = { ...NO_NAMES, marks: ["step", "forward", "outer", "inner", "saved"] };
  const { lanes, points } = arrange(marks([10, MARK.step, 0], [10, MARK.phase, 1], [12, MARK.rangeBegin, 2],
    [13, MARK.rangeBegin, 3], [14, MARK.rangeEnd, 3], [15, MARK.rangeEnd, 2], [16, MARK.instant, 4],
    [20, MARK.step, 0]), names, 100);
  const spans = lanes.map((lane) => [lane.title, [...lane.start].map((start, i) => [start, lane.end[i]])]);
  assert.deepEqual(spans, [["steps", [[10, 20], [20, 100]]], ["phases", [[10, 20]]], ["ranges", [[12, 15]]],
    ["", [[13, 14]]]]);
  assert.deepEqual(points.map((point) => [point.moment, point.name]), [[16, "saved"]]);
});

test("patterns are lanes of their own, and one that ends where the next begins is beside it", () => {
  const names = { ...NO_NAMES, marks: ["forward", "backward", "logits"] };
  const { lanes } = arrange(marks([1, MARK.patternBegin, 0], [7, MARK.patternBegin, 2], [8, MARK.patternEnd, 0],
    [8, MARK.patternBegin, 1], [9, MARK.patternEnd, 2], [20, MARK.patternEnd, 1]), names, 100);
  const spans = lanes.map((lane) => [lane.title, [...lane.start].map((start, i) => [start, lane.end[i]])]);
  assert.deepEqual(spans, [["pattern", [[1, 8], [8, 20]]], ["", [[7, 9]]]]);
});

test("ranges that are nested too deeply are counted", () => {
  const deep = Array.from({ length: 6 }, (_, i): [number, number, number] => [i + 1, MARK.rangeBegin, 0]);
  assert.equal(arrange(marks(...deep), NO_NAMES, 10).deeper, 3);
});

test("a clock goes there and back", () => {
  const clock = new Clock(Float64Array.from([0, 1000, 1000, 5000]), 10, 26);
  assert.equal(clock.timeAt(5), 500);
  assert.equal(clock.timeAt(15), 1000);
  assert.equal(clock.timeAt(25), 5000);
  assert.equal(clock.momentAt(500), 5);
  assert.equal(clock.momentAt(1000), 20);
  assert.equal(clock.momentAt(1e9), 25);
});

test("each column begins in one pixel", () => {
  const edges = pixelEdges(7, 3, 50, null);
  const seen: number[] = [];
  for (let x = 0; x < 7; x++) {
    const [first, end] = thingsOf(edges, x, 4, 13);
    for (let column = first; column < end; column++) seen.push(column);
  }
  assert.deepEqual(seen, [...Array(13).keys()]);
});
