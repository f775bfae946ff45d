// Segments over time: the picture of the worker under lanes and headings, in a view that scrolls.

import { FIRST_ID, type Info, type SegmentsReply, type SegmentsRequest } from "../engine/protocol.ts";
import { drawTimeAxis, line } from "./axes.ts";
import { describe } from "./describe.ts";
import { byId, css, isDark, make } from "./dom.ts";
import { Float, type Place } from "./float.ts";
import { drawLanes, lanesHeight } from "./lanebox.ts";
import { drawEvents } from "./lines.ts";
import type { EngineLink } from "./link.ts";
import type { Pinned } from "./pinned.ts";
import { Scale } from "./scale.ts";
import { segmentFigures, segmentHeading, segmentNote } from "./segmentwords.ts";
import { clear, pixelRatio } from "./surface.ts";
import { shortBytes } from "./units.ts";
import type { View } from "./view.ts";

const AXIS_HEIGHT = 26;
const TOP = 4;
/** Where the panel is hidden, a picture for the hook has this size. */
const HIDDEN = { width: 800, height: 400 };
const STRETCH_MOST = 64;
/** Strips of at least this height, in CSS pixels, have their size beside them. */
const TEXT_HEIGHT = 11;

export class Segments {
  reply: SegmentsReply | null = null;
  cursor: Place | null = null;
  scale: Scale;
  /** A part of the window that is being drawn for a zoom. */
  box: { x0: number; x1: number } | null = null;
  readonly root = byId("strips");
  readonly scroller = byId("strips-scroll");
  private readonly back = byId<HTMLCanvasElement>("strips-back");
  private readonly picture = byId<HTMLCanvasElement>("strips-picture");
  private readonly front = byId<HTMLCanvasElement>("strips-front");
  private readonly float: Float;
  private stretch = 1;
  private planned = false;

  constructor(
    private readonly view: View,
    private readonly link: EngineLink,
    private readonly pinned: Pinned,
  ) {
    this.scale = this.layout();
    this.float = new Float(byId("strips-tip"), this, async () => {
      const info = await this.info();
      return info === null ? null : describe(info, true);
    });
    new ResizeObserver(() => { this.update(); }).observe(this.root);
    this.scroller.addEventListener("scroll", () => {
      this.float.hide();
      this.update();
    });
  }

  private layout(): Scale {
    const { clientHeight: height } = this.root;
    const width = this.scroller.clientWidth;
    const left = width < 520 ? 58 : 74;
    const top = TOP + lanesHeight(this.view.lanes);
    return new Scale(this.view, { left, top, width: Math.max(10, (width || HIDDEN.width) - left - 2),
      height: Math.max(40, (height || HIDDEN.height) - top - AXIS_HEIGHT) });
  }

  update(): void {
    if (this.view.tab !== "segments") return;
    this.ask();
    this.plan();
  }

  request(): SegmentsRequest {
    const { view, scroller, scale: { plot } } = this;
    const ratio = pixelRatio();
    return { device: view.device, grouping: view.grouping, axis: view.axis, from: view.from, to: view.to, ratio,
      width: Math.round(plot.width * ratio), height: Math.round(plot.height * ratio), stretch: this.stretch,
      scroll: Math.round(scroller.scrollTop * ratio), is_dark: isDark(), query: view.query, lit: view.lit };
  }

  ask(): void {
    if (this.view.isEmpty) return;
    this.scale = this.layout();
    this.link.drawSegments(this.request());
  }

  plan(): void {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.draw();
    });
  }

  show(reply: SegmentsReply): void {
    const { device, grouping, axis, width, height, ratio } = reply.request;
    const { view } = this;
    if (device !== view.device || grouping !== view.grouping || axis !== view.axis) return;
    if (this.reply !== null) this.link.recycle(this.reply.ids.buffer);
    this.reply = reply;
    this.picture.width = width;
    this.picture.height = height;
    this.picture.getContext("2d")!.putImageData(new ImageData(reply.pixels, width, height), 0, 0);
    this.link.recycle(reply.pixels.buffer);
    const { plot } = this.scale;
    const around = this.scroller.clientHeight - plot.height;
    byId("strips-size").style.height = `${reply.content_height / ratio + around}px`;
    byId("strip-owners").replaceChildren(...reply.owners.map((owner) => {
      const heading = segmentHeading(owner, reply.numbers.moment);
      heading.style.top = `${owner.y / ratio}px`;
      return heading;
    }));
    byId("segments-figures").replaceChildren(...segmentFigures(reply).map(([name, value, note]) => (
      make("div", "", "", make("dt", "", name), make("dd", "", value), make("dd", "note", note)))));
    byId("segments-note").textContent = segmentNote(reply);
    byId("segments-empty").textContent = reply.is_missing ? "This page has no address ranges: write it again."
      : reply.numbers.segments === 0 ? "No segment is mapped in this window." : "";
    this.draw();
    if (this.cursor !== null) void this.float.hover();
  }

  forget(): void {
    this.reply = null;
    this.cursor = null;
    this.stretch = 1;
    this.scroller.scrollTop = 0;
    this.picture.width = 1;
    byId("strip-owners").replaceChildren();
    byId("segments-figures").replaceChildren();
  }

  /** Makes strips higher; what is at the cursor or in the middle stays there. */
  stretchBy(factor: number): void {
    const stretch = Math.min(Math.max(this.stretch * factor, 1), STRETCH_MOST);
    const { scroller, scale: { plot }, cursor } = this;
    const middle = cursor === null ? plot.height / 2 : Math.max(0, cursor.y - plot.top);
    const before = (this.reply?.content_height ?? 0) / pixelRatio();
    const grown = Math.max(plot.height, before) * (stretch / this.stretch);
    byId("strips-size").style.height = `${grown + scroller.clientHeight - plot.height}px`;
    scroller.scrollTop = ((scroller.scrollTop + middle) * grown) / Math.max(1, before) - middle;
    this.stretch = stretch;
    this.update();
  }

  private draw(): void {
    const { root, scale, view } = this;
    const { clientWidth: width, clientHeight: height } = root;
    const { left, top, width: wide, height: high } = scale.plot;
    const back = clear(this.back, width, height);
    drawTimeAxis(back, scale);
    drawLanes(back, scale, isDark(), TOP);
    this.drawSizes(back);
    this.placePicture();
    const front = clear(this.front, width, height);
    front.save();
    front.beginPath();
    front.rect(left, top - 2, wide, high + 2);
    front.clip();
    drawEvents(front, scale);
    front.restore();
    this.drawCursor(front);
    if (view.moment !== null) this.drawMark(front, scale.x(view.position(view.moment)));
  }

  /** The sizes of strips, where they do not overlap. */
  private drawSizes(context: CanvasRenderingContext2D): void {
    const { reply, scale: { plot } } = this;
    if (reply === null) return;
    const { ratio } = reply.request;
    context.fillStyle = css("--dim");
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const { y, height, size_bytes: size } of reply.strips) {
      const middle = plot.top + (y + height / 2) / ratio;
      if (height / ratio < TEXT_HEIGHT || middle < plot.top + 5 || middle > plot.top + plot.height - 5) continue;
      context.fillText(shortBytes(size), plot.left - 8, middle);
    }
  }

  /** The last picture, moved and stretched to where its window and its part in view are now. */
  private placePicture(): void {
    const { reply, scale, scroller, view } = this;
    const { left, top, width, height } = scale.plot;
    Object.assign(byId("strips-clip").style, { left: `${left}px`, top: `${top}px`, width: `${width}px`,
      height: `${height}px` });
    if (reply === null) return;
    const { request } = reply;
    const [x, wide] = [scale.x(request.from) - left, ((request.to - request.from) / (view.to - view.from)) * width];
    const y = reply.scroll / request.ratio - scroller.scrollTop;
    // A picture that is drawn for this plot has its size but for a part of a pixel.
    const ownWidth = request.width / request.ratio;
    const isFitting = Math.abs(x) < 0.01 && Math.abs(wide - ownWidth) < 1 && Math.abs(y) < 0.51;
    Object.assign(this.picture.style, { width: `${ownWidth}px`, height: `${request.height / request.ratio}px`,
      transform: isFitting ? "none" : `translate(${x}px, ${y}px) scale(${wide / ownWidth}, 1)` });
    byId("strip-owners").style.transform = isFitting ? "none" : `translateY(${y}px)`;
  }

  private drawCursor(context: CanvasRenderingContext2D): void {
    const { cursor, box, scale: { plot: { left, top, width, height } } } = this;
    if (box !== null) {
      context.fillStyle = css("--box");
      context.strokeStyle = css("--accent");
      const rect = [Math.min(box.x0, box.x1), top, Math.abs(box.x1 - box.x0), height] as const;
      context.fillRect(...rect);
      context.strokeRect(...rect);
    } else if (cursor !== null && cursor.x >= left && cursor.x < left + width) {
      context.strokeStyle = css("--cursor");
      const x = Math.floor(cursor.x) + 0.5;
      line(context, x, top, x, top + height);
    }
  }

  /** Where the moment of the address map is. */
  private drawMark(context: CanvasRenderingContext2D, x: number): void {
    const { left, top, width, height } = this.scale.plot;
    if (x < left || x > left + width) return;
    context.fillStyle = css("--accent");
    context.beginPath();
    context.moveTo(x, top + height);
    context.lineTo(x - 5, top + height + 7);
    context.lineTo(x + 5, top + height + 7);
    context.fill();
  }

  point(cursor: Place | null): void {
    this.cursor = cursor;
    this.plan();
    if (cursor === null) this.float.hide();
    else void this.float.hover();
  }

  /** The pixel under the cursor, if the picture is that of the window. */
  private pick(): { x: number; y: number; id: number } | null {
    const { reply, cursor, scale, view } = this;
    if (reply === null || cursor === null || !scale.isIn(cursor.x, cursor.y)) return null;
    const { request, ids } = reply;
    const { from, to, width, height, ratio } = request;
    if (from !== view.from || to !== view.to) return null;
    const x = Math.min(width - 1, Math.floor(scale.fraction(cursor.x) * width));
    const y = Math.min(height - 1, Math.floor((cursor.y - scale.plot.top) * ratio));
    return { x, y, id: ids[y * width + x] ?? 0 };
  }

  private async info(): Promise<Info | null> {
    const found = this.pick();
    return found === null || found.id < FIRST_ID ? null
      : this.link.segmentInfo(this.reply?.set ?? 0, found.x, found.y, found.id);
  }

  /** Takes the cursor's moment over to the views of one moment. */
  mark(): void {
    const moment = this.reply?.columns.moment[this.pick()?.x ?? -1];
    if (moment !== undefined) this.view.setMoment(moment);
  }

  async pin(): Promise<void> {
    const info = await this.info();
    if (info === null) this.pinned.clear();
    else this.pinned.show(info);
  }

  hide(): void {
    this.float.hide();
  }
}
