import assert from "node:assert/strict";
import { test } from "node:test";
import { Peaks } from "../engine/peaks.ts";
import { numbers, type Sheet, sorted } from "../engine/sheet.ts";
import { spansOf } from "../engine/markspans.ts";
import type { TableReply } from "../engine/tableprotocol.ts";
import { MARK } from "../format/rest.ts";
import { NO_END } from "../format/lives.ts";
import { Bench } from "./bench.ts";
import { pageData } from "./pagedata.ts";
import { processorMs } from "./processor.ts";
import { type Life, random, training } from "./training.ts";

const TAPE = training(60_000);
const DATA = pageData(TAPE);
const LAST = TAPE.moments - 1;
const PEAK = DATA.header.devices[0]!.peaks.allocated_moment;
const MOMENTS = [0, 1, PEAK, 31_007, LAST];
const WINDOWS = [[0, LAST + 1], [20_000, 31_000], [7, 8]] as const;
const ALL = 1e9;

const isAt = ({ start, end }: Life, moment: number): boolean => start <= moment && (end ?? Infinity) > moment;
/** A tape of its own begins at moment 0 with the blocks that are older. */
const isIn = ({ start }: Life, from: number, to: number): boolean => start >= from && start < to && start > 0;
const sum = (values: Iterable<number>): number => [...values].reduce((all, one) => all + one, 0);

function column({ heads, rows }: TableReply, key: string): (string | number | null)[] {
  const place = heads.findIndex((head) => head.key === key);
  assert.ok(place >= 0, `no ${key} in ${heads.map((head) => head.key).join()}`);
  return rows.map(({ cells }) => cells[place]!);
}

function sumOf({ heads, sums }: TableReply, key: string): number | null {
  return sums[heads.findIndex((head) => head.key === key)]!;
}

/** By label: live bytes, live blocks, allocated bytes, allocations, largest block, as the table has them. */
function plain(labelOf: (life: Life) => string, moment: number, from: number, to: number): Map<string, number[]> {
  const rows = new Map<string, number[]>();
  for (const life of TAPE.lives) {
    const [live, made] = [isAt(life, moment), isIn(life, from, to)];
    if (!live && !made) continue;
    const label = labelOf(life);
    const row = rows.get(label) ?? [0, 0, 0, 0, 0];
    rows.set(label, row);
    if (live) [row[0], row[1]] = [row[0]! + life.size, row[1]! + 1];
    if (made) [row[2], row[3]] = [row[2]! + life.size, row[3]! + 1];
    row[4] = Math.max(row[4]!, life.size);
  }
  return rows;
}

test("rows of groups and stacks have the bytes of the moment and of the window", async () => {
  const bench = new Bench(DATA);
  for (const moment of MOMENTS) {
    for (const [from, to] of WINDOWS) {
      for (const rows of ["category", "stacks"]) {
        const reply = await bench.table({ rows, moment, from, to, count: ALL });
        const label = rows === "stacks" ? "own_line" : "category";
        const labelOf = rows === "stacks" ? ({ stack }: Life) => `model.py:${10 + stack} ${TAPE.labels[stack]!}`
          : ({ stack }: Life) => TAPE.categories[stack]!;
        const cells = ["live_bytes", "live_blocks", "allocated_bytes", "allocations", "largest_bytes"]
          .map((key) => column(reply, key));
        const found = new Map(column(reply, label).map((text, row) => [text, cells.map((list) => list[row])]));
        assert.deepEqual(found, plain(labelOf, moment, from, to));
        assert.equal(reply.total, found.size);
        assert.equal(sumOf(reply, "live_bytes"), DATA.allocated[moment]);
      }
    }
  }
});

test("the mean lifetime is that of the window's freed allocations", async () => {
  const [from, to] = [5_000, 20_000];
  const reply = await new Bench(DATA).table({ rows: "category", from, to });
  const means = new Map(column(reply, "category").map((text, row) => [text, column(reply, "mean_lifetime_ns")[row]]));
  const time = (m: number): number => m * 1500 + (m > TAPE.moments / 2 ? 2e7 : 0);
  for (const [category, mean] of means) {
    const lives = TAPE.lives.filter((life) => isIn(life, from, to) && TAPE.categories[life.stack] === category);
    const lengths = lives.flatMap(({ start, end }) => (end === null ? [] : [time(end) - time(start)]));
    if (lengths.length === 0) assert.equal(mean, null);
    else assert.ok(Math.abs(Number(mean) / (sum(lengths) / lengths.length) - 1) < 1e-6, `${String(category)}: ${mean}`);
  }
});

test("rows of blocks are the blocks of the moment, those of allocations the window's", async () => {
  const bench = new Bench(DATA);
  const key = (cells: (number | null)[]): string => cells.join(" ");
  const check = (reply: TableReply, lives: Life[]): void => {
    const keys = ["address", "size_bytes", "requested_bytes", "rounding_bytes", "allocated_moment", "freed_moment"]
      .map((name) => column(reply, name) as (number | null)[]);
    const found = keys[0]!.map((_, row) => key(keys.map((list) => list[row]!)));
    const expected = lives.map((life) => key([life.address, life.size, life.requested, life.size - life.requested,
      life.start === 0 ? null : life.start, life.end]));
    assert.deepEqual(found.sort(), expected.sort());
    assert.equal(reply.total, lives.length);
  };
  for (const moment of MOMENTS) {
    const reply = await bench.table({ rows: "blocks", moment, count: ALL });
    check(reply, TAPE.lives.filter((life) => isAt(life, moment)));
    assert.equal(sumOf(reply, "size_bytes"), DATA.allocated[moment]);
  }
  for (const [from, to] of WINDOWS) {
    const reply = await bench.table({ rows: "allocations", from, to, count: ALL });
    check(reply, TAPE.lives.filter((life) => isIn(life, from, to)));
  }
});

test("segments add up to the reserved bytes, and their holes to what is free", async () => {
  const bench = new Bench(DATA);
  for (const moment of MOMENTS) {
    const reply = await bench.table({ rows: "segments", moment, count: ALL });
    const [size, allocated, free] = [sumOf(reply, "size_bytes") ?? 0, sumOf(reply, "allocated_bytes") ?? 0,
      sumOf(reply, "free_bytes") ?? 0];
    assert.equal(size, DATA.reserved[moment]);
    assert.equal(allocated, DATA.allocated[moment]);
    assert.equal(free, size - allocated);
    const largest = column(reply, "largest_hole_bytes") as number[];
    assert.ok(sum(largest) <= free && (free === 0) === largest.every((bytes) => bytes === 0));
  }
});

test("marks have their ends and their peaks, and errors the state behind them", async () => {
  const bench = new Bench(DATA);
  const marks = await bench.table({ rows: "marks", count: ALL });
  const [kind, start, end, peak, at] = ["kind", "start_moment", "end_moment", "peak_bytes", "peak_moment"]
    .map((name) => column(marks, name)) as [string[], number[], (number | null)[], number[], number[]];
  assert.equal(marks.total, TAPE.marks.filter((mark) => mark.kind !== MARK.rangeEnd).length);
  kind.forEach((name, row) => {
    const parts = DATA.allocated.slice(start[row], end[row] ?? start[row]! + 1);
    const most = parts.reduce((a, b) => Math.max(a, b), 0);
    assert.deepEqual([peak[row], at[row]], [most, start[row]! + parts.indexOf(most)], `${name} at ${start[row]!}`);
  });
  const steps = start.filter((_, row) => kind[row] === "step");
  const ends = end.filter((_, row) => kind[row] === "step");
  assert.deepEqual(ends, [...steps.slice(1), TAPE.moments]);
  const error = TAPE.marks.find((mark) => mark.kind === MARK.outOfMemory)!;
  const ooms = await bench.table({ rows: "out of memory" });
  const cells = ["moment", "requested_bytes", "allocated_bytes", "reserved_bytes"].map((name) => column(ooms, name)[0]);
  assert.deepEqual(cells, [error.moment, error.bytes, DATA.allocated[error.moment], DATA.reserved[error.moment]]);
  const none = await bench.table({ rows: "out of memory", from: error.moment + 1, to: TAPE.moments });
  assert.equal(none.total, 0);
});

test("nested ranges of one name end from the innermost, and open marks at the end", () => {
  const list = (...values: number[]): Float64Array => Float64Array.from(values);
  const { rangeBegin: begin, rangeEnd: stop, phase, step } = MARK;
  const kind = list(step, begin, begin, begin, stop, stop, phase, stop, step);
  const spans = spansOf({ kind, moment: list(0, 1, 2, 3, 4, 5, 6, 7, 8), name: list(9, 1, 2, 1, 1, 2, 9, 7, 9),
    bytes: new Float64Array(9), time: list(0, 1, 2, 3, 4, 5, 6, 7, 8) }, 20, 99);
  assert.deepEqual(spans.map(({ start, end, end_ns }) => [start, end, end_ns]),
    [[0, 8, 8], [1, 7, 7], [2, 5, 5], [3, 4, 4], [6, 8, 8], [8, 20, 99]]);
});

test("a peak of any part of a run is the highest moment, the first of several", () => {
  const chance = random(5);
  const count = 400;
  const start = Uint32Array.from({ length: count }, () => Math.floor(chance() * 300));
  const end = start.map((at) => (chance() < 0.1 ? NO_END : Math.min(309, at + 1 + Math.floor(chance() * 40))));
  const kind = Uint32Array.from({ length: count }, () => Math.floor(chance() * 3));
  const peaks = new Peaks([{ start, end, kind, address: new Float64Array(count), isOlder: new Uint8Array(count) }],
    [1, 2, 3], 310);
  for (let round = 0; round < 2000; round++) {
    const from = Math.floor(chance() * 310);
    const to = from + 1 + Math.floor(chance() * (309 - from));
    const parts = peaks.allocated.slice(from, to);
    assert.equal(peaks.in(from, to), from + parts.indexOf(Math.max(...parts)), `${from} to ${to}`);
  }
});

test("rows are sorted by any column; equal ones keep their order and empty ones are last", async () => {
  const bench = new Bench(DATA);
  const whole = await bench.table({ rows: "blocks", moment: PEAK, count: ALL });
  const number = new Map(whole.rows.map(({ row }) => [row, 0]));
  for (const { key } of whole.heads) {
    for (const sign of ["", "-"]) {
      const { rows, heads, sort } = await bench.table({ rows: "blocks", moment: PEAK, sort: sign + key, count: ALL });
      assert.equal(sort, sign + key);
      assert.deepEqual(new Set(rows.map(({ row }) => row)), new Set(number.keys()));
      const place = heads.findIndex((head) => head.key === key);
      rows.slice(1).forEach((row, at) => {
        const [a, b] = [rows[at]!.cells[place] ?? null, row.cells[place] ?? null];
        const order = a === null || b === null ? (a === null ? 1 : 0) - (b === null ? 1 : 0)
          : typeof a === "number" ? (a - Number(b)) * (sign === "" ? 1 : -1)
            : new Intl.Collator("en", { numeric: true }).compare(a, String(b)) * (sign === "" ? 1 : -1);
        assert.ok(order < 0 || (order === 0 && rows[at]!.row < row.row), `${sign}${key}: ${String(a)}, ${String(b)}`);
      });
    }
  }
});

test("a search keeps the rows whose text or address matches, and sums only these", async () => {
  const bench = new Bench(DATA);
  const lives = TAPE.lives.filter((life) => isAt(life, PEAK));
  const line = ({ stack }: Life): string => `model.py:${10 + stack} ${TAPE.labels[stack]!}`;
  for (const query of ["layers\\.1\\.", "^0x7f[0-9a-f]*800$", "stream 7", "nothing at all"]) {
    const pattern = new RegExp(query, "i");
    const found = lives.filter((life) => [line(life), `0x${life.address.toString(16)}`,
      life.stream === 1 ? "stream 7" : "default stream"].some((text) => pattern.test(text)));
    const reply = await bench.table({ rows: "blocks", moment: PEAK, query, count: ALL });
    assert.deepEqual([reply.matching, reply.total], [found.length, lives.length], query);
    assert.equal(sumOf(reply, "size_bytes"), sum(found.map(({ size }) => size)));
  }
  const bad = await bench.table({ rows: "blocks", moment: PEAK, query: "(" });
  assert.ok(bad.error !== "" && bad.matching === lives.length);
});

test("slices of the rows are the whole", async () => {
  const bench = new Bench(DATA);
  const whole = await bench.table({ rows: "allocations", sort: "-size_bytes", count: ALL });
  const parts: number[] = [];
  for (let first = 0; first < whole.total; first += 7919) {
    const slice = await bench.table({ rows: "allocations", sort: "-size_bytes", first, count: 7919 });
    parts.push(...slice.rows.map(({ row }) => row));
  }
  assert.deepEqual(parts, whole.rows.map(({ row }) => row));
});

test("a row is described as its block or group", async () => {
  const bench = new Bench(DATA);
  const blocks = await bench.table({ rows: "blocks", moment: PEAK, grouping: 1 });
  const block = (await bench.tableInfo(blocks, blocks.rows[3]!.row))!;
  assert.equal(block.block?.size_bytes, blocks.rows[3]!.cells[1]);
  assert.equal(block.allocated_bytes, DATA.allocated[PEAK]);
  const inGroup = TAPE.lives.filter((life) => isAt(life, PEAK) && TAPE.categories[life.stack] === block.label);
  assert.equal(block.group_bytes, sum(inGroup.map(({ size }) => size)));
  const groups = await bench.table({ rows: "category", moment: PEAK });
  const group = (await bench.tableInfo(groups, groups.rows[0]!.row))!;
  assert.deepEqual([group.label, group.group_bytes, group.grouping], [...groups.rows[0]!.cells.slice(0, 2), 1]);
  const segments = await bench.table({ rows: "segments", moment: PEAK });
  assert.equal(await bench.tableInfo(segments, 0), null);
});

test("text of the rows has a line each, quoted where it must be", async () => {
  const bench = new Bench(DATA);
  const reply = await bench.table({ rows: "stacks", moment: PEAK, query: "layers", sort: "-live_bytes", count: ALL });
  const { parts, rows, matching } = await bench.tableText(reply, "tsv", 5);
  const lines = parts.join("").trimEnd().split("\n").map((text) => text.split("\t"));
  assert.deepEqual([rows, matching], [5, reply.matching]);
  assert.deepEqual(lines, [reply.heads.map(({ key }) => key),
    ...reply.rows.slice(0, 5).map(({ cells }) => cells.map((value) => String(value ?? "")))]);
  const csv = await bench.tableText({ ...reply, request: { ...reply.request, rows: "blocks", query: "" } }, "csv", 1);
  assert.match(csv.parts.join("").split("\n")[1]!, /^0x7f[0-9a-f]+,\d+,.*,"default, large",/);
});

test("a window with too many allocations is a sentence, and live bytes are still there", async () => {
  const device = { ...DATA.header.devices[0]!, lives: { ...DATA.header.devices[0]!.lives, count: 600_001 } };
  const bench = new Bench({ ...DATA, header: { ...DATA.header, devices: [device] } });
  const stacks = await bench.table({ moment: PEAK });
  assert.equal(sumOf(stacks, "live_bytes"), DATA.allocated[PEAK]);
  assert.ok(!stacks.heads.some(({ key }) => key === "allocations") && stacks.notes.join().includes("600,000"));
  const allocations = await bench.table({ rows: "allocations" });
  assert.ok(allocations.total === 0 && allocations.notes.join().includes("600,000"));
  assert.ok((await bench.table({ rows: "allocations", from: 100, to: 200 })).total > 0);
});

test("600,000 rows are sorted within a second of processor time", () => {
  const rows = 600_000;
  const chance = random(4);
  const values = Float64Array.from({ length: rows }, () => Math.floor(chance() * 5000));
  const column = numbers("size_bytes", "size", "bytes", (row) => values[row]!);
  const sheet: Sheet = { rows, columns: [column], sort: "", notes: [] };
  const began = process.cpuUsage();
  const order = sorted(sheet, Uint32Array.from(values, (_, row) => row), column, false);
  const took = processorMs(began);
  assert.ok(order.every((row, at) => at === 0 || values[order[at - 1]!]! >= values[row]!));
  assert.ok(took < 1000, `${took} ms`);
});
