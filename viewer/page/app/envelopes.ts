// The borders of the envelopes of private pools.

import type { EnvelopeShape, FrameReply } from "../engine/protocol.ts";
import { css } from "./dom.ts";
import { columnsX } from "./lines.ts";
import type { Scale } from "./scale.ts";

/** As in PyTorch's viewer. */
const BORDER_PIXELS = 3;
const CHOSEN_BORDER_PIXELS = 5;

/** Columns that have the envelope; it begins where its pool begins. */
function begin({ bottom, top }: EnvelopeShape): number {
  return top.findIndex((bytes, x) => bytes > bottom[x]!);
}

/** The group of the envelope at a place, null where there is none. */
export function envelopeAt(scale: Scale, reply: FrameReply, at: { x: number; y: number }): number | null {
  if (!scale.isIn(at.x, at.y)) return null;
  const x = Math.min(reply.request.width - 1, Math.floor(scale.fraction(at.x) * reply.request.width));
  const found = reply.envelopes.find(({ bottom, top }) => (
    at.y <= scale.y(bottom[x]!) && at.y >= scale.y(top[x]!) && top[x]! > bottom[x]!));
  return found?.group ?? null;
}

/** Draws the border of each envelope, a wider one if it is pointed at or pinned. */
export function drawEnvelopes(context: CanvasRenderingContext2D, scale: Scale, reply: FrameReply,
  chosen: readonly (number | null)[]): void {
  const at = columnsX(reply, scale);
  context.strokeStyle = css("--ink");
  context.lineJoin = "round";
  for (const shape of reply.envelopes) {
    const { bottom, top, group } = shape;
    const first = begin(shape);
    context.beginPath();
    for (let x = first; x < top.length; x++) {
      const y = scale.y(top[x]!);
      if (x === first || top[x] !== top[x - 1]) context.lineTo(at(x), y);
      if (x === top.length - 1 || top[x + 1] !== top[x]) context.lineTo(at(x + 1), y);
    }
    for (let x = top.length - 1; x >= first; x--) {
      const y = scale.y(bottom[x]!);
      if (x === top.length - 1 || bottom[x + 1] !== bottom[x]) context.lineTo(at(x + 1), y);
      if (x === first || bottom[x - 1] !== bottom[x]) context.lineTo(at(x), y);
    }
    context.closePath();
    context.lineWidth = chosen.includes(group) ? CHOSEN_BORDER_PIXELS : BORDER_PIXELS;
    context.stroke();
  }
}
