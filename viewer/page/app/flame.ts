// The flame graph: rectangles of the worker, with their texts.

import type { FlameRect, FlameReply, FlameRequest } from "../engine/protocol.ts";
import { byId, css, isDark, make } from "./dom.ts";
import { flameNote, rectText } from "./flamewords.ts";
import { Float, type Place } from "./float.ts";
import type { EngineLink } from "./link.ts";
import { clear, fitText } from "./surface.ts";
import { bytes } from "./units.ts";
import type { View } from "./view.ts";

export const ROW = 20;
/** Where the panel is hidden, a graph for the hook has this width. */
const WIDTH_HIDDEN = 800;

export class FlameGraph {
  reply: FlameReply | null = null;
  cursor: Place | null = null;
  readonly root = byId("flame-graph");
  private readonly canvas = byId<HTMLCanvasElement>("flame-picture");
  private readonly float: Float;
  private width = 0;

  constructor(
    private readonly view: View,
    private readonly link: EngineLink,
  ) {
    // Float does not wait for the worker here: a rectangle has all its texts.
    this.float = new Float(byId("flame-tip"), this, () => {
      const rect = this.cursor === null ? null : this.rectAt(this.cursor);
      return Promise.resolve(rect === null || this.reply === null ? null : rectText(rect, this.reply));
    });
    new ResizeObserver(() => {
      if (this.root.clientWidth !== this.width) this.update();
    }).observe(this.root);
    const of = byId<HTMLSelectElement>("flame-of");
    of.addEventListener("change", () => { view.setFlame({ of: of.value as FlameRequest["of"] }); });
    const by = byId<HTMLSelectElement>("flame-by");
    by.addEventListener("change", () => { view.setFlame({ by: by.value as FlameRequest["by"] }); });
    const inverted = byId<HTMLInputElement>("flame-inverted");
    inverted.addEventListener("change", () => { view.setFlame({ is_inverted: inverted.checked }); });
    const own = byId<HTMLInputElement>("flame-own");
    own.addEventListener("change", () => { view.setFlame({ is_own: own.checked }); });
    byId("flame-root").addEventListener("click", () => { view.setFlame({ zoom: [] }); });
  }

  update(): void {
    const { view } = this;
    if (view.tab !== "flame") return;
    const { of, by, is_inverted: isInverted, is_own: isOwn, zoom } = view.flame;
    const byField = byId<HTMLSelectElement>("flame-by");
    const hasModules = view.data.groupings.some(({ name }) => name === "module");
    byField.querySelector<HTMLOptionElement>("option[value=module]")!.disabled = !hasModules;
    byField.value = by;
    byId<HTMLSelectElement>("flame-of").value = of;
    byId<HTMLInputElement>("flame-inverted").checked = isInverted;
    byId<HTMLInputElement>("flame-own").checked = isOwn;
    byId("flame-root").hidden = zoom.length === 0;
    this.width = this.root.clientWidth;
    this.ask();
  }

  /** The graph of the present moment or window. */
  request(): FlameRequest {
    const { view } = this;
    const [from, to] = view.moments;
    return { device: view.device, ...view.flame, moment: view.at, from, to, query: view.query,
      width: this.root.clientWidth || WIDTH_HIDDEN, is_dark: isDark() };
  }

  ask(): void {
    if (!this.view.isEmpty) this.link.drawFlame(this.request());
  }

  show(reply: FlameReply): void {
    if (reply.request.device !== this.view.device) return;
    this.reply = reply;
    byId("flame-note").textContent = flameNote(this.view, reply);
    byId("flame-empty").textContent = reply.is_too_much
      ? "The window has too many allocations to add up here: zoom in." : reply.rects.length <= 1
        ? "No memory." : "";
    this.draw();
    if (this.cursor !== null) void this.float.hover();
  }

  forget(): void {
    this.reply = null;
    this.cursor = null;
    this.canvas.width = 1;
  }

  private draw(): void {
    const { reply, root } = this;
    if (reply === null) return;
    const rows = reply.rects.reduce((most, rect) => Math.max(most, rect.depth), 0) + 1;
    const height = Math.max(4, rows) * ROW;
    root.style.height = `${height}px`;
    const { width } = reply.request;
    const context = clear(this.canvas, width, height);
    context.textBaseline = "middle";
    const hovered = this.cursor === null ? null : this.rectAt(this.cursor);
    for (const rect of reply.rects) {
      const [x, y, wide] = [rect.x0, rect.depth * ROW, rect.x1 - rect.x0];
      context.fillStyle = `#${rect.colour.toString(16).padStart(6, "0")}`;
      context.fillRect(x, y, Math.max(0.6, wide - 1), ROW - 1);
      if (wide >= 24) {
        context.fillStyle = css("--ink");
        fitText(context, rect.label, x + 5, y + ROW / 2, wide - 9);
        drawBytes(context, rect, y);
      }
    }
    if (hovered === null) return;
    context.lineWidth = 1.5;
    context.strokeStyle = css("--ink");
    context.strokeRect(hovered.x0 + 0.75, hovered.depth * ROW + 0.75, Math.max(1, hovered.x1 - hovered.x0 - 2.5),
      ROW - 2.5);
  }

  point(cursor: Place | null): void {
    this.cursor = cursor;
    this.draw();
    if (cursor === null) this.float.hide();
    else void this.float.hover();
  }

  rectAt({ x, y }: Place): FlameRect | null {
    const depth = Math.floor(y / ROW);
    return this.reply?.rects.find((rect) => rect.depth === depth && x >= rect.x0 && x < rect.x1) ?? null;
  }

  /** Gives the rectangle under the cursor the full width; the one that has it already, its parent. */
  zoom(): void {
    const rect = this.cursor === null ? null : this.rectAt(this.cursor);
    if (rect === null || this.reply === null) return;
    this.view.setFlame({ zoom: this.path(rect) });
  }

  /** The frames from the root to a rectangle. */
  private path(rect: FlameRect): number[] {
    const path: number[] = [];
    for (let at: FlameRect | undefined = rect; at !== undefined && at.parent >= 0; at = this.reply?.rects[at.parent]) {
      path.unshift(at.frame);
    }
    return path;
  }

  /** Moves the cursor to the middle of a neighbour: in the row, to the parent or to the first child. */
  go(to: "left" | "right" | "up" | "down"): void {
    const rects = this.reply?.rects ?? [];
    const here = this.cursor === null ? null : this.rectAt(this.cursor);
    const row = (depth: number): FlameRect[] => rects.filter((rect) => rect.depth === depth)
      .sort((a, b) => a.x0 - b.x0);
    let next: FlameRect | undefined = rects[0];
    if (here !== null) {
      const beside = row(here.depth);
      const at = beside.indexOf(here);
      const place = rects.indexOf(here);
      next = to === "left" ? beside[at - 1] : to === "right" ? beside[at + 1] : to === "up" ? rects[here.parent]
        : row(here.depth + 1).find((rect) => rect.parent === place);
    }
    if (next !== undefined) this.point({ x: (next.x0 + next.x1) / 2, y: (next.depth + 0.5) * ROW });
  }

  /** The rectangle under the cursor in words, for a screen reader. */
  announce(): void {
    const rect = this.cursor === null ? null : this.rectAt(this.cursor);
    if (rect === null || this.reply === null) return;
    byId("flame-said").replaceChildren(...rectText(rect, this.reply).map((part) => make("span", "",
      part.textContent)));
  }
}

/** At the right end, where there is room. */
function drawBytes(context: CanvasRenderingContext2D, { label, bytes: size, x0, x1 }: FlameRect, y: number): void {
  const text = bytes(size);
  const wide = context.measureText(text).width;
  if (context.measureText(label).width + wide + 24 > x1 - x0) return;
  context.fillStyle = css("--dim");
  context.fillText(text, x1 - wide - 7, y + ROW / 2);
}
