// Memory over time: the picture of the worker between axes, lanes and lines.

import { EDGE, type FrameReply, type FrameRequest } from "../engine/protocol.ts";
import { drawAxes, line } from "./axes.ts";
import { byId, css, isDark } from "./dom.ts";
import { drawEnvelopes, envelopeAt } from "./envelopes.ts";
import { drawLanes, type Drawn, LANE_HEIGHT, lanesHeight } from "./lanebox.ts";
import { drawCapacity, drawEvents, drawLowerBound, drawReserved } from "./lines.ts";
import { Scale } from "./scale.ts";
import { clear, pixelRatio } from "./surface.ts";
import type { View } from "./view.ts";

const AXIS_HEIGHT = 26;
const RIGHT = 2;
const TOP = 4;

export class Chart {
  reply: FrameReply | null = null;
  scale: Scale;
  lanes: Drawn[] = [];
  /** Where the pointer or the keyboard's cursor is, in CSS pixels of the chart. */
  cursor: { x: number; y: number } | null = null;
  /** A box that is being drawn for a zoom. */
  box: { x0: number; y0: number; x1: number; y1: number } | null = null;
  readonly root = byId("chart");
  private readonly back = byId<HTMLCanvasElement>("back");
  private readonly picture = byId<HTMLCanvasElement>("picture");
  private readonly front = byId<HTMLCanvasElement>("front");
  private readonly clip = byId("clip");
  private planned = false;

  constructor(
    readonly view: View,
    private readonly ask: (request: FrameRequest) => void,
    private readonly recycle: (...buffers: ArrayBuffer[]) => void,
  ) {
    this.scale = this.layout();
    new ResizeObserver(() => {
      this.update();
    }).observe(this.root);
  }

  private layout(): Scale {
    const { clientWidth: width, clientHeight: height } = this.root;
    const left = width < 520 ? 58 : 74;
    const top = TOP + lanesHeight(this.view.lanes);
    return new Scale(this.view, { left, top, width: Math.max(10, width - left - RIGHT),
      height: Math.max(40, height - top - AXIS_HEIGHT) });
  }

  /** Draws what is known, and asks for a picture of the window. */
  update(): void {
    if (this.view.tab !== "timeline") return;
    this.scale = this.layout();
    const { plot } = this.scale;
    const { view } = this;
    const ratio = pixelRatio();
    if (!view.isEmpty) {
      this.ask({
        device: view.device, grouping: view.grouping, axis: view.axis, from: view.from, to: view.to,
        bottom_bytes: view.bottom_bytes, top_bytes: view.top, width: Math.round(plot.width * ratio),
        height: Math.round(plot.height * ratio), is_dark: isDark(), query: view.query, lit: view.lit,
      });
    }
    this.plan();
  }

  plan(): void {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.draw();
    });
  }

  show(reply: FrameReply): void {
    const { device, grouping, axis } = reply.request;
    if (device !== this.view.device || grouping !== this.view.grouping || axis !== this.view.axis) return;
    if (this.reply !== null) this.recycle(this.reply.ids.buffer, this.reply.columns.moment.buffer);
    this.reply = reply;
    const { width, height } = reply.request;
    if (this.picture.width !== width || this.picture.height !== height) {
      this.picture.width = width;
      this.picture.height = height;
    }
    this.picture.getContext("2d")!.putImageData(new ImageData(reply.pixels, width, height), 0, 0);
    this.recycle(reply.pixels.buffer);
    this.draw();
  }

  forget(): void {
    this.reply = null;
    this.picture.width = 1;
  }

  private draw(): void {
    const { clientWidth: width, clientHeight: height } = this.root;
    const { scale, view } = this;
    const back = clear(this.back, width, height);
    drawAxes(back, scale);
    this.lanes = drawLanes(back, scale, isDark(), TOP);
    this.placePicture();
    this.drawFront(clear(this.front, width, height), view);
  }

  /** The last picture, moved and stretched to where its window is now. */
  private placePicture(): void {
    const { reply, scale } = this;
    const { plot, view } = scale;
    Object.assign(this.clip.style, { left: `${plot.left}px`, top: `${plot.top}px`, width: `${plot.width}px`,
      height: `${plot.height}px` });
    if (reply === null) return;
    const { request } = reply;
    const left = scale.x(request.from) - plot.left;
    const top = scale.y(request.top_bytes) - plot.top;
    const wide = ((request.to - request.from) / (view.to - view.from)) * plot.width;
    const high = ((request.top_bytes - request.bottom_bytes) / (view.top - view.bottom_bytes)) * plot.height;
    const isFitting = Math.abs(left) < 0.01 && Math.abs(wide - plot.width) < 0.01 && Math.abs(top) < 0.01;
    Object.assign(this.picture.style, {
      width: `${plot.width}px`, height: `${plot.height}px`,
      transform: isFitting && Math.abs(high - plot.height) < 0.01 ? "none"
        : `translate(${left}px, ${top}px) scale(${wide / plot.width}, ${high / plot.height})`,
    });
  }

  private drawFront(context: CanvasRenderingContext2D, view: View): void {
    const { scale, reply, cursor, box } = this;
    const { left, top, width, height } = scale.plot;
    context.save();
    context.beginPath();
    context.rect(left, top - 2, width, height + 2);
    context.clip();
    if (reply !== null) {
      const at = cursor === null ? null : envelopeAt(scale, reply, cursor);
      drawEnvelopes(context, scale, reply, [at, view.lit]);
      drawReserved(context, scale, reply);
    }
    if (view.data.peaks.live_bytes > 0) drawLowerBound(context, scale, view.data.peaks.live_bytes);
    if (view.hasCapacityLine) drawCapacity(context, scale, view.data.capacity_bytes ?? 0);
    drawEvents(context, scale);
    context.restore();
    if (view.moment !== null) this.drawMark(context, scale.x(view.position(view.moment)));
    if (box !== null) {
      context.fillStyle = css("--box");
      context.strokeStyle = css("--accent");
      context.lineWidth = 1;
      const rect = [Math.min(box.x0, box.x1), Math.min(box.y0, box.y1), Math.abs(box.x1 - box.x0),
        Math.abs(box.y1 - box.y0)] as const;
      context.fillRect(...rect);
      context.strokeRect(...rect);
    } else if (cursor !== null && cursor.x >= left && cursor.x < left + width) {
      context.strokeStyle = css("--cursor");
      context.lineWidth = 1;
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

  /** The moment that a place of the chart shows, if the picture is that of the window. */
  momentAt(x: number, y: number): number | null {
    const found = this.pick(x, y);
    return found === null ? null : this.reply?.columns.moment[found.x] ?? null;
  }

  /** The pixel column and the id under a place of the chart, if the picture is that of the window. */
  pick(x: number, y: number): { x: number; id: number } | null {
    const { reply, scale, view } = this;
    if (reply === null || !scale.isIn(x, y)) return null;
    const { request, ids } = reply;
    const isSame = request.from === view.from && request.to === view.to && request.top_bytes === view.top;
    if (!isSame) return null;
    const column = Math.min(request.width - 1, Math.floor(scale.fraction(x) * request.width));
    const row = Math.min(request.height - 1, Math.floor(((y - scale.plot.top) / scale.plot.height) * request.height));
    return { x: column, id: ((ids[column * request.height + row] ?? 0) & ~EDGE) >>> 0 };
  }

  laneAt(x: number, y: number): Drawn | null {
    return this.lanes.find((one) => x >= one.x0 && x < one.x1 && y >= one.y && y < one.y + LANE_HEIGHT) ?? null;
  }
}
