// Pointer and keys of the address map.

import type { AddressMap } from "./addressmap.ts";
import { byId } from "./dom.ts";
import type { Place } from "./float.ts";
import type { View } from "./view.ts";

const STEP_LARGE = 100;
const ZOOM = 2;

export class MapInput {
  constructor(
    private readonly view: View,
    private readonly map: AddressMap,
  ) {
    const { root } = map;
    const place = (event: MouseEvent): Place => {
      const box = root.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    root.addEventListener("pointermove", (event) => { map.point(place(event)); });
    root.addEventListener("pointerleave", () => { map.point(null); });
    root.addEventListener("click", (event) => {
      map.point(place(event));
      void map.pin();
    });
    root.addEventListener("wheel", (event) => {
      // Without a key, the wheel scrolls the page.
      if (!event.altKey) return;
      event.preventDefault();
      map.zoomBy(event.deltaY < 0 ? ZOOM : 1 / ZOOM, place(event));
    }, { passive: false });
    byId("map-finer").addEventListener("click", () => { map.zoomBy(ZOOM, map.cursor); });
    byId("map-coarser").addEventListener("click", () => { map.zoomBy(1 / ZOOM, map.cursor); });
  }

  /** What a key does here, if anything. */
  action(event: KeyboardEvent): (() => void) | undefined {
    const { view, map } = this;
    const isComma = event.key === "," || event.code === "Comma" || event.key === "<";
    if (isComma || event.key === "." || event.code === "Period" || event.key === ">") {
      const by = event.shiftKey || event.key === "<" || event.key === ">" ? STEP_LARGE : 1;
      return () => { view.setMoment(view.at + (isComma ? -by : by)); };
    }
    if (event.key === "0") return () => { view.setMoment(null); };
    const zoom = { "+": ZOOM, "=": ZOOM, e: ZOOM, "-": 1 / ZOOM, q: 1 / ZOOM }[event.key];
    if (zoom !== undefined && view.tab === "map") return () => { map.zoomBy(zoom, map.cursor); };
    const target = event.target as HTMLElement;
    if (target.id === "minimap") {
      const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -STEP_LARGE, PageDown: STEP_LARGE,
        Home: -Infinity, End: Infinity }[event.key];
      return by === undefined ? undefined : () => { view.setMoment(view.at + by); };
    }
    if (target !== map.root && target !== document.body) return undefined;
    const actions: Record<string, () => void> = {
      ArrowLeft: () => { this.along(-1); },
      ArrowRight: () => { this.along(1); },
      ArrowUp: () => { this.toRow(-1); },
      ArrowDown: () => { this.toRow(1); },
      Enter: () => { void map.pin(); },
    };
    return actions[event.key];
  }

  /** To the next block or hole, in the same row or the next one that has one. */
  private along(by: 1 | -1): void {
    const { reply, cursor } = this.map;
    if (reply === null || reply.ids.length === 0) return;
    const { ids, request: { width, ratio } } = reply;
    const row = cursor === null ? null : this.map.rowAt(cursor.y);
    let at = cursor === null || row === null ? -1 : row * width + Math.floor(cursor.x * ratio);
    const id = ids[at] ?? 0;
    do at += by; while (at >= 0 && at < ids.length && (ids[at] === id || ids[at] === 0));
    if (at >= 0 && at < ids.length) this.go(Math.floor(at / width), ((at % width) + 0.5) / ratio);
  }

  private toRow(by: 1 | -1): void {
    const { reply, cursor } = this.map;
    if (reply === null || reply.rows.length === 0) return;
    const row = (cursor === null ? null : this.map.rowAt(cursor.y)) ?? -1;
    const next = Math.min(Math.max(row + by, 0), reply.rows.length - 1);
    const { width, ratio } = reply.request;
    const line = reply.ids.subarray(next * width, (next + 1) * width);
    let x = Math.min(Math.floor((cursor?.x ?? 0) * ratio), width - 1);
    // A row that is shorter ends before: its last thing is the nearest one.
    while (x > 0 && line[x] === 0) x--;
    if (line[x] === 0) x = line.findIndex((id) => id !== 0);
    this.go(next, (x + 0.5) / ratio);
  }

  private go(row: number, x: number): void {
    const { rows, row_height: high, request: { ratio } } = this.map.reply!;
    this.map.point({ x, y: (rows[row]! + high / 2) / ratio });
  }
}
