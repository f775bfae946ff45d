// Arrays of unsigned LEB128 varints, as docs/page-format.md defines them. Numbers are exact up to 2^53.

/** A chunk that cannot be read: what is wrong, and in which chunk. */
export class ChunkError extends Error {
  constructor(
    readonly chunk: string,
    reason: string,
  ) {
    super(`${chunk}: ${reason}`);
    this.name = "ChunkError";
  }
}

/** The most numbers of one array; a length above it is a malformed chunk, not a request for memory. */
const LENGTH_MAX = 1 << 26;

export class ArrayReader {
  private place = 0;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly chunk: string,
  ) {}

  get isAtEnd(): boolean {
    return this.place === this.bytes.length;
  }

  fail(reason: string): never {
    throw new ChunkError(this.chunk, `${reason} (byte ${this.place} of ${this.bytes.length})`);
  }

  /** One varint. */
  number(): number {
    const bytes = this.bytes;
    let byte = bytes[this.place++];
    if (byte === undefined) return this.fail("ends in the middle of an array");
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let scale = 0x80;
    do {
      byte = bytes[this.place++];
      if (byte === undefined) return this.fail("ends in the middle of a number");
      value += (byte & 0x7f) * scale;
      scale *= 0x80;
    } while (byte >= 0x80 && scale <= 2 ** 56);
    return value <= Number.MAX_SAFE_INTEGER ? value : this.fail("has a number above 2^53");
  }

  length(): number {
    const length = this.number();
    // Each number has at least one byte.
    if (length > LENGTH_MAX || length > this.bytes.length - this.place + 1) this.fail(`has an array of ${length}`);
    return length;
  }

  /** Numbers as they are. */
  plain(): Float64Array {
    return this.fill(this.length(), 1, false, false);
  }

  /** Each number is the difference from the one before it and never negative. */
  rising(): Float64Array {
    return this.fill(this.length(), 1, true, false);
  }

  /** Zigzag-coded numbers. */
  signed(): Float64Array {
    return this.fill(this.length(), 1, false, true);
  }

  /** Counts of a unit, given after the length. */
  plainBytes(): Float64Array {
    const length = this.length();
    return this.fill(length, this.unit(), false, false);
  }

  /** Counts of a unit, each the zigzag-coded difference from the one before it. */
  deltaBytes(): Float64Array {
    const length = this.length();
    return this.fill(length, this.unit(), true, true);
  }

  unit(): number {
    const unit = this.number();
    return unit > 0 ? unit : this.fail("has the unit 0");
  }

  /** Checks that arrays of one chunk have one length. */
  same(length: number, ...arrays: ArrayLike<unknown>[]): void {
    for (const array of arrays) {
      if (array.length !== length) this.fail(`has an array of ${array.length} beside one of ${length}`);
    }
  }

  end(): void {
    if (!this.isAtEnd) this.fail("has bytes behind its last array");
  }

  private fill(length: number, unit: number, isDelta: boolean, isSigned: boolean): Float64Array {
    const numbers = new Float64Array(length);
    let before = 0;
    for (let i = 0; i < length; i++) {
      let value = this.number();
      if (isSigned) value = unzigzag(value);
      if (isDelta) value += before;
      before = value;
      numbers[i] = value * unit;
    }
    return numbers;
  }
}

/** 0, 1, 2, 3 ... are 0, -1, 1, -2 ... */
export function unzigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}
