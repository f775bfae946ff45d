// Where things are: the plot's rectangle, and moments and bytes in it.

import type { View } from "./view.ts";

export interface Box {
  left: number;
  top: number;
  width: number;
  height: number;
}

/** The lowest and the highest bytes of a plot. */
export interface Heights {
  bottom_bytes: number;
  top: number;
}

export class Scale {
  constructor(
    readonly view: View,
    readonly plot: Box,
    readonly heights: Heights = view,
  ) {}

  /** CSS pixels of a place on the axis. */
  x(position: number): number {
    const { from, to } = this.view;
    return this.plot.left + ((position - from) / (to - from)) * this.plot.width;
  }

  moment(moment: number): number {
    return this.x(this.view.position(moment));
  }

  y(bytes: number): number {
    const { bottom_bytes: bottom, top } = this.heights;
    return this.plot.top + this.plot.height * (1 - (bytes - bottom) / (top - bottom));
  }

  /** The fraction of the window at CSS pixel `x`. */
  fraction(x: number): number {
    return (x - this.plot.left) / this.plot.width;
  }

  bytes(y: number): number {
    const { bottom_bytes: bottom, top } = this.heights;
    return bottom + (1 - (y - this.plot.top) / this.plot.height) * (top - bottom);
  }

  isIn(x: number, y: number): boolean {
    const { left, top, width, height } = this.plot;
    return x >= left && x < left + width && y >= top && y < top + height;
  }
}
