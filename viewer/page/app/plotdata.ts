// Plots of the page, decoded when their tab is shown first. They are small, so no worker decodes them.

import { inflate } from "../format/inflate.ts";
import { ChunkError } from "../format/varint.ts";
import type { View } from "./view.ts";

/** All elements are there. */
async function parsed(): Promise<void> {
  if (document.readyState !== "loading") return;
  await new Promise((done) => { document.addEventListener("DOMContentLoaded", done, { once: true }); });
}

/** One plot of each device that has it. */
export class PlotData<T> {
  private readonly plots = new Map<number, T | null>();

  constructor(
    private readonly view: View,
    private readonly name: "waste" | "strategies",
    private readonly parse: (chunk: string, text: string) => T,
    private readonly arrived: () => void,
    private readonly fault: (text: string) => void,
  ) {}

  /** Of the shown device; undefined while it is on its way, null if there is none. */
  get(): T | null | undefined {
    const { device, data } = this.view;
    if (!data.plots.includes(this.name)) return null;
    const plot = this.plots.get(device);
    if (plot === undefined && !this.plots.has(device)) void this.load(device);
    return plot;
  }

  private async load(device: number): Promise<void> {
    const id = `d${device}/plots/${this.name}`;
    await parsed();
    const text = document.getElementById(id)?.textContent;
    let plot: T | null = null;
    try {
      if (text === undefined) throw new ChunkError(id, "is missing: the file is cut off or damaged");
      plot = this.parse(id, new TextDecoder().decode(await inflate(id, text)));
    } catch (error) {
      this.fault(error instanceof Error ? error.message : String(error));
    }
    this.plots.set(device, plot);
    this.arrived();
  }
}
