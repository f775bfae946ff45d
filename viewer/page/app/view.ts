// The window on the data and the choices of the user.

import { type Device, type Header, isOfBlocks } from "../format/header.ts";
import { Clock } from "../engine/clock.ts";
import type { Lanes } from "../engine/lanes.ts";
import type { Axis, FlameRequest } from "../engine/protocol.ts";
import { PLAIN_ROWS, type TableRequest } from "../engine/tableprotocol.ts";

/** Room above the highest thing that is drawn. */
const HEADROOM = 1.06;
/** A capacity above this many times the peak would flatten the stack. */
const CAPACITY_SHOWN = 1.5;
/** The narrowest windows. */
const MOMENTS_MIN = 8;
const NS_MIN = 1000;
/** A higher map would exceed what browsers draw. */
const MAP_ZOOM_MAX = 8;

export type Change = "window" | "data" | "look" | "tab" | "moment" | "flame" | "table";

export const TABS = ["timeline", "map", "segments", "waste", "strategies", "flame", "table", "ranks",
  "explain"] as const;
export type Tab = (typeof TABS)[number];

export class View {
  tab: Tab = "timeline";
  device = 0;
  grouping = 0;
  axis: Axis = "moment";
  from = 0;
  to = 1;
  bottom_bytes = 0;
  /** Null: as high as the run. */
  top_bytes: number | null = null;
  /** Of the map; null: the one with the most allocated bytes. */
  moment: number | null = null;
  /** How many times higher the map is than the one that fits. */
  mapZoom = 1;
  flame: Pick<FlameRequest, "of" | "by" | "is_inverted" | "is_own" | "zoom"> = { of: "live", by: "stack",
    is_inverted: false, is_own: false, zoom: [] };
  table: Pick<TableRequest, "rows" | "sort"> = { rows: "stacks", sort: "" };
  query = "";
  lit: number | null = null;
  lanes: Lanes | null = null;
  clock: Clock | null = null;
  private readonly listeners: ((change: Change) => void)[] = [];

  constructor(readonly header: Header) {
    this.selectDevice(0);
    const runs = new Set(header.devices.map(({ run }) => run));
    if (runs.size > 1) this.tab = "ranks";
    else if (this.tabs.includes("explain")) this.tab = "explain";
  }

  get data(): Device {
    return this.header.devices[this.device]!;
  }

  onChange(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  changed(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  /** The end of the axis. */
  get end(): number {
    return this.axis === "time" ? Math.max(1, this.clock?.last_ns ?? 1) : this.data.moments;
  }

  /** Whether there is anything to draw. */
  get isEmpty(): boolean {
    return this.data.records === 0 || this.data.levels.length === 0;
  }

  get isWhole(): boolean {
    return this.from <= 0 && this.to >= this.end && this.top_bytes === null && this.bottom_bytes === 0;
  }

  /** The moment that the map shows. */
  get at(): number {
    return Math.min(this.moment ?? this.data.peaks.allocated_moment, this.data.moments - 1);
  }

  /** Whether the tab shows one moment, and not the window. */
  get isOfMoment(): boolean {
    return this.tab === "map" || (this.tab === "flame" && this.flame.of === "live")
      || (this.tab === "table" && !/^(allocations|out of memory|marks)$/.test(this.table.rows));
  }

  /** The window in moments: from the first to behind the last. */
  get moments(): [number, number] {
    const last = this.data.moments - 1;
    const from = Math.min(Math.max(0, Math.floor(this.momentAt(this.from))), last);
    return [from, Math.min(Math.max(from + 1, Math.ceil(this.momentAt(this.to))), last + 1)];
  }

  /** Frames have other numbers in another graph, so a change of anything else ends a zoom. */
  setFlame(change: Partial<View["flame"]>): void {
    this.flame = { ...this.flame, zoom: [], ...change };
    this.changed("flame");
  }

  setTable(change: Partial<View["table"]>): void {
    this.table = { ...this.table, ...change };
    this.checkTable();
    this.changed("table");
  }

  /** A device without a grouping shows stacks in place of its groups. */
  private checkTable(): void {
    const { rows } = this.table;
    const isGrouping = this.data.groupings.some((one) => one.name === rows && one.quantity === "allocated");
    if (!isGrouping && !PLAIN_ROWS.some((plain) => plain === rows)) this.table = { rows: "stacks", sort: "" };
  }

  setMoment(moment: number | null): void {
    const isNumber = moment !== null && !Number.isNaN(moment);
    this.moment = isNumber ? Math.round(Math.min(Math.max(moment, 0), this.data.moments - 1)) : null;
    this.changed("moment");
  }

  setMapZoom(zoom: number): void {
    const allowed = Math.min(Math.max(zoom, 1), MAP_ZOOM_MAX);
    if (!Number.isFinite(zoom) || allowed === this.mapZoom) return;
    this.mapZoom = allowed;
    this.changed("moment");
  }

  /** The views that this page has. */
  get tabs(): readonly Tab[] {
    const { devices } = this.header;
    const has = (plot: string): boolean => devices.some(({ plots }) => plots.includes(plot));
    return TABS.filter((tab) => (tab === "ranks" ? devices.length > 1
      : tab === "strategies" || tab === "waste" || tab === "explain" ? has(tab) : true));
  }

  selectTab(tab: Tab): void {
    if (tab === this.tab || !this.tabs.includes(tab)) return;
    this.tab = tab;
    this.changed("tab");
  }

  /** Whether private pools are drawn as envelopes. */
  get hasEnvelopes(): boolean {
    return this.data.groupings[this.grouping]?.quantity === "envelope";
  }

  get hasCapacityLine(): boolean {
    const { capacity_bytes: capacity, peaks } = this.data;
    const peak = Math.max(peaks.allocated_bytes, peaks.reserved_bytes);
    return capacity !== null && capacity > 0 && capacity <= CAPACITY_SHOWN * peak;
  }

  /** The highest bytes that are drawn without a zoom in height. */
  get fullTop(): number {
    const { peaks, capacity_bytes: capacity } = this.data;
    const enveloped = this.hasEnvelopes ? peaks.enveloped_bytes : 0;
    const peak = Math.max(peaks.allocated_bytes, peaks.reserved_bytes, peaks.active_bytes, enveloped, 1024);
    return HEADROOM * (this.hasCapacityLine ? Math.max(peak, capacity ?? 0) : peak);
  }

  get top(): number {
    return this.top_bytes ?? this.fullTop;
  }

  selectDevice(device: number): void {
    this.device = Math.min(Math.max(device, 0), this.header.devices.length - 1);
    this.axis = "moment";
    this.clock = null;
    this.lanes = null;
    this.lit = null;
    this.moment = null;
    this.flame = { ...this.flame, by: "stack", zoom: [] };
    this.checkTable();
    this.grouping = Math.max(0, this.data.groupings.findIndex((one) => one.quantity === "allocated"));
    this.reset();
  }

  selectGrouping(grouping: number): void {
    const chosen = this.data.groupings[grouping];
    if (chosen === undefined || !isOfBlocks(chosen)) return;
    this.grouping = grouping;
    this.lit = null;
    this.changed("data");
  }

  selectAxis(axis: Axis): void {
    if (axis === this.axis || (axis === "time" && this.clock === null)) return;
    const [from, to] = [this.momentAt(this.from), this.momentAt(this.to)];
    const isWhole = this.from <= 0 && this.to >= this.end;
    this.axis = axis;
    if (isWhole) [this.from, this.to] = [0, this.end];
    else this.setWindow(this.position(from), this.position(to));
    this.changed("data");
  }

  /** The place of a moment on the axis. */
  position(moment: number): number {
    return this.axis === "time" && this.clock !== null ? this.clock.timeAt(moment) : moment;
  }

  momentAt(position: number): number {
    return this.axis === "time" && this.clock !== null ? this.clock.momentAt(position) : position;
  }

  setWindow(from: number, to: number): void {
    const { end } = this;
    const least = Math.min(end, this.axis === "time" ? NS_MIN : MOMENTS_MIN);
    if (!Number.isFinite(from) || !Number.isFinite(to)) return;
    const length = Math.min(end, Math.max(least, to - from));
    const start = to - from < least ? (from + to - length) / 2 : from;
    this.from = Math.min(Math.max(0, start), end - length);
    this.to = this.from + length;
    this.changed("window");
  }

  setHeight(bottom: number, top: number | null): void {
    this.bottom_bytes = Math.max(0, bottom);
    this.top_bytes = top === null ? null : Math.min(Math.max(top, this.bottom_bytes + 1024), this.fullTop);
    this.changed("window");
  }

  /** `factor` below 1 zooms in; the fraction of the window stays where it is. */
  zoom(factor: number, fraction: number): void {
    const length = this.to - this.from;
    const fixed = this.from + length * fraction;
    this.setWindow(fixed - length * factor * fraction, fixed + length * factor * (1 - fraction));
  }

  /** Moves by a fraction of the window. */
  pan(fraction: number): void {
    const step = (this.to - this.from) * fraction;
    this.setWindow(this.from + step, this.to + step);
  }

  reset(): void {
    this.bottom_bytes = 0;
    this.top_bytes = null;
    this.from = 0;
    this.to = this.end;
    this.changed("window");
  }

  light(group: number | null): void {
    this.lit = group;
    this.changed("look");
  }

  find(query: string): void {
    this.query = query;
    this.changed("look");
  }
}
