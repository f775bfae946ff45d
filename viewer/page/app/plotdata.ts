// Plots of the page, decoded when their tab is shown first. They are small, so no worker decodes them.

import { inflate } from "../format/inflate.ts";
import { ChunkError } from "../format/varint.ts";
import { ChunkSource } from "./source.ts";
import type { View } from "./view.ts";

/** One plot of each device that has it. */
export class PlotData<T> {
  private readonly source: ChunkSource;
  private readonly asked = new Set<number>();
  private readonly plots = new Map<number, T | null>();

  constructor(
    private readonly view: View,
    private readonly name: "waste" | "strategies" | "explain",
    private readonly parse: (chunk: string, text: string) => T,
    private readonly arrived: () => void,
    private readonly fault: (text: string) => void,
  ) {
    this.source = new ChunkSource((id, text) => { void this.receive(id, text); }, fault);
  }

  /** Of the shown device; undefined while it is on its way, null if there is none. */
  get(): T | null | undefined {
    const { device, data } = this.view;
    if (!data.plots.includes(this.name)) return null;
    const plot = this.plots.get(device);
    if (plot === undefined && !this.asked.has(device)) {
      this.asked.add(device);
      this.source.need(`d${device}/plots/${this.name}`);
    }
    return plot;
  }

  private async receive(id: string, text: string | null): Promise<void> {
    let plot: T | null = null;
    try {
      if (text === null) throw new ChunkError(id, "is missing: the file is cut off or damaged");
      plot = this.parse(id, new TextDecoder().decode(await inflate(id, text)));
    } catch (error) {
      this.fault(error instanceof Error ? error.message : String(error));
    }
    this.plots.set(parseInt(id.slice(1)), plot);
    this.arrived();
  }
}
