// The parts of reserved memory over time.

import { parseWaste, type WastePlot } from "../format/plots.ts";
import { THEMES } from "../engine/colours.ts";
import { byId, css, isDark, make, setText } from "./dom.ts";
import { Plot, stretchAt, trace } from "./plot.ts";
import { PlotData } from "./plotdata.ts";
import type { Scale } from "./scale.ts";
import { bytes, count, exactBytes, share } from "./units.ts";
import type { View } from "./view.ts";

/** The parts as docs/waste.md defines them: a hue, and a few words. The first has the colour of allocated memory. */
const PARTS: Record<string, [number, string]> = {
  "requested": [-1, "requests of live allocations"],
  "rounding": [8, "added by rounding"],
  "unsplit remainder": [2, "rest of a live block that was not split off"],
  "cached and reusable": [3, "free, and it could serve the reference request"],
  "stranded by stream": [5, "free, but on another stream"],
  "stranded by pool": [6, "free, but in another pool"],
  "stranded by fragmentation": [1, "free in pieces that are too small, or excluded by the settings"],
  "pending free": [4, "freed, and waiting for another stream"],
  "driver granularity": [7, "segments are whole pages of 2 MiB"],
};

export class Waste {
  private readonly data: PlotData<WastePlot>;
  private readonly plot: Plot;
  private readonly rows = byId("waste-parts");
  private lit = -1;

  constructor(
    private readonly view: View,
    fault: (text: string) => void,
    ready: () => void,
  ) {
    const arrived = (): void => {
      this.update();
      ready();
    };
    this.data = new PlotData(view, "waste", parseWaste, arrived, fault);
    this.plot = new Plot(view, byId("waste-plot"), "waste", {
      top: () => 1.06 * Math.max(1024, ...this.sums()),
      paint: (context, scale) => { this.paint(context, scale); },
      follow: () => { this.fill(); },
    });
  }

  get panel(): Plot {
    return this.plot;
  }

  update(): void {
    if (this.view.tab !== "waste") return;
    const plot = this.data.get();
    byId("waste-empty").textContent = plot === undefined ? "" : plot?.error ?? (plot === null
      ? "This page has no waste over time of this device: write it again with `vramtape view`." : "");
    this.plot.update();
    this.fill();
  }

  /** What the plot has at a moment, for tests; null where it has nothing. */
  at(moment: number): { moment: number; reserved_bytes: number; parts: Record<string, number> } | null {
    const plot = this.data.get();
    const stretch = stretchAt(plot?.edges ?? [], moment);
    if (!plot || stretch < 0) return null;
    const parts = Object.fromEntries(plot.parts.map((part) => [part.name, part.bytes[stretch]!]));
    return { moment: plot.edges[stretch]!, reserved_bytes: this.sums()[stretch]!, parts };
  }

  /** The reserved bytes of each stretch. */
  private sums(): number[] {
    const parts = this.data.get()?.parts ?? [];
    return (parts[0]?.bytes ?? []).map((_, at) => parts.reduce((sum, part) => sum + part.bytes[at]!, 0));
  }

  private paint(context: CanvasRenderingContext2D, scale: Scale): void {
    const plot = this.data.get();
    if (!plot || plot.parts.length === 0) return;
    const xs = plot.edges.map((edge) => scale.moment(Math.min(edge, this.view.data.moments)));
    let below = plot.parts[0]!.bytes.map(() => 0);
    plot.parts.forEach((part, place) => {
      const above = below.map((sum, at) => sum + part.bytes[at]!);
      if (part.bytes.some((size) => size > 0)) {
        context.beginPath();
        trace(context, xs, (at) => scale.y(above[at]!));
        const floor = below;
        trace(context, xs, (at) => scale.y(floor[at]!), true);
        context.globalAlpha = this.lit < 0 || this.lit === place ? 1 : 0.25;
        context.fillStyle = colourOf(part.name);
        context.fill();
      }
      below = above;
    });
    context.globalAlpha = 1;
    context.beginPath();
    trace(context, xs, (at) => scale.y(below[at]!));
    context.strokeStyle = css("--reserved");
    context.lineWidth = 1.2;
    context.stroke();
  }

  /** The stretch of the cursor, or the one with the most reserved bytes. */
  private stretch(plot: WastePlot): number {
    const { cursor } = this.plot;
    if (cursor !== null) return stretchAt(plot.edges, this.view.momentAt(cursor));
    const sums = this.sums();
    return sums.indexOf(Math.max(...sums));
  }

  private fill(): void {
    const plot = this.data.get();
    const at = plot ? this.stretch(plot) : -1;
    if (!plot || at < 0) {
      this.rows.replaceChildren();
      setText(byId("waste-note"), "");
      return;
    }
    const reserved = this.sums()[at]!;
    plot.parts.forEach((part, place) => {
      const row = this.rows.children[place] ?? this.add(part.name, place);
      const [size, part_of] = [row.children[1] as HTMLElement, row.children[2] as HTMLElement];
      setText(size, bytes(part.bytes[at]!), exactBytes(part.bytes[at]!));
      setText(part_of, share(part.bytes[at]!, reserved));
      setText(row.children[3] as HTMLElement, bytes(Math.max(...part.bytes)));
      row.querySelector<HTMLElement>(".swatch")!.style.backgroundColor = colourOf(part.name);
    });
    const [from, to] = [plot.edges[at]!, plot.edges[at + 1]!];
    const place = this.plot.cursor === null ? "at the peak" : "at the cursor";
    setText(byId("waste-note"), `${bytes(reserved)} reserved ${place}: the fullest of moments ${count(from)} to `
      + `${count(to - 1)}. Replayed under ${plot.settings}. ${plot.differs ?? ""}`);
  }

  private add(name: string, place: number): HTMLElement {
    const colour = make("span", "swatch");
    colour.setAttribute("aria-hidden", "true");
    const label = make("td", "label", "", make("div", "", "", colour, make("span", "", name)));
    const words = make("td", "words", PARTS[name]?.[1] ?? "");
    const row = make("tr", "", "", label, make("td"), make("td"), make("td"), words);
    const light = (lit: number) => () => {
      this.lit = lit;
      this.plot.update();
    };
    row.addEventListener("pointerenter", light(place));
    row.addEventListener("pointerleave", light(-1));
    this.rows.append(row);
    return row;
  }
}

function colourOf(part: string): string {
  const [hue] = PARTS[part] ?? [9, ""];
  return hue < 0 ? css("--map-allocated") : (isDark() ? THEMES.dark : THEMES.light).groups[hue]!;
}
