// Pointer, wheel and keys of the chart.

import type { Chart } from "./chart.ts";
import { byId } from "./dom.ts";
import type { MapInput } from "./mapinput.ts";
import type { Tip } from "./tip.ts";
import type { Tab, View } from "./view.ts";

/** A press that moves less is a click. */
const CLICK_PIXELS = 4;
const KEY_PAN = 0.15;
const KEY_ZOOM = 0.6;

type Drag =
  | { mode: "pan"; x: number; y: number; from: number; to: number; bottom: number; top: number | null }
  | { mode: "box"; x: number; y: number }
  | { mode: "pinch"; distance: number; from: number; to: number; fraction: number };

/** The keys of a tab, besides those of the window. */
export interface TabInput {
  readonly tab: Tab;
  /** What a key does there, if anything. */
  action(event: KeyboardEvent): (() => void) | undefined;
}

export class Input {
  private drag: Drag | null = null;
  private hasMoved = false;
  private readonly pointers = new Map<number, { x: number; y: number }>();

  constructor(
    private readonly view: View,
    private readonly chart: Chart,
    private readonly tip: Tip,
    private readonly mapInput: MapInput,
    private readonly inputs: readonly TabInput[],
    private readonly help: () => void,
  ) {
    const { root } = chart;
    root.addEventListener("pointerdown", (event) => { this.press(event); });
    root.addEventListener("pointermove", (event) => { this.move(event); });
    root.addEventListener("pointerup", (event) => { this.release(event); });
    root.addEventListener("pointercancel", (event) => { this.cancel(event); });
    root.addEventListener("pointerleave", () => {
      if (this.drag === null) this.point(null);
    });
    root.addEventListener("wheel", (event) => { this.wheel(event); }, { passive: false });
    root.addEventListener("dblclick", () => { view.reset(); });
    document.addEventListener("keydown", (event) => { this.key(event); });
  }

  private place(event: MouseEvent): { x: number; y: number } {
    const box = this.chart.root.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private point(cursor: { x: number; y: number } | null): void {
    this.chart.cursor = cursor;
    this.chart.plan();
    if (cursor === null) this.tip.hide();
    else void this.tip.hover();
  }

  private press(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { view, chart } = this;
    const at = this.place(event);
    this.pointers.set(event.pointerId, at);
    this.hasMoved = false;
    chart.root.setPointerCapture(event.pointerId);
    const [one, two] = [...this.pointers.values()];
    if (one !== undefined && two !== undefined) {
      this.hasMoved = true;
      this.drag = { mode: "pinch", distance: Math.max(10, Math.abs(one.x - two.x)), from: view.from, to: view.to,
        fraction: chart.scale.fraction((one.x + two.x) / 2) };
    } else if (event.shiftKey) this.drag = { mode: "box", ...at };
    else {
      this.drag = { mode: "pan", ...at, from: view.from, to: view.to, bottom: view.bottom_bytes, top: view.top_bytes };
    }
  }

  private move(event: PointerEvent): void {
    const { view, chart, drag } = this;
    const at = this.place(event);
    if (this.pointers.has(event.pointerId)) this.pointers.set(event.pointerId, at);
    if (drag === null) {
      this.point(at);
      return;
    }
    const { plot } = chart.scale;
    if (drag.mode === "pinch") {
      const [one, two] = [...this.pointers.values()];
      if (one === undefined || two === undefined) return;
      const factor = drag.distance / Math.max(10, Math.abs(one.x - two.x));
      const fixed = drag.from + (drag.to - drag.from) * drag.fraction;
      const length = (drag.to - drag.from) * factor;
      const fraction = chart.scale.fraction((one.x + two.x) / 2);
      view.setWindow(fixed - length * fraction, fixed + length * (1 - fraction));
      return;
    }
    if (!this.hasMoved && Math.hypot(at.x - drag.x, at.y - drag.y) < CLICK_PIXELS) return;
    this.hasMoved = true;
    this.tip.hide();
    chart.root.classList.toggle("dragging", drag.mode === "pan");
    if (drag.mode === "box") {
      chart.box = { x0: drag.x, y0: drag.y, x1: at.x, y1: at.y };
      chart.plan();
      return;
    }
    const by = ((drag.x - at.x) / plot.width) * (drag.to - drag.from);
    const from = Math.min(Math.max(0, drag.from + by), view.end - (drag.to - drag.from));
    if (drag.top !== null) {
      const high = drag.top - drag.bottom;
      const up = ((at.y - drag.y) / plot.height) * high;
      view.bottom_bytes = Math.min(Math.max(0, drag.bottom + up), Math.max(0, view.fullTop - high));
      view.top_bytes = view.bottom_bytes + high;
    }
    view.setWindow(from, from + (drag.to - drag.from));
  }

  private release(event: PointerEvent): void {
    const { drag, chart, view } = this;
    this.pointers.delete(event.pointerId);
    const at = this.place(event);
    chart.root.classList.remove("dragging");
    this.drag = null;
    if (drag === null) return;
    if (!this.hasMoved) {
      this.point(at);
      this.mark();
      void this.tip.pin();
    } else if (drag.mode === "box") {
      chart.box = null;
      this.zoomTo(drag, at);
    }
    if (event.pointerType !== "mouse" && this.hasMoved) this.point(null);
    view.changed("window");
  }

  private cancel(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    this.drag = null;
    this.chart.box = null;
    this.chart.root.classList.remove("dragging");
  }

  private zoomTo(a: { x: number; y: number }, b: { x: number; y: number }): void {
    const { view, chart } = this;
    const { scale } = chart;
    if (Math.abs(a.x - b.x) < CLICK_PIXELS) return;
    const position = (x: number): number => view.from + (view.to - view.from)
      * Math.min(Math.max(scale.fraction(x), 0), 1);
    const [from, to] = [position(Math.min(a.x, b.x)), position(Math.max(a.x, b.x))];
    // A flat box zooms in time only.
    if (Math.abs(a.y - b.y) > 24) {
      const [bottom, top] = [scale.bytes(Math.max(a.y, b.y)), scale.bytes(Math.min(a.y, b.y))];
      view.setHeight(bottom, top);
    }
    view.setWindow(from, to);
  }

  private wheel(event: WheelEvent): void {
    const { view, chart } = this;
    const { plot } = chart.scale;
    const { x, y } = this.place(event);
    if (x < plot.left || y > plot.top + plot.height) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan(((event.deltaX || event.deltaY) * unit) / plot.width);
      return;
    }
    view.zoom(Math.exp(Math.min(Math.max(event.deltaY * unit, -240), 240) * 0.0022), chart.scale.fraction(x));
    this.tip.hide();
  }

  private fraction(): number {
    const { cursor, scale } = this.chart;
    const fraction = cursor === null ? 0.5 : scale.fraction(cursor.x);
    return fraction >= 0 && fraction <= 1 ? fraction : 0.5;
  }

  /** Moves the cursor by a pixel, so that the keyboard reaches every column. */
  private step(by: number): void {
    const { cursor, scale } = this.chart;
    const { plot } = scale;
    const x = cursor === null ? plot.left + plot.width / 2 : cursor.x + by;
    this.point({ x: Math.min(Math.max(x, plot.left), plot.left + plot.width - 1),
      y: cursor?.y ?? plot.top + plot.height * 0.75 });
    this.mark();
  }

  /** Takes the cursor's moment over to the map. */
  private mark(): void {
    const { cursor } = this.chart;
    const moment = cursor === null ? null : this.chart.momentAt(cursor.x, cursor.y);
    if (moment !== null) this.view.setMoment(moment);
  }

  private climb(by: number): void {
    const { cursor, scale } = this.chart;
    const { plot } = scale;
    const x = cursor?.x ?? plot.left + plot.width / 2;
    const y = cursor === null ? plot.top + plot.height * 0.75 : cursor.y + by;
    this.point({ x, y: Math.min(Math.max(y, plot.top), plot.top + plot.height - 1) });
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      byId<HTMLDialogElement>("help").close();
      this.tip.clear();
      target.blur();
      return;
    }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const always: Record<string, () => void> = {
      "/": () => { byId("search").focus(); },
      "?": this.help,
      ...Object.fromEntries(this.view.tabs.map((tab, place) =>
        [String(place + 1), () => { this.view.selectTab(tab); }])),
    };
    const action = always[event.key] ?? this.tabAction(event, target);
    if (action === undefined) return;
    event.preventDefault();
    action();
  }

  private tabAction(event: KeyboardEvent, target: HTMLElement): (() => void) | undefined {
    const { view } = this;
    const ofTab = this.inputs.find((input) => input.tab === view.tab)?.action(event);
    if (ofTab !== undefined) return ofTab;
    return view.isOfMoment ? this.mapInput.action(event) : this.chartAction(event.key, target);
  }

  private chartAction(key: string, target: HTMLElement): (() => void) | undefined {
    const isInChart = target === this.chart.root || target === document.body || target.id === "minimap"
      || target.classList.contains("plot");
    const actions: Record<string, () => void> = {
      "0": () => { this.view.reset(); },
      "+": () => { this.view.zoom(KEY_ZOOM, this.fraction()); },
      "=": () => { this.view.zoom(KEY_ZOOM, this.fraction()); },
      "-": () => { this.view.zoom(1 / KEY_ZOOM, this.fraction()); },
      w: () => { this.view.zoom(KEY_ZOOM, this.fraction()); },
      s: () => { this.view.zoom(1 / KEY_ZOOM, this.fraction()); },
      a: () => { this.view.pan(-KEY_PAN); },
      d: () => { this.view.pan(KEY_PAN); },
      ",": () => { this.step(-1); },
      ".": () => { this.step(1); },
      "<": () => { this.step(-20); },
      ">": () => { this.step(20); },
      "[": () => { this.climb(4); },
      "]": () => { this.climb(-4); },
    };
    const inChart: Record<string, () => void> = {
      ArrowLeft: () => { this.view.pan(-KEY_PAN); },
      ArrowRight: () => { this.view.pan(KEY_PAN); },
      ArrowUp: () => { this.view.zoom(KEY_ZOOM, this.fraction()); },
      ArrowDown: () => { this.view.zoom(1 / KEY_ZOOM, this.fraction()); },
      Home: () => { this.view.setWindow(0, this.view.to - this.view.from); },
      End: () => { this.view.setWindow(this.view.end - (this.view.to - this.view.from), this.view.end); },
      Enter: () => { void this.tip.pin(); },
    };
    return actions[key] ?? (isInChart ? inChart[key] : undefined);
  }
}
