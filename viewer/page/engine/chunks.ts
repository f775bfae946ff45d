// Decoded chunks, fetched by id. Those with a level of detail are kept up to a limit of memory: the ones not used for
// longest go first.

import { inflate } from "../format/inflate.ts";
import { ChunkError } from "../format/varint.ts";

interface Entry {
  /** Undefined while it is on its way; null if the page has no such chunk. */
  value: unknown;
  bytes: number;
  /** The number of the use that was its last. */
  used: number;
  decode: (data: Uint8Array) => unknown;
  isRequired: boolean;
}

/** Chunks that a window needs. Names, kinds and ranges have no level of detail; every picture needs them. */
const OF_WINDOW = /\/(series|bands|lives)\//;

/** More than the largest window needs, or its chunks would drive out one another. */
const LIMIT_BYTES = 24 * 2 ** 20;

/** Bytes that a decoded value takes, roughly. */
export function weigh(value: unknown): number {
  if (ArrayBuffer.isView(value)) return value.byteLength;
  if (typeof value === "string") return 2 * value.length;
  if (typeof value !== "object" || value === null) return 8;
  return Object.values(value).reduce((sum: number, item: unknown) => sum + weigh(item), 16);
}

export class Chunks {
  private readonly entries = new Map<string, Entry>();
  private bytes = 0;
  private uses = 0;
  private onTheWay = 0;

  constructor(
    private readonly ask: (id: string) => void,
    private readonly arrived: () => void,
    private readonly fault: (error: ChunkError) => void,
    private readonly limitBytes = LIMIT_BYTES,
  ) {}

  get waiting(): number {
    return this.onTheWay;
  }

  /**
   * The decoded chunk, null if there is none or it is malformed, or undefined if it is not there yet. A page without a
   * chunk that is required is incomplete.
   */
  get<T>(id: string, isRequired: boolean, decode: (data: Uint8Array) => T): T | null | undefined {
    const entry = this.entries.get(id);
    if (entry !== undefined) {
      entry.used = ++this.uses;
      return entry.value as T | null | undefined;
    }
    this.entries.set(id, { value: undefined, bytes: 0, used: ++this.uses, decode, isRequired });
    this.onTheWay++;
    this.ask(id);
    return undefined;
  }

  /** As `get`, without asking for it. */
  peek(id: string): unknown {
    return this.entries.get(id)?.value;
  }

  async receive(id: string, text: string | null): Promise<void> {
    const entry = this.entries.get(id);
    if (entry?.value !== undefined || entry === undefined) return;
    let value: unknown = null;
    if (text === null && entry.isRequired) this.fault(new ChunkError(id, "is missing: the file is cut off"));
    if (text !== null) {
      try {
        value = entry.decode(await inflate(id, text));
      } catch (error) {
        this.fault(error instanceof ChunkError ? error : new ChunkError(id, String(error)));
      }
    }
    entry.value = value;
    if (OF_WINDOW.test(id)) entry.bytes = weigh(value);
    this.bytes += entry.bytes;
    this.onTheWay--;
    this.prune(id);
    this.arrived();
  }

  private prune(newest: string): void {
    if (this.bytes <= this.limitBytes) return;
    const old = [...this.entries].filter(([id, entry]) => entry.bytes > 0 && id !== newest);
    old.sort(([, a], [, b]) => a.used - b.used);
    for (const [id, entry] of old) {
      // Some more than is needed, so that the next chunk does not sort again.
      if (this.bytes <= this.limitBytes * 0.9) return;
      this.bytes -= entry.bytes;
      this.entries.delete(id);
    }
  }
}
