// All devices of all runs side by side, the worst first.

import type { FromEngine } from "../engine/protocol.ts";
import type { Device } from "../format/header.ts";
import { byId, css, make } from "./dom.ts";
import { clear, pixelRatio } from "./surface.ts";
import { bytes, count } from "./units.ts";
import type { View } from "./view.ts";

type Series = FromEngine & { type: "minimap" };

/** In CSS pixels. */
const WIDTH = 252;
const HEIGHT = 64;
/** A device whose reserved peak is further from the median is said to be. */
const FAR = 0.1;

const ORDERS: Record<string, (a: Device, b: Device) => number> = {
  worst: (a, b) => Math.sign(b.ooms) - Math.sign(a.ooms) || b.peaks.reserved_bytes - a.peaks.reserved_bytes,
  allocated: (a, b) => b.peaks.allocated_bytes - a.peaks.allocated_bytes,
  unused: (a, b) => unused(b) - unused(a),
  name: () => 0,
};

function unused({ peaks }: Device): number {
  return peaks.reserved_bytes - peaks.allocated_bytes;
}

function nameOf({ run, device }: Device): string {
  return `${run} · device ${device}`;
}

export class Ranks {
  private readonly cards = new Map<number, HTMLButtonElement>();
  private readonly series = new Map<number, Series>();
  private readonly order = byId<HTMLSelectElement>("ranks-order");
  private readonly median: number;

  constructor(
    private readonly view: View,
    private readonly ask: (device: number, width: number) => void,
  ) {
    const reserved = view.header.devices.map(({ peaks }) => peaks.reserved_bytes).sort((a, b) => a - b);
    this.median = reserved[(reserved.length - 1) >> 1] ?? 0;
    this.order.addEventListener("change", () => { this.place(); });
  }

  /** The places of the devices, in the order that is shown. */
  get places(): number[] {
    const { devices } = this.view.header;
    const compare = ORDERS[this.order.value] ?? ORDERS.worst!;
    return devices.map((_, place) => place).sort((a, b) => compare(devices[a]!, devices[b]!) || a - b);
  }

  update(): void {
    const { view } = this;
    if (view.tab !== "ranks") return;
    if (this.cards.size === 0) {
      view.header.devices.forEach((device, place) => this.cards.set(place, this.card(device, place)));
      this.place();
    }
    for (const [place, card] of this.cards) {
      card.setAttribute("aria-current", String(place === view.device));
      if (!this.series.has(place)) this.ask(place, this.width);
      this.draw(place);
    }
  }

  private get width(): number {
    return Math.round(WIDTH * pixelRatio());
  }

  /** Whether the series was for a card. */
  show(series: Series): boolean {
    if (series.allocated.length !== this.width || !this.cards.has(series.device)) return false;
    this.series.set(series.device, series);
    this.draw(series.device);
    return true;
  }

  private place(): void {
    byId("rank-cards").replaceChildren(...this.places.map((place) => this.cards.get(place)!));
  }

  private card(device: Device, place: number): HTMLButtonElement {
    const { peaks, ooms } = device;
    const far = this.median > 0 ? peaks.reserved_bytes / this.median - 1 : 0;
    const percent = `${Math.abs(100 * far).toFixed(0)} % ${far > 0 ? "above" : "below"} the median`;
    const facts = make("dl", "facts", "", make("dt", "", "peak reserved"), make("dd", "", bytes(peaks.reserved_bytes)),
      make("dt", "", "peak allocated"), make("dd", "", bytes(peaks.allocated_bytes)));
    const card = make("button", "rank", "", make("b", "", nameOf(device)), make("canvas"), facts);
    const times = ooms > 1 ? `, ${count(ooms)} times` : "";
    if (ooms > 0) card.append(make("span", "alarm", `out of memory${times}`));
    if (Math.abs(far) > FAR) card.append(make("span", "far", percent));
    card.title = `${nameOf(device)}: show it`;
    card.querySelector("canvas")!.setAttribute("aria-hidden", "true");
    card.addEventListener("click", () => {
      this.view.selectDevice(place);
      this.view.tab = "timeline";
      this.view.changed("tab");
    });
    return card;
  }

  /** On one scale for all. */
  private draw(place: number): void {
    const series = this.series.get(place);
    const canvas = this.cards.get(place)?.querySelector("canvas");
    if (series === undefined || canvas === null || canvas === undefined) return;
    const context = clear(canvas, WIDTH, HEIGHT);
    const { devices } = this.view.header;
    const most = Math.max(1, ...devices.map(({ peaks }) => Math.max(peaks.reserved_bytes, peaks.allocated_bytes)));
    const y = (value: number): number => HEIGHT - (value / most) * (HEIGHT - 2);
    const path = (values: Float64Array): void => {
      const step = WIDTH / values.length;
      context.beginPath();
      values.forEach((value, i) => {
        context.lineTo(i * step, y(value));
        context.lineTo((i + 1) * step, y(value));
      });
    };
    path(series.allocated);
    context.lineTo(WIDTH, HEIGHT);
    context.lineTo(0, HEIGHT);
    context.fillStyle = css("--map-allocated");
    context.fill();
    path(series.reserved);
    context.strokeStyle = css(devices[place]!.ooms > 0 ? "--alarm" : "--reserved");
    context.lineWidth = 1.2;
    context.stroke();
  }
}
