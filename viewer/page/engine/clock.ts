// Moments and times: a clock sampled at every `step`-th moment, straight in between.

export class Clock {
  constructor(
    private readonly times: Float64Array,
    private readonly step: number,
    private readonly moments: number,
  ) {}

  get last_ns(): number {
    return this.times[this.times.length - 1] ?? 0;
  }

  /** The moment of a sample; the last one may be closer to its neighbour. */
  private momentOf(sample: number): number {
    return Math.min(sample * this.step, this.moments - 1);
  }

  timeAt(moment: number): number {
    const { times, step } = this;
    if (times.length === 0) return 0;
    const sample = Math.min(Math.max(Math.floor(moment / step), 0), times.length - 1);
    const next = Math.min(sample + 1, times.length - 1);
    const length = this.momentOf(next) - this.momentOf(sample);
    if (length <= 0) return times[sample]!;
    const part = Math.min(Math.max((moment - this.momentOf(sample)) / length, 0), 1);
    return times[sample]! + (times[next]! - times[sample]!) * part;
  }

  /** The last sample that is not later than this time, hence the state in force then. */
  momentAt(time: number): number {
    const { times } = this;
    let low = 0;
    let high = times.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (times[middle]! <= time) low = middle;
      else high = middle - 1;
    }
    const next = Math.min(low + 1, times.length - 1);
    const length = times[next]! - times[low]!;
    const part = length > 0 ? Math.min(Math.max((time - times[low]!) / length, 0), 1) : 0;
    return this.momentOf(low) + (this.momentOf(next) - this.momentOf(low)) * part;
  }
}

/** The moments at the left edges of `width` pixels, and at the right edge of the last. */
export function pixelEdges(width: number, from: number, to: number, clock: Clock | null): Float64Array {
  const edges = new Float64Array(width + 1);
  for (let x = 0; x <= width; x++) {
    const at = from + (to - from) * (x / width);
    edges[x] = clock === null ? at : clock.momentAt(at);
  }
  return edges;
}

/**
 * The first of the things (moments, or columns of `size` moments) of a pixel, and the one behind its last. A thing
 * belongs to the pixel in which it begins; a pixel in which none begins shows the one that covers it.
 */
export function thingsOf(edges: Float64Array, x: number, size: number, count: number): [number, number] {
  const left = edges[x]! / size;
  const first = x === 0 ? Math.floor(left) : Math.ceil(left);
  const end = Math.ceil(edges[x + 1]! / size);
  if (end > first) return [Math.min(Math.max(first, 0), count - 1), Math.min(Math.max(end, 1), count)];
  const covers = Math.min(Math.max(Math.floor(left), 0), count - 1);
  return [covers, covers + 1];
}
