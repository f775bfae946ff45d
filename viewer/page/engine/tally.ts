// The groups that a picture shows, with their bytes, for the legend.

import type { LegendRow } from "./protocol.ts";

/** Rows that the legend gets at most. */
const ROWS_MAX = 200;

export class Tally {
  readonly most: Float64Array;
  readonly atPeak: Float64Array;
  private otherMost = 0;
  private otherAtPeak = 0;

  constructor(groups: number) {
    this.most = new Float64Array(groups);
    this.atPeak = new Float64Array(groups);
  }

  see(group: number, bytes: number, isPeak: boolean): void {
    if (bytes > this.most[group]!) this.most[group] = bytes;
    if (isPeak) this.atPeak[group] = bytes;
  }

  seeOther(bytes: number, isPeak: boolean): void {
    if (bytes > this.otherMost) this.otherMost = bytes;
    if (isPeak) this.otherAtPeak = Math.max(0, bytes);
  }

  rows(label: (group: number) => string, colour: (group: number) => number): [LegendRow[], number] {
    const groups: number[] = [];
    for (let group = 0; group < this.most.length; group++) if (this.most[group]! > 0) groups.push(group);
    const { most, atPeak } = this;
    groups.sort((a, b) => atPeak[b]! - atPeak[a]! || most[b]! - most[a]! || a - b);
    const rows = groups.slice(0, ROWS_MAX).map((group): LegendRow => ({
      group, label: label(group), colour: colour(group), at_peak_bytes: atPeak[group]!, most_bytes: most[group]!,
    }));
    if (this.otherMost > 0) {
      rows.push({ group: -1, label: "other", colour: colour(-1), at_peak_bytes: this.otherAtPeak,
        most_bytes: this.otherMost });
    }
    return [rows, groups.length];
  }
}
