// Arrays that are made again and again, in memory that is kept: garbage of this size would wait for long.

type Numbers = Uint32Array<ArrayBuffer> | Float64Array<ArrayBuffer>;

/** What newer browsers have. */
interface Transferable {
  transfer?: (length: number) => ArrayBuffer;
}

/** Gives memory back now; without `transfer`, the next garbage collection does. */
function release(buffer: ArrayBuffer): void {
  (buffer as Transferable).transfer?.(0);
}

export class Scratch {
  private readonly kept = new Map<string, ArrayBuffer>();

  private bytes(name: string, length: number): ArrayBuffer {
    const known = this.kept.get(name);
    // Memory of a window that was much larger is given back.
    if (known !== undefined && known.byteLength >= length && known.byteLength <= 4 * length + 2 ** 16) return known;
    if (known !== undefined) release(known);
    const made = new ArrayBuffer(8 * Math.ceil(length / 8 * 1.2));
    this.kept.set(name, made);
    return made;
  }

  private static cleared<T extends Numbers>(array: T, isCleared: boolean): T {
    if (isCleared) array.fill(0);
    return array;
  }

  /** An array under a name; the one that had the name before must not be used any more. */
  u32(name: string, length: number, isCleared = false): Uint32Array<ArrayBuffer> {
    return Scratch.cleared(new Uint32Array(this.bytes(name, 4 * length), 0, length), isCleared);
  }

  f64(name: string, length: number, isCleared = false): Float64Array<ArrayBuffer> {
    return Scratch.cleared(new Float64Array(this.bytes(name, 8 * length), 0, length), isCleared);
  }
}
