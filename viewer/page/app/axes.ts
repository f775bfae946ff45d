// Axes and grid lines.

import { css } from "./dom.ts";
import type { Scale } from "./scale.ts";
import { textWidth } from "./surface.ts";
import { count, duration, shortBytes, tickStep, unitOf } from "./units.ts";

export function drawAxes(context: CanvasRenderingContext2D, scale: Scale): void {
  const { plot, heights } = scale;
  const { left, top, width, height } = plot;
  context.lineWidth = 1;
  context.strokeStyle = css("--grid");
  context.fillStyle = css("--dim");
  const range = heights.top - heights.bottom_bytes;
  const step = tickStep(range, Math.min(8, Math.max(2, height / 56)), true);
  // One unit for all ticks: the largest in which quarters of it are enough.
  const largest = unitOf(heights.top);
  const unit = Number.isInteger((4 * step) / 1024 ** largest) ? largest : unitOf(step);
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (let at = Math.ceil(heights.bottom_bytes / step) * step; at <= heights.top; at += step) {
    const y = Math.round(scale.y(at)) + 0.5;
    line(context, left, y, left + width, y);
    if (y > top + 4) context.fillText(at === 0 ? "0" : shortBytes(at, unit), left - 8, Math.min(y, top + height - 2));
  }
  drawTimeAxis(context, scale);
}

/** The axis of moments or time, and its grid. */
export function drawTimeAxis(context: CanvasRenderingContext2D, scale: Scale): void {
  const { view, plot } = scale;
  const { left, top, width, height } = plot;
  context.lineWidth = 1;
  context.strokeStyle = css("--grid");
  context.fillStyle = css("--dim");
  const isTime = view.axis === "time";
  const length = view.to - view.from;
  const xStep = Math.max(isTime ? 1 : 1, tickStep(length, width / 110, false));
  context.textBaseline = "top";
  let free = -Infinity;
  for (let at = Math.ceil(view.from / xStep) * xStep; at <= view.to; at += xStep) {
    const x = Math.round(scale.x(at)) + 0.5;
    line(context, x, top, x, top + height + 4);
    const text = isTime ? duration(at, xStep) : count(at);
    const half = textWidth(context, text) / 2;
    const middle = Math.min(Math.max(x, left + half - 8), left + width - half);
    if (middle - half < free) continue;
    context.textAlign = "center";
    context.fillText(text, middle, top + height + 7);
    free = middle + half + 10;
  }
  context.strokeStyle = css("--axis");
  line(context, left, top + height + 0.5, left + width, top + height + 0.5);
}

export function line(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}
