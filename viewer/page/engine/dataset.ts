// The chunks of one device, by what they are.

import { type BandsTile, type SeriesTile, decodeBands, decodeSeries } from "../format/columns.ts";
import { type Envelopes, decodeEnvelopes } from "../format/envelopes.ts";
import { type Device, isOfBlocks } from "../format/header.ts";
import { type Kinds, type LivesNode, decodeKinds, decodeLives } from "../format/lives.ts";
import { type Ranges, decodeRanges } from "../format/ranges.ts";
import { type Marks, type Names, decodeMarks, decodeNames, decodeTimes } from "../format/rest.ts";
import type { Chunks } from "./chunks.ts";
import { Clock } from "./clock.ts";

export class Dataset {
  private clockFor: { times: Float64Array; clock: Clock } | null = null;

  constructor(
    private readonly chunks: Chunks,
    readonly place: number,
    readonly device: Device,
  ) {}

  private id(rest: string): string {
    return `d${this.place}/${rest}`;
  }

  series(level: number, tile: number): SeriesTile | null | undefined {
    const id = this.id(`series/${level}/${tile}`);
    return this.chunks.get(id, true, (data) => decodeSeries(id, data));
  }

  bands(grouping: number, level: number, tile: number): BandsTile | null | undefined {
    const id = this.id(`bands/${grouping}/${level}/${tile}`);
    return this.chunks.get(id, (this.device.groupings[grouping]?.groups ?? 0) > 0, (data) => decodeBands(id, data));
  }

  /** What is there, without asking for it: null if there is nothing. */
  knownSeries(level: number, tile: number): SeriesTile | null {
    return (this.chunks.peek(this.id(`series/${level}/${tile}`)) as SeriesTile | null | undefined) ?? null;
  }

  knownBands(grouping: number, level: number, tile: number): BandsTile | null {
    return (this.chunks.peek(this.id(`bands/${grouping}/${level}/${tile}`)) as BandsTile | null | undefined) ?? null;
  }

  lives(height: number, place: number): LivesNode | null | undefined {
    const id = this.id(`lives/${height}/${place}`);
    const first = place * this.device.lives.leaf_moments * 2 ** height;
    return this.chunks.get(id, false, (data) => decodeLives(id, data, first));
  }

  kinds(): Kinds | null | undefined {
    const id = this.id("kinds");
    return this.chunks.get(id, this.device.lives.count > 0, (data) => decodeKinds(id, data));
  }

  names(): Names | null | undefined {
    const id = this.id("names");
    return this.chunks.get(id, true, (data) => decodeNames(id, data));
  }

  ranges(): Ranges | null | undefined {
    const id = this.id("ranges");
    return this.chunks.get(id, this.device.peaks.reserved_bytes > 0, (data) => decodeRanges(id, data));
  }

  /** Null without private pools. */
  envelopes(): Envelopes | null | undefined {
    const id = this.id("envelopes");
    const grouping = this.device.groupings.find(({ quantity }) => quantity === "envelope");
    if (grouping === undefined) return null;
    return this.chunks.get(id, true, (data) => decodeEnvelopes(id, data, grouping.groups));
  }

  marks(): Marks | null | undefined {
    const id = this.id("marks");
    return this.chunks.get(id, false, (data) => decodeMarks(id, data));
  }

  times(): Float64Array | null | undefined {
    if (!this.device.has_clock) return null;
    const id = this.id("times");
    return this.chunks.get(id, true, (data) => decodeTimes(id, data));
  }

  /** The clock, null without one, undefined while its chunk is on the way. */
  clock(): Clock | null | undefined {
    const times = this.times();
    if (times === undefined || times === null || times.length === 0) return times === undefined ? undefined : null;
    if (this.clockFor?.times !== times) {
      this.clockFor = { times, clock: new Clock(times, this.device.time_step_moments, this.device.moments) };
    }
    return this.clockFor.clock;
  }

  /** The number of a grouping among those of allocated bytes: its place in the arrays of `kinds`. */
  kindGroup(grouping: number): number {
    return this.device.groupings.slice(0, grouping).filter(isOfBlocks).length;
  }
}
