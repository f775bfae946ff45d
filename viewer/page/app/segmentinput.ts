// Pointer, wheel and keys of segments over time.

import { byId } from "./dom.ts";
import type { Place } from "./float.ts";
import type { TabInput } from "./input.ts";
import type { Segments } from "./segments.ts";
import type { View } from "./view.ts";

/** A press that moves less is a click. */
const CLICK_PIXELS = 4;
const KEY_PAN = 0.15;
const KEY_ZOOM = 0.6;
const STRETCH = 1.5;

export class SegmentInput implements TabInput {
  readonly tab = "segments";
  private drag: { isBox: boolean; at: Place; from: number; to: number; scroll: number } | null = null;
  private hasMoved = false;

  constructor(
    private readonly view: View,
    private readonly segments: Segments,
  ) {
    const { scroller } = segments;
    scroller.addEventListener("pointerdown", (event) => { this.press(event); });
    scroller.addEventListener("pointermove", (event) => { this.move(event); });
    scroller.addEventListener("pointerup", (event) => { this.release(event); });
    scroller.addEventListener("pointercancel", () => { this.end(); });
    scroller.addEventListener("pointerleave", () => {
      if (this.drag === null) segments.point(null);
    });
    scroller.addEventListener("wheel", (event) => { this.wheel(event); }, { passive: false });
    scroller.addEventListener("dblclick", () => { view.reset(); });
    byId("strips-higher").addEventListener("click", () => { segments.stretchBy(STRETCH); });
    byId("strips-lower").addEventListener("click", () => { segments.stretchBy(1 / STRETCH); });
  }

  private place(event: MouseEvent): Place {
    const box = this.segments.root.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  private press(event: PointerEvent): void {
    const { view, segments: { scroller } } = this;
    const at = this.place(event);
    // The scroll bar is not part of the picture.
    if (event.button !== 0 || at.x >= scroller.clientWidth) return;
    this.hasMoved = false;
    this.drag = { isBox: event.shiftKey, at, from: view.from, to: view.to, scroll: scroller.scrollTop };
    scroller.setPointerCapture(event.pointerId);
  }

  private move(event: PointerEvent): void {
    const { view, drag, segments } = this;
    const at = this.place(event);
    if (drag === null) {
      segments.point(at);
      return;
    }
    if (!this.hasMoved && Math.hypot(at.x - drag.at.x, at.y - drag.at.y) < CLICK_PIXELS) return;
    this.hasMoved = true;
    segments.hide();
    segments.root.classList.toggle("dragging", !drag.isBox);
    if (drag.isBox) {
      segments.box = { x0: drag.at.x, x1: at.x };
      segments.plan();
      return;
    }
    segments.scroller.scrollTop = drag.scroll + drag.at.y - at.y;
    const length = drag.to - drag.from;
    const by = ((drag.at.x - at.x) / segments.scale.plot.width) * length;
    const from = Math.min(Math.max(0, drag.from + by), view.end - length);
    view.setWindow(from, from + length);
  }

  private release(event: PointerEvent): void {
    const { drag, segments, view } = this;
    const at = this.place(event);
    this.end();
    if (drag === null) return;
    if (!this.hasMoved) {
      segments.point(at);
      segments.mark();
      void segments.pin();
    } else if (drag.isBox && Math.abs(at.x - drag.at.x) >= CLICK_PIXELS) {
      const position = (x: number): number => view.from + (view.to - view.from)
        * Math.min(Math.max(segments.scale.fraction(x), 0), 1);
      view.setWindow(position(Math.min(at.x, drag.at.x)), position(Math.max(at.x, drag.at.x)));
    }
    if (event.pointerType !== "mouse" && this.hasMoved) segments.point(null);
  }

  private end(): void {
    this.drag = null;
    this.segments.box = null;
    this.segments.root.classList.remove("dragging");
    this.segments.plan();
  }

  private wheel(event: WheelEvent): void {
    const { view, segments } = this;
    const { plot } = segments.scale;
    const { x } = this.place(event);
    // Beside the picture, the wheel scrolls.
    if (x < plot.left || x > plot.left + plot.width) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    if (event.altKey) segments.stretchBy(Math.exp(-event.deltaY * unit * 0.0022));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan(((event.deltaX || event.deltaY) * unit) / plot.width);
    } else {
      view.zoom(Math.exp(Math.min(Math.max(event.deltaY * unit, -240), 240) * 0.0022), segments.scale.fraction(x));
    }
    segments.hide();
  }

  /** Moves the cursor by pixels, and scrolls where it leaves the view. */
  private step(x: number, y: number): void {
    const { segments } = this;
    const { left, top, width, height } = segments.scale.plot;
    const at = segments.cursor ?? { x: left + width / 2, y: top + height / 2 };
    const next = { x: at.x + x, y: at.y + y };
    const beyond = Math.min(0, next.y - top) + Math.max(0, next.y - (top + height - 1));
    segments.scroller.scrollTop += beyond;
    segments.point({ x: Math.min(Math.max(next.x, left), left + width - 1), y: next.y - beyond });
    segments.mark();
  }

  /** What a key does here, if anything. */
  action(event: KeyboardEvent): (() => void) | undefined {
    const { view, segments } = this;
    const { cursor, scale, scroller } = segments;
    const fraction = cursor === null ? 0.5 : Math.min(Math.max(scale.fraction(cursor.x), 0), 1);
    const zoom = (factor: number) => (): void => { view.zoom(factor, fraction); };
    const page = scale.plot.height * 0.8;
    const actions: Record<string, () => void> = {
      "0": () => { view.reset(); },
      "+": zoom(KEY_ZOOM), "=": zoom(KEY_ZOOM), w: zoom(KEY_ZOOM), "-": zoom(1 / KEY_ZOOM), s: zoom(1 / KEY_ZOOM),
      e: () => { segments.stretchBy(STRETCH); },
      q: () => { segments.stretchBy(1 / STRETCH); },
      ",": () => { this.step(-1, 0); },
      ".": () => { this.step(1, 0); },
      "<": () => { this.step(-20, 0); },
      ">": () => { this.step(20, 0); },
      "[": () => { this.step(0, 4); },
      "]": () => { this.step(0, -4); },
    };
    const inView: Record<string, () => void> = {
      ArrowLeft: () => { view.pan(-KEY_PAN); },
      ArrowRight: () => { view.pan(KEY_PAN); },
      ArrowUp: zoom(KEY_ZOOM),
      ArrowDown: zoom(1 / KEY_ZOOM),
      Home: () => { view.setWindow(0, view.to - view.from); },
      End: () => { view.setWindow(view.end - (view.to - view.from), view.end); },
      PageUp: () => { scroller.scrollTop -= page; },
      PageDown: () => { scroller.scrollTop += page; },
      Enter: () => { void segments.pin(); },
    };
    const target = event.target as HTMLElement;
    const isIn = target === scroller || target === document.body;
    return actions[event.key] ?? (isIn ? inView[event.key] : undefined);
  }
}
