// What is under the chart's cursor: in the tooltip, or pinned.

import type { Info } from "../engine/protocol.ts";
import type { Chart } from "./chart.ts";
import { describe } from "./describe.ts";
import { byId, make } from "./dom.ts";
import { Float } from "./float.ts";
import type { Drawn } from "./lanebox.ts";
import type { EngineLink } from "./link.ts";
import type { Pinned } from "./pinned.ts";
import { bytes, count, duration } from "./units.ts";
import type { View } from "./view.ts";

/** A gesture's pictures come faster than this. */
const SETTLE_MS = 100;

export class Tip {
  private readonly float: Float;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly view: View,
    private readonly chart: Chart,
    private readonly link: EngineLink,
    private readonly pinned: Pinned,
  ) {
    this.float = new Float(byId("tip"), chart, () => this.content());
  }

  hover(): Promise<void> {
    return this.float.hover();
  }

  /** Follows the picture under a cursor that rests: not each picture of a gesture, which would be work for nothing. */
  follow(): void {
    clearTimeout(this.timer);
    if (this.chart.cursor !== null) this.timer = setTimeout(() => void this.hover(), SETTLE_MS);
  }

  hide(): void {
    this.float.hide();
  }

  private async content(): Promise<HTMLElement[] | null> {
    const { cursor } = this.chart;
    const lane = cursor === null ? null : this.chart.laneAt(cursor.x, cursor.y);
    if (lane !== null) return this.laneText(lane);
    const info = await this.info();
    return info === null ? null : describe(info, true);
  }

  private async info(): Promise<Info | null> {
    const { cursor } = this.chart;
    const found = cursor === null ? null : this.chart.pick(cursor.x, cursor.y);
    return found === null ? null : this.link.info(this.chart.reply?.set ?? 0, found.x, found.id);
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

  /** Pins what is under the cursor: its group is lit everywhere. */
  async pin(): Promise<void> {
    const info = await this.info();
    if (info === null || info.kind === "nothing") this.clear();
    else this.pinned.show(info);
  }

  clear(): void {
    this.hide();
    this.pinned.clear();
  }

  /** One sentence for the line under the chart. */
  static peakText(view: View, moment: number, allocated: number): string {
    const time = view.clock === null ? "" : ` (${duration(view.clock.timeAt(moment))})`;
    return `Peak in view: ${bytes(allocated)} at moment ${count(moment)}${time}.`;
  }
}
