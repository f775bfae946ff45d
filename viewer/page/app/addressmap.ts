// The address map: the picture of the worker between headings, with numbers above it.

import { FIRST_ID, type Info, type MapReply, type MapRequest } from "../engine/protocol.ts";
import { describe } from "./describe.ts";
import { byId, css, isDark, make } from "./dom.ts";
import { Float, type Place } from "./float.ts";
import type { EngineLink } from "./link.ts";
import { mapFigures, mapNote, ownerHeading } from "./mapwords.ts";
import type { Pinned } from "./pinned.ts";
import { clear, pixelRatio } from "./surface.ts";
import { bytes } from "./units.ts";
import type { View } from "./view.ts";

/** The part of the window that the map fills, and its least and most height in CSS pixels. */
const WINDOW_PART = 0.56;
const HEIGHT_LEAST = 300;
const HEIGHT_MOST = 900;
/** Where the panel is hidden, a map for the hook has this width. */
const WIDTH_HIDDEN = 800;
/** Rows of at least this height, in CSS pixels, have room for text. */
const TEXT_HEIGHT = 14;

function leastHeight(): number {
  return Math.min(HEIGHT_MOST, Math.max(HEIGHT_LEAST, window.innerHeight * WINDOW_PART));
}

export class AddressMap {
  reply: MapReply | null = null;
  cursor: Place | null = null;
  readonly root = byId("map");
  private readonly picture = byId<HTMLCanvasElement>("map-picture");
  private readonly lines = document.createElement("canvas");
  private readonly front = byId<HTMLCanvasElement>("map-front");
  private readonly owners = byId("owners");
  private readonly float: Float;
  private width = 0;
  /** What a zoom keeps at its place in the window: an id, the part of its rows that are above, and its height. */
  private anchor: { id: number; part: number; y: number } | null = null;

  constructor(
    private readonly view: View,
    private readonly link: EngineLink,
    private readonly pinned: Pinned,
  ) {
    this.float = new Float(byId("map-tip"), this, async () => {
      const info = await this.info();
      return info === null ? null : describe(info, true);
    });
    new ResizeObserver(() => {
      if (this.root.clientWidth !== this.width) this.update();
    }).observe(this.root);
  }

  update(): void {
    const { view } = this;
    if (view.tab !== "map") return;
    byId("map-empty").textContent = byId("empty").textContent;
    this.width = this.root.clientWidth;
    this.ask();
  }

  /** The map of the view's moment. */
  request(): MapRequest {
    const { view } = this;
    const ratio = pixelRatio();
    const width = this.root.clientWidth || WIDTH_HIDDEN;
    return { device: view.device, grouping: view.grouping, moment: view.at, ratio, width: Math.round(width * ratio),
      height: Math.round(leastHeight() * view.mapZoom * ratio), is_dark: isDark(), query: view.query, lit: view.lit };
  }

  ask(): void {
    if (this.view.isEmpty) return;
    this.root.style.minHeight = `${leastHeight()}px`;
    this.link.drawMap(this.request());
  }

  show(reply: MapReply): void {
    const { request: { ratio, device, grouping }, height } = reply;
    if (device !== this.view.device || grouping !== this.view.grouping) return;
    this.reply = reply;
    this.drawPicture(reply);
    this.link.recycle(reply.pixels.buffer);
    this.root.style.height = `${Math.ceil(height / ratio)}px`;
    this.owners.replaceChildren(...reply.owners.map((owner) => {
      const heading = ownerHeading(owner);
      heading.style.top = `${owner.y / ratio}px`;
      return heading;
    }));
    byId("map-figures").replaceChildren(...mapFigures(reply).map(([name, value, note]) => (
      make("div", "", "", make("dt", "", name), make("dd", "", value), make("dd", "note", note)))));
    byId("map-note").textContent = mapNote(reply);
    byId("map-empty").textContent = reply.is_missing ? "This page has no address ranges: write it again."
      : reply.numbers.ranges === 0 ? "Nothing is reserved at this moment." : "";
    this.restore(reply);
    this.drawFront();
    if (this.cursor !== null) void this.float.hover();
  }

  /** Makes the map higher or lower: a row is fewer or more bytes. The row of the thing at a place stays there. */
  zoomBy(factor: number, at: Place | null): void {
    const id = at === null ? 0 : this.pick(at);
    if (at !== null && id >= FIRST_ID) {
      const rows = this.rowsOf(id);
      this.anchor = { id, part: rows.indexOf(this.rowAt(at.y) ?? -1) / rows.length, y: at.y };
    }
    this.view.setMapZoom(this.view.mapZoom * factor);
  }

  private rowsOf(id: number): number[] {
    const { reply } = this;
    if (reply === null) return [];
    const { rows, ids, request: { width } } = reply;
    return Array.from(rows.keys()).filter((row) => ids.subarray(row * width, (row + 1) * width).includes(id));
  }

  private restore({ rows, row_height: high, request: { ratio } }: MapReply): void {
    const { anchor, cursor } = this;
    this.anchor = null;
    if (anchor === null) return;
    const found = this.rowsOf(anchor.id);
    const row = found[Math.floor(anchor.part * found.length)];
    if (row === undefined) return;
    const y = (rows[row]! + high / 2) / ratio;
    window.scrollBy(0, y - anchor.y);
    if (cursor !== null) this.cursor = { x: cursor.x, y };
  }

  /** Stretches the lines of each row to its height. */
  private drawPicture({ request: { width, ratio }, height, pixels, rows, row_height: high, frame_height: thin }:
  MapReply): void {
    const context = clear(this.picture, width / ratio, height / ratio);
    if (rows.length === 0) return;
    const { lines } = this;
    lines.width = width;
    lines.height = 2 * rows.length;
    lines.getContext("2d")!.putImageData(new ImageData(pixels, width, lines.height), 0, 0);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.imageSmoothingEnabled = false;
    rows.forEach((y, row) => {
      context.drawImage(lines, 0, 2 * row, width, 1, 0, y - thin, width, high + 2 * thin);
      context.clearRect(0, y, width, high);
      context.drawImage(lines, 0, 2 * row + 1, width, 1, 0, y, width, high);
    });
  }

  forget(): void {
    this.anchor = null;
    this.reply = null;
    this.cursor = null;
    this.picture.width = 1;
    this.owners.replaceChildren();
    byId("map-figures").replaceChildren();
  }

  point(cursor: Place | null): void {
    this.cursor = cursor;
    this.drawFront();
    if (cursor === null) this.float.hide();
    else void this.float.hover();
  }

  /** The row under a height in CSS pixels; null between rows. */
  rowAt(y: number): number | null {
    const { reply } = this;
    if (reply === null) return null;
    const at = y * reply.request.ratio;
    const row = reply.rows.findLastIndex((top) => top <= at);
    return row >= 0 && at < reply.rows[row]! + reply.row_height ? row : null;
  }

  /** The id of the block or hole under a place, 0 for none. */
  pick({ x, y }: Place): number {
    const { reply } = this;
    const row = this.rowAt(y);
    if (reply === null || row === null) return 0;
    const { width, ratio } = reply.request;
    const column = Math.floor(x * ratio);
    return column >= 0 && column < width ? reply.ids[row * width + column]! : 0;
  }

  private async info(): Promise<Info | null> {
    const { cursor, reply } = this;
    const id = cursor === null ? 0 : this.pick(cursor);
    return id < FIRST_ID || reply === null ? null : this.link.mapInfo(reply.set, id);
  }

  async pin(): Promise<void> {
    const info = await this.info();
    if (info === null) this.pinned.clear();
    else this.pinned.show(info);
  }

  /** Outlines what is under the cursor, in every row that shows it. */
  private drawFront(): void {
    const { reply, cursor } = this;
    if (reply === null) return;
    const { request: { width, ratio }, ids, rows, row_height: high } = reply;
    const context = clear(this.front, width / ratio, reply.height / ratio);
    drawLabels(context, reply);
    const id = cursor === null ? 0 : this.pick(cursor);
    if (id < FIRST_ID) return;
    context.lineWidth = 2;
    context.strokeStyle = css("--ink");
    rows.forEach((y, row) => {
      const line = ids.subarray(row * width, (row + 1) * width);
      const [from, to] = [line.indexOf(id), line.lastIndexOf(id) + 1];
      if (from < 0) return;
      context.strokeRect(from / ratio - 1, y / ratio - 1, (to - from) / ratio + 2, high / ratio + 2);
    });
  }
}

/** The sizes of large holes. */
function drawLabels(context: CanvasRenderingContext2D, reply: MapReply): void {
  const { labels, rows, row_height: high, request: { ratio } } = reply;
  if (high / ratio < TEXT_HEIGHT) return;
  context.fillStyle = css("--dim");
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const { from, to, row, bytes: size } of labels) {
    context.fillText(bytes(size), (from + to) / 2 / ratio, (rows[row]! + high / 2) / ratio + 0.5);
  }
}
