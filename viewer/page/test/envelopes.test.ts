import assert from "node:assert/strict";
import { test } from "node:test";
import { EDGE, ENVELOPE, FIRST_ID, type FrameReply, NOTHING } from "../engine/protocol.ts";
import { Bench } from "./bench.ts";
import { ArrayWriter } from "./encode.ts";
import { type PageData, pageData } from "./pagedata.ts";
import { training } from "./training.ts";

const TAPE = training(400_000);
const STEP = 2 ** 26;
const PLAIN = pageData(TAPE);
const MOMENTS = PLAIN.header.devices[0]!.moments;
const LABELS = [...new Set(TAPE.categories)];

/** The data of a run whose categories are pools; the bytes of each at each moment, and the height of its envelope. */
function enveloped(): { data: PageData; labels: string[]; bytes: Float64Array[]; heights: Float64Array[] } {
  const header = structuredClone(PLAIN.header);
  const device = header.devices[0]!;
  device.groupings[1]!.quantity = "envelope";
  const labels = labelsInOrder();
  const bytes = labels.map(() => new Float64Array(MOMENTS));
  for (const life of TAPE.lives) {
    const of = bytes[labels.indexOf(TAPE.categories[life.stack]!)]!;
    of[life.start]! += life.size;
    if (life.end !== null) of[life.end]! -= life.size;
  }
  for (const of of bytes) for (let m = 1; m < MOMENTS; m++) of[m]! += of[m - 1]!;
  const heights = bytes.map((of, group) => {
    let height = 0;
    return of.map((now) => (group === 0 ? 0 : height = Math.max(height, Math.ceil(now / STEP) * STEP)));
  });
  const changes: [number, number, number][] = [];
  for (let m = 0; m < MOMENTS; m++) {
    heights.forEach((of, group) => {
      const more = of[m]! - (m > 0 ? of[m - 1]! : 0);
      if (more > 0) changes.push([m, group, more]);
    });
  }
  const text = new ArrayWriter().rising(changes.map(([moment]) => moment)).plain(changes.map(([, group]) => group))
    .plainBytes(changes.map(([,, more]) => more)).text;
  const all = bytes[0]!.map((first, m) => heights.reduce((sum, of) => sum + of[m]!, first));
  device.peaks.enveloped_bytes = all.reduce((a, b) => Math.max(a, b), 0);
  const chunks = new Map(PLAIN.chunks).set("d0/envelopes", text);
  return { data: { ...PLAIN, header, chunks }, labels, bytes, heights };
}

/** The categories in the order of the page's groups. */
function labelsInOrder(): string[] {
  const mean = (label: string): number => {
    let [weight, sum] = [0, 0];
    for (const life of TAPE.lives) {
      if (TAPE.categories[life.stack] !== label) continue;
      weight += life.size * ((life.end ?? MOMENTS) - life.start);
      sum += life.size;
    }
    return weight / sum;
  };
  const used = LABELS.filter((label) => TAPE.lives.some((life) => TAPE.categories[life.stack] === label));
  return used.sort((a, b) => mean(b) - mean(a));
}

const { data: DATA, labels, bytes: BYTES, heights: HEIGHTS } = enveloped();
const PEAK = DATA.header.devices[0]!.peaks.enveloped_bytes;

function idsFromBottom(reply: FrameReply, x: number): number[] {
  const { height } = reply.request;
  return Array.from({ length: height }, (_, row) => (reply.ids[(x + 1) * height - 1 - row]! & ~EDGE) >>> 0);
}

for (const [from, to, mode] of [[0, MOMENTS, "bands"], [20_000, 60_000, "blocks"], [5_000, 5_060, "blocks"]] as const) {
  test(`blocks lie in the envelopes of their pools: moments ${from} to ${to}`, async () => {
    const bench = new Bench(DATA);
    const reply = await bench.frame({ from, to, grouping: 1, top_bytes: PEAK, height: 400 });
    assert.deepEqual(bench.faults, []);
    assert.equal(reply.detail.mode, mode);
    const { width, height } = reply.request;
    const row = (bytes: number): number => Math.min(height, Math.floor((bytes * height) / PEAK + 0.5));
    for (let x = 0; x < width; x += 3) {
      const moment = reply.columns.moment[x]!;
      const ids = idsFromBottom(reply, x);
      let base = 0;
      labels.forEach((_, group) => {
        const used = BYTES[group]![moment]!;
        const top = base + (group === 0 ? used : HEIGHTS[group]![moment]!);
        for (let at = row(base); at < row(base + used); at++) {
          assert.ok(ids[at]! >= FIRST_ID && ids[at]! < ENVELOPE, `a block of group ${group} at column ${x}, row ${at}`);
        }
        for (let at = row(base + used); at < row(top); at++) {
          assert.equal(ids[at], ENVELOPE + group, `room of group ${group} at column ${x}, row ${at}`);
        }
        const shape = reply.envelopes.find((one) => one.group === group);
        assert.equal(shape?.bottom[x], group === 0 ? undefined : base);
        assert.equal(shape?.top[x], group === 0 ? undefined : top);
        base = top;
      });
      assert.equal(ids[row(base)] ?? NOTHING, NOTHING, "nothing lies above the last envelope");
    }
  });
}

test("the room of an envelope and a block in it name the pool and its height", async () => {
  const bench = new Bench(DATA);
  const reply = await bench.frame({ from: 20_000, to: 60_000, grouping: 1, top_bytes: PEAK, height: 400 });
  const x = 120;
  const moment = reply.columns.moment[x]!;
  const seen = new Set<string>();
  for (const id of new Set(idsFromBottom(reply, x))) {
    if (id < FIRST_ID) continue;
    const info = await bench.info(reply, x, id);
    const group = labels.indexOf(info!.label);
    assert.equal(info!.group, group);
    assert.equal(info!.envelope_bytes, group === 0 ? undefined : HEIGHTS[group]![moment]);
    assert.equal(info!.group_bytes, BYTES[group]![moment]);
    seen.add(info!.kind);
  }
  assert.deepEqual([...seen].sort(), ["block", "envelope"]);
});

test("other groupings have no envelopes", async () => {
  const reply = await new Bench(DATA).frame({ grouping: 0 });
  assert.deepEqual(reply.envelopes, []);
  assert.ok(!reply.ids.some((id) => ((id & ~EDGE) >>> 0) >= ENVELOPE));
});

test("an envelope of a group that does not exist is a fault of its chunk", async () => {
  const text = new ArrayWriter().rising([5]).plain([99]).plainBytes([512]).text;
  const bench = new Bench({ ...DATA, chunks: new Map(DATA.chunks).set("d0/envelopes", text) });
  const reply = await bench.frame({ grouping: 1 });
  assert.match(bench.faults.join(), /^d0\/envelopes: has group 99 of \d+/);
  assert.deepEqual(reply.envelopes, []);
});
