// The encoder of docs/page-format.md, for tests.

import { gzipSync } from "node:zlib";

export class ArrayWriter {
  private readonly out: number[] = [];

  number(value: number): this {
    let left = value;
    while (left >= 0x80) {
      this.out.push((left % 0x80) + 0x80);
      left = Math.floor(left / 0x80);
    }
    this.out.push(left);
    return this;
  }

  plain(numbers: ArrayLike<number>): this {
    this.number(numbers.length);
    for (const value of Array.from(numbers)) this.number(value);
    return this;
  }

  rising(numbers: ArrayLike<number>): this {
    return this.plain(Array.from(numbers, (value, i) => value - (i > 0 ? numbers[i - 1]! : 0)));
  }

  signed(numbers: ArrayLike<number>): this {
    return this.plain(Array.from(numbers, zigzag));
  }

  plainBytes(numbers: ArrayLike<number>, unit = unitOf(numbers)): this {
    this.number(numbers.length).number(unit);
    for (const value of Array.from(numbers)) this.number(value / unit);
    return this;
  }

  deltaBytes(numbers: ArrayLike<number>): this {
    const unit = unitOf(numbers);
    this.number(numbers.length).number(unit);
    for (let i = 0; i < numbers.length; i++) this.number(zigzag((numbers[i]! - (i > 0 ? numbers[i - 1]! : 0)) / unit));
    return this;
  }

  get bytes(): Uint8Array {
    return Uint8Array.from(this.out);
  }

  get text(): string {
    return pack(this.bytes);
  }
}

export function pack(content: Uint8Array | string): string {
  return gzipSync(content, { level: 4 }).toString("base64");
}

export function zigzag(value: number): number {
  return value >= 0 ? value * 2 : -value * 2 - 1;
}

/** The largest number that divides all of these; 1 for zeros alone. */
export function unitOf(numbers: ArrayLike<number>): number {
  let unit = 0;
  for (let i = 0; i < numbers.length && unit !== 1; i++) {
    let [a, b] = [numbers[i]!, unit];
    while (b !== 0) [a, b] = [b, a % b];
    unit = a;
  }
  return Math.max(1, unit);
}
