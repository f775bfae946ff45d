// The tooltip, and the panel of the pinned group or block.

import type { Info } from "../engine/protocol.ts";
import type { Chart } from "./chart.ts";
import { copyText, describe } from "./describe.ts";
import { byId, make } from "./dom.ts";
import type { Drawn } from "./lanebox.ts";
import type { EngineLink } from "./link.ts";
import { bytes, count, duration } from "./units.ts";
import type { View } from "./view.ts";

export class Tip {
  private readonly tip = byId("tip");
  private readonly panel = byId("pinned");
  private busy = false;
  private again = false;
  pinned: Info | null = null;

  constructor(
    private readonly view: View,
    private readonly chart: Chart,
    private readonly link: EngineLink,
  ) {}

  /** Shows what is under the cursor. Questions do not queue: while one is open, only the newest is kept. */
  async hover(): Promise<void> {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    do {
      this.again = false;
      await this.hoverOnce();
    } while (this.again as boolean);
    this.busy = false;
  }

  private async hoverOnce(): Promise<void> {
    const { cursor } = this.chart;
    const lane = cursor === null ? null : this.chart.laneAt(cursor.x, cursor.y);
    if (lane !== null) {
      this.show(this.laneText(lane));
      return;
    }
    const found = cursor === null ? null : this.chart.pick(cursor.x, cursor.y);
    if (found === null) {
      this.hide();
      return;
    }
    const info = await this.link.info(this.chart.reply?.set ?? 0, found.x, found.id);
    if (info !== null && this.chart.cursor !== null) this.show(describe(info, true));
  }

  private laneText(lane: Drawn): HTMLElement[] {
    const { view } = this;
    const time = (moment: number): string => view.clock === null ? "" : ` at ${duration(view.clock.timeAt(moment))}`;
    if (lane.points.length > 0) {
      const list = make("ul", "plain");
      for (const point of lane.points.slice(0, 8)) {
        list.append(make("li", "", `${point.name || point.kind}: moment ${count(point.moment)}${time(point.moment)}`));
      }
      if (lane.points.length > 8) list.append(make("li", "", `${lane.points.length - 8} more: zoom in`));
      return [list];
    }
    if (lane.span === null) return [make("p", "", `${count(lane.merged)} spans, merged: zoom in to see each`)];
    const { name, start, end } = lane.span;
    const length = view.clock === null ? "" : `, ${duration(view.clock.timeAt(end) - view.clock.timeAt(start))}`;
    return [make("p", "title", name), make("p", "",
      `moments ${count(start)} to ${count(end)}: ${count(end - start)} moments${length}`)];
  }

  private show(parts: HTMLElement[]): void {
    const { tip, chart } = this;
    const { cursor } = chart;
    if (cursor === null) return;
    tip.replaceChildren(...parts);
    tip.hidden = false;
    const { clientWidth: width } = chart.root;
    const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
    const isRight = cursor.x + 16 + wide <= width;
    const left = isRight ? cursor.x + 16 : Math.max(0, cursor.x - 16 - wide);
    const below = window.innerHeight - chart.root.getBoundingClientRect().top - high - 8;
    tip.style.left = `${Math.max(0, Math.min(left, width - wide))}px`;
    tip.style.top = `${Math.max(-40, Math.min(cursor.y + 12, below))}px`;
  }

  hide(): void {
    this.tip.hidden = true;
  }

  /** Pins what is under the cursor: its group is lit everywhere. */
  async pin(): Promise<void> {
    const { cursor } = this.chart;
    const found = cursor === null ? null : this.chart.pick(cursor.x, cursor.y);
    const info = found === null ? null : await this.link.info(this.chart.reply?.set ?? 0, found.x, found.id);
    if (info === null || info.kind === "nothing") this.clear();
    else this.showPinned(info);
  }

  private showPinned(info: Info): void {
    this.pinned = info;
    const close = make("button", "quiet", "Clear");
    close.title = "Clear (Esc)";
    close.addEventListener("click", () => {
      this.clear();
    });
    const bar = make("div", "bar", "", make("h2", "", "Pinned"));
    if (info.label !== "") {
      const copy = make("button", "quiet", info.block === null ? "Copy label" : "Copy stack");
      copy.addEventListener("click", () => {
        void this.copy(copy, copyText(info));
      });
      bar.append(copy);
    }
    bar.append(close);
    this.panel.replaceChildren(bar, ...describe(info, false));
    this.panel.hidden = false;
    this.view.light(info.group);
  }

  /** Where the clipboard is closed (a sandbox), the text is selected for the user to copy. */
  private async copy(button: HTMLButtonElement, text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const field = make("textarea", "copy");
      field.value = text;
      field.readOnly = true;
      field.setAttribute("aria-label", "Text to copy");
      this.panel.querySelector("textarea")?.remove();
      this.panel.append(field);
      field.select();
      button.textContent = "Selected: press Ctrl+C";
    }
  }

  clear(): void {
    this.pinned = null;
    this.panel.hidden = true;
    this.panel.replaceChildren();
    this.hide();
    if (this.view.lit !== null) this.view.light(null);
  }

  /** One sentence for the line under the chart. */
  static peakText(view: View, moment: number, allocated: number): string {
    const time = view.clock === null ? "" : ` (${duration(view.clock.timeAt(moment))})`;
    return `Peak in view: ${bytes(allocated)} at moment ${count(moment)}${time}.`;
  }
}
