// Lines over the stack: reserved, capacity, out of memory, lost records.

import type { FrameReply } from "../engine/protocol.ts";
import { line } from "./axes.ts";
import { css } from "./dom.ts";
import type { Scale } from "./scale.ts";
import { textWidth } from "./surface.ts";
import { shortBytes } from "./units.ts";

/** CSS pixels at the left edge of each pixel column of a picture, in the window of now. */
export function columnsX(reply: FrameReply, scale: Scale): (x: number) => number {
  const { from, to, width } = reply.request;
  const left = scale.x(from);
  const step = (scale.x(to) - left) / width;
  return (x) => left + x * step;
}

export function drawReserved(context: CanvasRenderingContext2D, scale: Scale, reply: FrameReply): void {
  const { reservedMost, reservedLeast } = reply.columns;
  const at = columnsX(reply, scale);
  const count = reservedMost.length;
  context.beginPath();
  // Columns without a band have no area, and columns of one height are one step.
  for (let x = 0, from = 0; x < count; x++) {
    const [most, least] = [reservedMost[x]!, reservedLeast[x]!];
    if (reservedMost[x + 1] === most && reservedLeast[x + 1] === least) continue;
    if (most !== least) context.rect(at(from), scale.y(most), at(x + 1) - at(from), scale.y(least) - scale.y(most));
    from = x + 1;
  }
  context.fillStyle = css("--reserved-band");
  context.fill();
  const steps = new Path2D();
  for (let x = 0, from = 0; x < count; x++) {
    const most = reservedMost[x]!;
    if (x + 1 < count && reservedMost[x + 1] === most) continue;
    steps.lineTo(at(from), scale.y(most));
    steps.lineTo(at(x + 1), scale.y(most));
    from = x + 1;
  }
  for (const [colour, width] of [[css("--halo"), 3], [css("--reserved"), 1.4]] as const) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.stroke(steps);
  }
  // On the side of the line that keeps clear of the capacity's label.
  const y = scale.y(reservedMost[count - 1] ?? 0);
  const isClose = scale.view.hasCapacityLine && y - scale.y(scale.view.data.capacity_bytes ?? 0) < 30;
  label(context, scale, y, "reserved", css("--reserved"), isClose);
}

export function drawCapacity(context: CanvasRenderingContext2D, scale: Scale, capacity: number): void {
  drawLevel(context, scale, capacity, "capacity", [6, 4], false);
}

/** The most live bytes: no policy can reserve less. */
export function drawLowerBound(context: CanvasRenderingContext2D, scale: Scale, live: number): void {
  drawLevel(context, scale, live, "lower bound", [1.5, 3], true);
}

function drawLevel(context: CanvasRenderingContext2D, scale: Scale, level: number, name: string, dash: number[],
  isBelow: boolean): void {
  const y = Math.round(scale.y(level)) + 0.5;
  context.strokeStyle = css("--capacity");
  context.lineWidth = 1;
  context.setLineDash(dash);
  line(context, scale.plot.left, y, scale.plot.left + scale.plot.width, y);
  context.setLineDash([]);
  label(context, scale, y, `${name} ${shortBytes(level)}`, css("--capacity"), isBelow);
}

/** A word at the right end of a line, with a halo. */
function label(context: CanvasRenderingContext2D, scale: Scale, y: number, text: string, colour: string,
  isBelow: boolean): void {
  const { left, top, width, height } = scale.plot;
  if (y < top - 1 || y > top + height) return;
  const below = isBelow || y < top + 16;
  context.textAlign = "right";
  context.textBaseline = below ? "top" : "bottom";
  context.lineWidth = 3;
  context.strokeStyle = css("--halo");
  const [x, place] = [left + width - 6, below ? y + 3 : y - 3];
  context.strokeText(text, x, place);
  context.fillStyle = colour;
  context.fillText(text, x, place);
}

/** Vertical lines at out of memory and where records were lost; labels that would overlap are counted in one. */
export function drawEvents(context: CanvasRenderingContext2D, scale: Scale): void {
  const { left, top, width, height } = scale.plot;
  let free = -Infinity;
  let bundle: { x: number; texts: string[]; colour: string } | null = null;
  const flush = (): void => {
    if (bundle === null) return;
    const { x, texts, colour } = bundle;
    const text = texts.length === 1 ? texts[0]! : `${texts.length} × ${texts[0]!.split(" · ")[0]!}`;
    const wide = textWidth(context, text) + 10;
    const at = Math.min(Math.max(x + 4, free), left + width - wide);
    context.fillStyle = colour;
    context.beginPath();
    context.roundRect(at, top + 4, wide, 17, 3);
    context.fill();
    context.fillStyle = css("--halo-solid");
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, at + 5, top + 13);
    free = at + wide + 4;
    bundle = null;
  };
  for (const point of scale.view.lanes?.points ?? []) {
    if (point.kind !== "outOfMemory" && point.kind !== "lost") continue;
    const x = scale.moment(point.moment);
    if (x < left || x > left + width) continue;
    const isOut = point.kind === "outOfMemory";
    const colour = css(isOut ? "--alarm" : "--warning");
    const text = isOut ? `out of memory · ${shortBytes(point.bytes)} requested` : "records lost";
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.setLineDash(isOut ? [] : [3, 3]);
    line(context, x, top, x, top + height);
    context.setLineDash([]);
    if (bundle !== null && (x - bundle.x > 120 || bundle.colour !== colour)) flush();
    if (bundle === null) bundle = { x, texts: [text], colour };
    else bundle.texts.push(text);
  }
  flush();
}
