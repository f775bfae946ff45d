// `window.vramtape`: what tests and the speed script read.

import type { FrameReply, Stack } from "../engine/protocol.ts";
import type { Chart } from "./chart.ts";
import type { EngineLink } from "./link.ts";
import type { View } from "./view.ts";

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
}

declare global {
  interface Window {
    vramtape?: Hook;
  }
}

export class HookState {
  private times: number[] = [];
  private shown: FrameReply | null = null;

  constructor(view: View, chart: Chart, link: EngineLink) {
    window.vramtape = {
      state: () => ({
        device: view.device, grouping: view.data.groupings[view.grouping]?.name ?? "", axis: view.axis,
        from: view.from, to: view.to, end: view.end, query: view.query, lit: view.lit,
        detail: this.shown?.detail ?? { mode: "none" }, waiting: this.shown?.waiting ?? 0,
        drawn: this.shown === null ? null : { from: this.shown.request.from, to: this.shown.request.to },
        peak: this.shown?.peak ?? null, legend: this.shown?.legend ?? [], is_in_page: link.isInPage,
        plot: { ...chart.scale.plot }, stack_pixels: this.stackPixels(),
      }),
      columnAt: async (fraction) => {
        await this.settled(view);
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
    };
  }

  /** Pixels of the picture that show memory. */
  private stackPixels(): number {
    let pixels = 0;
    for (const id of this.shown?.ids ?? []) if (id !== 0) pixels++;
    return pixels;
  }

  /** Waits until the window is drawn from all of its chunks, if it can be. */
  private async settled(view: View): Promise<void> {
    const until = performance.now() + SETTLE_MS;
    const isDrawn = (): boolean => this.shown?.waiting === 0 && this.shown.request.from === view.from
      && this.shown.request.to === view.to && this.shown.request.grouping === view.grouping
      && this.shown.request.device === view.device && this.shown.request.axis === view.axis;
    while (!isDrawn() && performance.now() < until) await new Promise((next) => { setTimeout(next, 10); });
  }

  show(reply: FrameReply): void {
    this.shown = reply;
    if (this.times.length < TIMES_MAX) this.times.push(reply.took_ms);
  }
}
