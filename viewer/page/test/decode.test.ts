import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeBands, decodeSeries } from "../format/columns.ts";
import { inflate } from "../format/inflate.ts";
import { decodeLives, NO_END } from "../format/lives.ts";
import { ArrayReader, ChunkError } from "../format/varint.ts";
import { ArrayWriter, pack } from "./encode.ts";

test("arrays come back as they were written", () => {
  const plain = [0, 1, 127, 128, 300, 2 ** 31, 2 ** 53 - 1];
  const signed = [0, -1, 1, -64, 2 ** 40, -(2 ** 40)];
  const bytes = [2 ** 30, 512, 0, 2 ** 35];
  const writer = new ArrayWriter().plain(plain).rising([3, 3, 1000]).signed(signed).plainBytes(bytes).deltaBytes(bytes);
  const reader = new ArrayReader(writer.bytes, "test");
  assert.deepEqual([...reader.plain()], plain);
  assert.deepEqual([...reader.rising()], [3, 3, 1000]);
  assert.deepEqual([...reader.signed()], signed);
  assert.deepEqual([...reader.plainBytes()], bytes);
  assert.deepEqual([...reader.deltaBytes()], bytes);
  assert.ok(reader.isAtEnd);
});

test("a cut or overlong chunk is an error that names it", () => {
  const { bytes } = new ArrayWriter().plain([1, 2, 300]);
  for (let length = 0; length < bytes.length; length++) {
    assert.throws(() => new ArrayReader(bytes.subarray(0, length), "d0/x").plain(), ChunkError);
  }
  const long = Uint8Array.from([0xff, 0xff, 0xff, 0x7f]);
  assert.throws(() => new ArrayReader(long, "d0/x").plain(), /d0\/x: has an array/);
  assert.throws(() => new ArrayReader(new Uint8Array(20).fill(0xff), "d0/x").number(), /2\^53|middle of a number/);
});

test("base64 and gzip are taken off, and damage is named", async () => {
  assert.deepEqual(await inflate("d0/x", ` ${pack(Uint8Array.from([1, 2, 3]))}\n`), Uint8Array.from([1, 2, 3]));
  await assert.rejects(inflate("d0/x", "%%%"), /d0\/x: is not base64/);
  const cut = pack("hello, this is long enough to be cut").slice(0, 40);
  await assert.rejects(inflate("d0/x", cut), /d0\/x: is not a gzip/);
});

test("bands add their changes to the columns before", () => {
  const writer = new ArrayWriter().rising([2, 5, 9]).plainBytes([1024, 0, 512], 512).plain([2, 0, 1])
    .plain([0, 2, 1]).signed([-1, 3, 4]);
  const tile = decodeBands("d0/x", writer.bytes);
  assert.deepEqual([...tile.groups], [2, 5, 9]);
  assert.deepEqual([...tile.bytes], [1024, 0, 512, 512, 0, 2048, 512, 0, 2048, 512, 2048, 2048]);
});

test("contradicting bands are refused", () => {
  const bands = (which: number[], change: number[], counts: number[]): Uint8Array => new ArrayWriter().rising([2, 5])
    .plainBytes([512, 0], 512).plain(counts).plain(which).signed(change).bytes;
  assert.throws(() => decodeBands("d0/x", bands([2], [1], [1])), /changes group 2 of 2/);
  assert.throws(() => decodeBands("d0/x", bands([0], [-2], [1])), /-512 bytes/);
  assert.throws(() => decodeBands("d0/x", bands([0], [1], [2])), /fewer changes/);
  assert.throws(() => decodeBands("d0/x", bands([0], [1], [0])), /more changes/);
});

test("series of different lengths are refused", () => {
  const writer = new ArrayWriter().plain([0, 0]);
  for (let i = 0; i < 9; i++) writer.deltaBytes(i === 4 ? [1] : [1, 2]);
  assert.throws(() => decodeSeries("d0/x", writer.bytes), /d0\/x: has an array of 1 beside one of 2/);
});

test("lives have absolute moments, and addresses by kind", () => {
  const writer = new ArrayWriter().rising([0, 4, 4]).plain([7, 0, 2]).plain([1, 0, 1]).number(3).number(512)
    .number(2 * 1000).number(2 * 5).number(1).rising([0]);
  const node = decodeLives("d0/lives/0/2", writer.bytes, 512);
  assert.deepEqual([...node.start], [512, 516, 516]);
  assert.deepEqual([...node.end], [519, NO_END, 518]);
  assert.deepEqual([...node.address], [512_000, 2560, 511_488]);
  assert.deepEqual([...node.isOlder], [1, 0, 0]);
});
