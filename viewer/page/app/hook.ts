// `window.vramtape`: what tests and the speed script read.

import type { FlameReply, FrameReply, MapNumbers, MapReply, SegmentNumbers, SegmentsReply, Stack,
} from "../engine/protocol.ts";
import type { TableReply } from "../engine/tableprotocol.ts";
import type { AddressMap } from "./addressmap.ts";
import type { Chart } from "./chart.ts";
import type { FlameGraph } from "./flame.ts";
import type { EngineLink } from "./link.ts";
import type { Ranks } from "./ranks.ts";
import type { Segments } from "./segments.ts";
import type { Strategies } from "./strategies.ts";
import type { TableView } from "./tableview.ts";
import type { Tab, View } from "./view.ts";
import type { Waste } from "./waste.ts";

/** Frames whose times are kept. */
const TIMES_MAX = 10_000;
/** A question about a column waits so long for the picture of the window. */
const SETTLE_MS = 5000;

export interface Hook {
  /** What is shown, as JSON. */
  state(): Record<string, unknown>;
  /** The stack at a fraction of the window, from the decoded data that the picture was drawn from. */
  columnAt(fraction: number): Promise<Stack | null>;
  /** Milliseconds that the engine took for each picture since the last call. */
  frameTimes(): number[];
  /** Sets the window, in units of the axis. */
  setWindow(from: number, to: number): void;
  /** Shows a view: the name of its tab. */
  setView(tab: Tab): void;
  /** Sets the moment of the address map; null is the peak. */
  setMoment(moment: number | null): void;
  /** The numbers of the address map, from the decoded data that it is drawn from; null in a page without ranges. */
  map(): Promise<MapNumbers | null>;
  /** The flame graph, as it is drawn at the present moment or window; null where there is none. */
  flame(): Promise<FlameReply | null>;
  /** Segments over time, from the decoded data that they are drawn from: bytes in the strips at each column's moment.
   * Null in a page without ranges. */
  segments(): Promise<SegmentsSeen | null>;
  /** Milliseconds that the engine took for each picture of segments since the last call. */
  segmentTimes(): number[];
  /** The rows of the table in view, at the present moment or window; null where there are none. */
  table(): Promise<TableReply | null>;
  /** The places of the devices in the header, in the order of their cards. */
  ranks(): number[];
  /** The parts of reserved memory that the shown plot has at a moment. */
  waste(moment: number): ReturnType<Waste["at"]>;
  /** The rows of the shown plot of strategies, at a moment. */
  strategies(moment: number): ReturnType<Strategies["at"]>;
  /** Milliseconds that the engine took for each map since the last call. */
  mapTimes(): number[];
}

export interface SegmentsSeen {
  numbers: SegmentNumbers;
  moment: number[];
  allocated: number[];
  reserved: number[];
  /** Pixels of the view that show blocks and ranges, and all of them. */
  pixels: number;
  all_pixels: number;
}

declare global {
  interface Window {
    vramtape?: Hook;
  }
}

export class HookState {
  private times: number[] = [];
  private mapTimes: number[] = [];
  private map: MapReply | null = null;
  private flame: FlameReply | null = null;
  private segments: SegmentsReply | null = null;
  private segmentTimes: number[] = [];
  private table: TableReply | null = null;
  private shown: FrameReply | null = null;

  constructor(view: View, chart: Chart, map: AddressMap, flame: FlameGraph, segments: Segments, table: TableView,
    ranks: Ranks, waste: Waste, strategies: Strategies, link: EngineLink) {
    window.vramtape = {
      state: () => ({
        view: view.tab, moment: view.at, device: view.device,
        grouping: view.data.groupings[view.grouping]?.name ?? "", axis: view.axis,
        from: view.from, to: view.to, end: view.end, query: view.query, lit: view.lit,
        detail: this.shown?.detail ?? { mode: "none" }, waiting: this.shown?.waiting ?? 0,
        drawn: this.shown === null ? null : { from: this.shown.request.from, to: this.shown.request.to },
        peak: this.shown?.peak ?? null, legend: this.shown?.legend ?? [], is_in_page: link.isInPage,
        plot: { ...chart.scale.plot }, top_bytes: view.top, stack_pixels: this.stackPixels(),
      }),
      columnAt: async (fraction) => {
        await settled(() => this.isDrawn(view));
        return link.stack(fraction);
      },
      frameTimes: () => {
        const { times } = this;
        this.times = [];
        return times;
      },
      setWindow: (from, to) => {
        view.setWindow(from, to);
      },
      setView: (tab) => {
        view.selectTab(tab);
      },
      setMoment: (moment) => {
        view.setMoment(moment);
      },
      map: async () => {
        const isDrawn = (): boolean => JSON.stringify(this.map?.request) === JSON.stringify(map.request());
        map.ask();
        await settled(isDrawn);
        return isDrawn() && this.map?.is_missing === false ? this.map.numbers : null;
      },
      flame: async () => {
        const isDrawn = (): boolean => JSON.stringify(this.flame?.request) === JSON.stringify(flame.request());
        flame.ask();
        await settled(isDrawn);
        return isDrawn() ? this.flame : null;
      },
      segments: async () => {
        segments.ask();
        const wanted = JSON.stringify(segments.request());
        await settled(() => this.segments?.waiting === 0 && JSON.stringify(this.segments.request) === wanted);
        const reply = this.segments;
        if (reply === null || reply.is_missing || JSON.stringify(reply.request) !== wanted) return null;
        const { numbers, ids, columns: { moment, allocated, reserved } } = reply;
        return { numbers, moment: [...moment], allocated: [...allocated], reserved: [...reserved],
          pixels: ids.reduce((sum, id) => sum + (id > 0 ? 1 : 0), 0), all_pixels: ids.length };
      },
      segmentTimes: () => {
        const { segmentTimes } = this;
        this.segmentTimes = [];
        return segmentTimes;
      },
      table: async () => {
        const isShown = (): boolean => JSON.stringify(this.table?.request) === JSON.stringify(table.request());
        table.update();
        await settled(isShown);
        return isShown() ? this.table : null;
      },
      ranks: () => ranks.places,
      waste: (moment) => waste.at(moment),
      strategies: (moment) => strategies.at(moment),
      mapTimes: () => {
        const { mapTimes } = this;
        this.mapTimes = [];
        return mapTimes;
      },
    };
  }

  /** Pixels of the picture that show memory. */
  private stackPixels(): number {
    let pixels = 0;
    for (const id of this.shown?.ids ?? []) if (id !== 0) pixels++;
    return pixels;
  }

  /** Whether the window is drawn from all of its chunks. */
  private isDrawn(view: View): boolean {
    return this.shown?.waiting === 0 && this.shown.request.from === view.from && this.shown.request.to === view.to
      && this.shown.request.grouping === view.grouping && this.shown.request.device === view.device
      && this.shown.request.axis === view.axis;
  }

  showMap(reply: MapReply): void {
    this.map = reply;
    if (this.mapTimes.length < TIMES_MAX) this.mapTimes.push(reply.took_ms);
  }

  showFlame(reply: FlameReply): void {
    this.flame = reply;
  }

  showSegments(reply: SegmentsReply): void {
    this.segments = reply;
    if (this.segmentTimes.length < TIMES_MAX) this.segmentTimes.push(reply.took_ms);
  }

  showTable(reply: TableReply): void {
    this.table = reply;
  }

  show(reply: FrameReply): void {
    this.shown = reply;
    if (this.times.length < TIMES_MAX) this.times.push(reply.took_ms);
  }
}

/** Waits until a picture is drawn, if it can be. */
async function settled(isDrawn: () => boolean): Promise<void> {
  const until = performance.now() + SETTLE_MS;
  while (!isDrawn() && performance.now() < until) await new Promise((next) => { setTimeout(next, 10); });
}
