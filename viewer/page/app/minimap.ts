// The whole run in small, with the window on it.

import type { FromEngine } from "../engine/protocol.ts";
import { byId, css } from "./dom.ts";
import type { Chart } from "./chart.ts";
import { clear, pixelRatio } from "./surface.ts";
import type { View } from "./view.ts";

const HEIGHT = 44;
/** A drag that begins so near to an end of the window moves this end. */
const GRIP = 8;

type Series = FromEngine & { type: "minimap" };

export class Minimap {
  private series: Series | null = null;
  private readonly canvas = byId<HTMLCanvasElement>("minimap");
  private drag: { part: "from" | "to" | "both"; x: number; from: number; to: number } | null = null;
  private wanted = "";
  private areas = new WeakMap<Float64Array, Path2D>();
  private areasFor = "";
  /** Of the series that was asked for last. */
  private width = 0;

  constructor(
    private readonly view: View,
    private readonly chart: Chart,
    private readonly segments: Pick<Chart, "scale">,
    private readonly ask: (width: number) => void,
  ) {
    this.canvas.addEventListener("pointerdown", (event) => {
      this.press(event);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      this.move(event);
    });
    for (const name of ["pointerup", "pointercancel"] as const) {
      this.canvas.addEventListener(name, () => {
        this.drag = null;
      });
    }
  }

  show(series: Series): void {
    const { view, width } = this;
    if (series.device !== view.device || series.axis !== view.axis || series.allocated.length !== width) return;
    this.series = series;
    this.draw();
  }

  private get box(): { left: number; width: number } {
    const { tab } = this.view;
    if (tab !== "timeline" && tab !== "segments") {
      return { left: 6, width: Math.max(10, this.canvas.parentElement!.clientWidth - 40) };
    }
    const { left, width } = (tab === "segments" ? this.segments : this.chart).scale.plot;
    return { left, width };
  }

  private x(position: number): number {
    return this.box.left + (position / this.view.end) * this.box.width;
  }

  draw(): void {
    const { view, series, box } = this;
    const key = `${view.device} ${view.axis} ${Math.round(box.width * pixelRatio())}`;
    if (key !== this.wanted && !view.isEmpty) {
      this.wanted = key;
      this.width = Math.round(box.width * pixelRatio());
      this.ask(this.width);
    }
    this.canvas.hidden = view.isEmpty || view.tab === "ranks";
    const width = box.left + box.width + 2;
    const context = clear(this.canvas, width, HEIGHT);
    const isCurrent = series?.device === view.device && series.axis === view.axis;
    if (isCurrent) this.drawSeries(context, series);
    if (view.isOfMoment) this.drawMoment(context);
    else this.drawWindow(context);
  }

  /** The moment that the map shows. */
  private drawMoment(context: CanvasRenderingContext2D): void {
    const { view, canvas } = this;
    const x = this.x(view.position(view.at));
    context.fillStyle = css("--accent");
    context.fillRect(x - 1, 0, 2, HEIGHT);
    context.beginPath();
    context.roundRect(x - 4, HEIGHT / 2 - 10, 8, 20, 4);
    context.fill();
    canvas.setAttribute("aria-label", "Moment");
    canvas.setAttribute("aria-valuemax", String(view.data.moments - 1));
    canvas.setAttribute("aria-valuenow", String(view.at));
    canvas.setAttribute("aria-valuetext", `moment ${view.at}`);
  }

  private drawWindow(context: CanvasRenderingContext2D): void {
    const { view, box } = this;
    const [x0, x1] = [this.x(view.from), Math.max(this.x(view.to), this.x(view.from) + 3)];
    context.fillStyle = css("--shade");
    context.fillRect(box.left, 0, x0 - box.left, HEIGHT);
    context.fillRect(x1, 0, box.left + box.width - x1, HEIGHT);
    context.strokeStyle = css("--accent");
    context.lineWidth = 1.5;
    context.beginPath();
    context.roundRect(x0 + 0.75, 0.75, Math.max(2, x1 - x0 - 1.5), HEIGHT - 1.5, 3);
    context.stroke();
    context.fillStyle = css("--accent");
    for (const x of [x0, x1]) {
      context.beginPath();
      context.roundRect(x - 2.5, HEIGHT / 2 - 8, 5, 16, 2.5);
      context.fill();
    }
    this.canvas.setAttribute("aria-label", "Window on the whole run");
    this.canvas.setAttribute("aria-valuemax", "100");
    this.canvas.setAttribute("aria-valuenow", String(Math.round((50 * (view.from + view.to)) / view.end)));
    this.canvas.setAttribute("aria-valuetext", view.isWhole ? "the whole run"
      : `${Math.round((100 * view.from) / view.end)} to ${Math.round((100 * view.to) / view.end)} percent of the run`);
  }

  private drawSeries(context: CanvasRenderingContext2D, series: Series): void {
    const { view } = this;
    for (const [values, colour] of [[series.reserved, css("--map-reserved")], [series.allocated,
      css("--map-allocated")]] as const) {
      context.fillStyle = colour;
      context.fill(this.area(values));
    }
    context.fillStyle = css("--alarm");
    for (const point of view.lanes?.points ?? []) {
      if (point.kind === "outOfMemory") context.fillRect(this.x(view.position(point.moment)) - 0.75, 0, 1.5, HEIGHT);
    }
  }

  /** What is below a series: made once, as a path for each picture would be garbage. */
  private area(values: Float64Array): Path2D {
    const { box, view } = this;
    const key = `${box.left} ${box.width} ${view.fullTop}`;
    if (key !== this.areasFor) this.areas = new WeakMap();
    this.areasFor = key;
    const known = this.areas.get(values);
    if (known !== undefined) return known;
    const path = new Path2D();
    const step = box.width / Math.max(1, values.length);
    path.moveTo(box.left, HEIGHT);
    values.forEach((bytes, i) => {
      const y = HEIGHT - (bytes / view.fullTop) * (HEIGHT - 2);
      path.lineTo(box.left + i * step, y);
      path.lineTo(box.left + (i + 1) * step, y);
    });
    path.lineTo(box.left + box.width, HEIGHT);
    this.areas.set(values, path);
    return path;
  }

  private setMoment(x: number): void {
    const { view, box } = this;
    const fraction = Math.min(Math.max((x - box.left) / box.width, 0), 1);
    view.setMoment(Math.floor(view.momentAt(fraction * view.end)));
  }

  private press(event: PointerEvent): void {
    const { view } = this;
    const x = event.offsetX;
    if (view.isOfMoment) {
      this.drag = { part: "both", x, from: view.from, to: view.to };
      this.canvas.setPointerCapture(event.pointerId);
      this.setMoment(x);
      return;
    }
    const [x0, x1] = [this.x(view.from), this.x(view.to)];
    if (x < x0 - GRIP || x > x1 + GRIP) {
      const at = ((x - this.box.left) / this.box.width) * view.end;
      const half = (view.to - view.from) / 2;
      view.setWindow(at - half, at + half);
    }
    const part = Math.abs(x - x0) < GRIP && Math.abs(x - x0) <= Math.abs(x - x1) ? "from"
      : Math.abs(x - x1) < GRIP ? "to" : "both";
    this.drag = { part, x, from: view.from, to: view.to };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const { drag, view } = this;
    const x = event.offsetX;
    if (view.isOfMoment) {
      this.canvas.style.cursor = "ew-resize";
      if (drag !== null) this.setMoment(x);
      return;
    }
    const isEnd = Math.min(Math.abs(x - this.x(view.from)), Math.abs(x - this.x(view.to))) < GRIP;
    this.canvas.style.cursor = isEnd ? "ew-resize" : "grab";
    if (drag === null) return;
    const by = ((x - drag.x) / this.box.width) * view.end;
    if (drag.part === "both") {
      const from = Math.min(Math.max(0, drag.from + by), view.end - (drag.to - drag.from));
      view.setWindow(from, from + (drag.to - drag.from));
    } else if (drag.part === "from") view.setWindow(Math.min(drag.from + by, drag.to), drag.to);
    else view.setWindow(drag.from, Math.max(drag.to + by, drag.from));
  }
}
