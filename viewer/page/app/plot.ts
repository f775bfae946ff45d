// A chart of stretches over the window: its axes, its cursor, its mouse and its keys.

import { drawAxes, line } from "./axes.ts";
import { css } from "./dom.ts";
import type { TabInput } from "./input.ts";
import { drawEvents } from "./lines.ts";
import { type Heights, Scale } from "./scale.ts";
import { clear } from "./surface.ts";
import type { Tab, View } from "./view.ts";

const TOP = 8;
const RIGHT = 2;
const AXIS_HEIGHT = 26;
/** A drag is longer. */
const CLICK_PIXELS = 4;

/** What a plot shows. */
export interface Painter {
  /** The highest bytes. */
  top(): number;
  paint(context: CanvasRenderingContext2D, scale: Scale): void;
  /** The cursor has moved. */
  follow(): void;
}

export class Plot implements TabInput {
  /** A place on the axis; null is none. */
  cursor: number | null = null;
  scale: Scale;
  private readonly canvas: HTMLCanvasElement;
  private drag: { x: number; from: number } | null = null;
  private planned = false;

  constructor(
    private readonly view: View,
    readonly root: HTMLElement,
    readonly tab: Tab,
    private readonly painter: Painter,
  ) {
    this.canvas = root.querySelector("canvas")!;
    this.scale = this.layout({ bottom_bytes: 0, top: 1 });
    new ResizeObserver(() => { this.update(); }).observe(root);
    root.addEventListener("pointerdown", (event) => {
      root.setPointerCapture(event.pointerId);
      this.drag = { x: event.offsetX, from: view.from };
    });
    root.addEventListener("pointermove", (event) => { this.move(event); });
    root.addEventListener("pointerup", () => { this.drag = null; });
    root.addEventListener("pointercancel", () => { this.drag = null; });
    root.addEventListener("pointerleave", () => { this.point(null); });
    root.addEventListener("dblclick", () => { view.reset(); });
    root.addEventListener("wheel", (event) => { this.wheel(event); }, { passive: false });
  }

  private layout(heights: Heights): Scale {
    const { clientWidth: width, clientHeight: height } = this.root;
    const left = width < 520 ? 58 : 74;
    return new Scale(this.view, { left, top: TOP, width: Math.max(10, width - left - RIGHT),
      height: Math.max(40, height - TOP - AXIS_HEIGHT) }, heights);
  }

  update(): void {
    if (this.view.tab !== this.tab || this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      this.draw();
    });
  }

  private draw(): void {
    const { root, canvas, cursor, painter } = this;
    const scale = this.layout({ bottom_bytes: 0, top: painter.top() });
    this.scale = scale;
    const context = clear(canvas, root.clientWidth, root.clientHeight);
    const { left, top, width, height } = scale.plot;
    drawAxes(context, scale);
    context.save();
    context.beginPath();
    context.rect(left, top - 2, width, height + 2);
    context.clip();
    painter.paint(context, scale);
    drawEvents(context, scale);
    if (cursor !== null) {
      context.strokeStyle = css("--cursor");
      context.lineWidth = 1;
      const x = Math.floor(scale.x(cursor)) + 0.5;
      line(context, x, top, x, top + height);
    }
    context.restore();
  }

  private move(event: PointerEvent): void {
    const { drag, view, scale } = this;
    if (drag !== null && Math.abs(event.offsetX - drag.x) > CLICK_PIXELS) {
      const from = drag.from - ((event.offsetX - drag.x) / scale.plot.width) * (view.to - view.from);
      view.setWindow(from, from + view.to - view.from);
    }
    this.point(scale.fraction(event.offsetX));
  }

  /** Puts the cursor at a fraction of the window; outside of it there is none. */
  private point(fraction: number | null): void {
    const { from, to } = this.view;
    const isInside = fraction !== null && fraction >= 0 && fraction <= 1;
    this.cursor = isInside ? from + fraction * (to - from) : null;
    this.painter.follow();
    this.update();
  }

  private wheel(event: WheelEvent): void {
    const { view, scale } = this;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan(((event.deltaX || event.deltaY) * unit) / scale.plot.width);
      return;
    }
    const power = Math.min(Math.max(event.deltaY * unit, -240), 240) * 0.0022;
    view.zoom(Math.exp(power), Math.min(Math.max(scale.fraction(event.offsetX), 0), 1));
  }

  /** Moves the cursor by pixels. */
  step(pixels: number): void {
    const { view, scale } = this;
    const { from, to } = view;
    const at = this.cursor ?? (from + to) / 2;
    const fraction = (at - from) / (to - from) + pixels / scale.plot.width;
    this.point(Math.min(Math.max(fraction, 0), 1));
  }

  /** What a key does here besides the keys of the window, if anything. */
  action(event: KeyboardEvent): (() => void) | undefined {
    const steps: Record<string, number> = { ",": -1, ".": 1, "<": -20, ">": 20 };
    const step = steps[event.key];
    return step === undefined ? undefined : () => { this.step(step); };
  }
}

/** The stretch of a place on the axis, between ascending edges; -1 outside of them. */
export function stretchAt(edges: readonly number[], place: number): number {
  if (edges.length < 2 || place < edges[0]! || place > edges.at(-1)!) return -1;
  let [low, high] = [0, edges.length - 2];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (edges[middle]! <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Adds the upper edge of stretches to a path, from the left or from the right. */
export function trace(context: CanvasRenderingContext2D, xs: readonly number[], y: (stretch: number) => number,
  isBack = false): void {
  const count = xs.length - 1;
  for (let i = 0; i < count; i++) {
    const at = isBack ? count - 1 - i : i;
    context.lineTo(xs[isBack ? at + 1 : at]!, y(at));
    context.lineTo(xs[isBack ? at : at + 1]!, y(at));
  }
}
