// Other strategies and settings over time: their reserved memory over the live memory.

import { parseStrategies, type StrategiesPlot, type StrategyRow } from "../format/plots.ts";
import { THEMES } from "../engine/colours.ts";
import { byId, css, isDark, make, setText } from "./dom.ts";
import { drawCapacity } from "./lines.ts";
import { Plot, stretchAt, trace } from "./plot.ts";
import { PlotData } from "./plotdata.ts";
import type { Scale } from "./scale.ts";
import { bytes, count, exactBytes } from "./units.ts";
import type { View } from "./view.ts";

export class Strategies {
  private readonly data: PlotData<StrategiesPlot>;
  private readonly plot: Plot;
  private readonly rows = byId("strategy-rows");
  private filled: StrategiesPlot | null = null;
  private hidden = new Set<number>();
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
    this.data = new PlotData(view, "strategies", parseStrategies, arrived, fault);
    this.plot = new Plot(view, byId("strategies-plot"), "strategies", {
      top: () => 1.06 * Math.max(1024, ...(this.data.get()?.rows ?? []).map((row) => row.peak_reserved_bytes)),
      paint: (context, scale) => { this.paint(context, scale); },
      follow: () => { this.fillCursor(); },
    });
  }

  get panel(): Plot {
    return this.plot;
  }

  update(): void {
    if (this.view.tab !== "strategies") return;
    const plot = this.data.get();
    byId("strategies-empty").textContent = plot === null
      ? "This page has no other strategies of this device: write it with `vramtape compare RUN --html FILE`." : "";
    this.fill(plot ?? null);
    this.plot.update();
  }

  /** The rows with what the plot has at a moment, for tests. */
  at(moment: number): { label: string; is_shown: boolean; reserved_bytes: number | null }[] {
    return (this.data.get()?.rows ?? []).map((row, place) => ({ label: row.label, is_shown: !this.hidden.has(place),
      reserved_bytes: this.reservedAt(row, this.view.position(moment)) }));
  }

  /** The edges of a run's stretches, as places on the axis. */
  private places(run: number): number[] {
    const found = this.data.get()?.runs[run];
    if (found === undefined) return [];
    // The page has the clock of the recorded run only.
    if (this.view.axis === "time" && run > 0) return [0, ...found.time_ns];
    return found.edges.map((edge) => this.view.position(Math.min(edge, this.view.data.moments)));
  }

  private reservedAt(row: StrategyRow, place: number): number | null {
    const stretch = stretchAt(this.places(row.run), place);
    return row.reserved_bytes[stretch] ?? null;
  }

  private paint(context: CanvasRenderingContext2D, scale: Scale): void {
    const plot = this.data.get();
    if (!plot) return;
    const xs = plot.runs.map((_, run) => this.places(run).map((place) => scale.x(place)));
    plot.runs.forEach((run, at) => {
      const of = xs[at]!;
      context.beginPath();
      trace(context, of, (stretch) => scale.y(run.live_bytes[stretch]!));
      if (at === 0 && of.length > 1) {
        context.lineTo(of.at(-1)!, scale.y(0));
        context.lineTo(of[0]!, scale.y(0));
        context.fillStyle = css("--map-reserved");
        context.fill();
      } else {
        context.strokeStyle = css("--dim");
        context.setLineDash([3, 3]);
        context.stroke();
        context.setLineDash([]);
      }
    });
    const capacity = plot.capacity_bytes ?? 0;
    if (capacity > 0 && capacity <= scale.heights.top) drawCapacity(context, scale, capacity);
    // The recorded settings come last, on top.
    for (let place = plot.rows.length - 1; place >= 0; place--) {
      const row = plot.rows[place]!;
      if (this.hidden.has(place)) continue;
      context.globalAlpha = this.lit < 0 || this.lit === place ? 1 : 0.12;
      context.strokeStyle = colourOf(row);
      context.lineWidth = this.lit === place ? 2.4 : 1.6;
      context.setLineDash(row.run > 0 ? [5, 3] : []);
      context.beginPath();
      trace(context, xs[row.run]!, (stretch) => scale.y(row.reserved_bytes[stretch]!));
      context.stroke();
    }
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  private fill(plot: StrategiesPlot | null): void {
    if (plot !== this.filled) {
      this.filled = plot;
      this.hidden = new Set();
      this.rows.replaceChildren(...(plot?.rows ?? []).map((row, place) => this.row(row, place)));
      setText(byId("strategies-summary"), plot?.summary ?? "");
      byId("strategies-inferred").replaceChildren(...(plot?.inferred ?? []).map((text) => make("li", "", text)));
    }
    plot?.rows.forEach((row, place) => {
      const line = this.rows.children[place]!;
      const key = line.querySelector("button")!;
      const isShown = !this.hidden.has(place);
      line.classList.toggle("off", !isShown);
      key.setAttribute("aria-pressed", String(isShown));
      key.style.backgroundColor = colourOf(row);
    });
    this.fillCursor();
  }

  private row(row: StrategyRow, place: number): HTMLElement {
    const key = make("button", row.run > 0 ? "key edited" : "key");
    key.setAttribute("aria-label", `${row.strategy}, ${row.label}`);
    key.title = "Show or hide the line";
    const cells = [bytes(row.peak_reserved_bytes), "", row.efficiency.toFixed(3),
      count(row.device_allocs + row.device_frees), (row.driver_time_ns / 1e6).toFixed(1), count(row.num_alloc_retries),
      count(row.num_ooms)];
    const line = make("tr", "", "", make("td", "", "", key), make("td", "", row.strategy), make("td", "", row.label),
      ...cells.map((text) => make("td", "", text)));
    (line.children[3] as HTMLElement).title = exactBytes(row.peak_reserved_bytes);
    line.addEventListener("click", () => {
      if (!this.hidden.delete(place)) this.hidden.add(place);
      this.update();
    });
    const light = (lit: number) => () => {
      this.lit = lit;
      this.plot.update();
    };
    line.addEventListener("pointerenter", light(place));
    line.addEventListener("pointerleave", light(-1));
    return line;
  }

  /** The column of the cursor. */
  private fillCursor(): void {
    const { cursor } = this.plot;
    this.filled?.rows.forEach((row, place) => {
      const reserved = cursor === null ? null : this.reservedAt(row, cursor);
      setText(this.rows.children[place]!.children[4] as HTMLElement, reserved === null ? "" : bytes(reserved));
    });
    const live = this.filled?.runs[0]?.live_bytes[cursor === null ? -1 : stretchAt(this.places(0), cursor)];
    setText(byId("strategies-note"), cursor === null || live === undefined ? ""
      : `moment ${count(this.view.momentAt(cursor))}: ${bytes(live)} live`);
  }
}

function colourOf(row: StrategyRow): string {
  const { groups } = isDark() ? THEMES.dark : THEMES.light;
  return groups[row.setting % groups.length]!;
}
