// An engine as the page has one.

import assert from "node:assert/strict";
import { Engine } from "../engine/engine.ts";
import type { FlameReply, FlameRequest, FrameReply, FrameRequest, FromEngine, Info, MapReply, MapRequest,
  SegmentsReply, SegmentsRequest, Stack,
} from "../engine/protocol.ts";
import type { TableReply, TableRequest, TableText, TextFormat } from "../engine/tableprotocol.ts";
import type { PageData } from "./pagedata.ts";

/** An engine over chunks in memory; `without` are missing. */
export class Bench {
  readonly faults: string[] = [];
  private readonly engine: Engine;
  private readonly waiting: ((message: FromEngine) => boolean)[] = [];

  constructor(readonly data: PageData, without: (id: string) => boolean = () => false) {
    this.engine = new Engine((message) => {
      setTimeout(() => {
        if (message.type === "need") {
          const text = without(message.id) ? null : data.chunks.get(message.id) ?? null;
          this.engine.receive({ type: "chunk", id: message.id, text });
        } else if (message.type === "fault") this.faults.push(message.text);
        const place = this.waiting.findIndex((takes) => takes(message));
        if (place >= 0) this.waiting.splice(place, 1);
      }, 0);
    });
    this.engine.receive({ type: "start", header: data.header });
  }

  private wait<T extends FromEngine>(isIt: (message: FromEngine) => message is T): Promise<T> {
    return new Promise((resolve) => {
      this.waiting.push((message) => {
        if (!isIt(message)) return false;
        resolve(message);
        return true;
      });
    });
  }

  /** The picture of a window from all of its chunks. */
  frame(changes: Partial<FrameRequest>): Promise<FrameReply> {
    const { moments, peaks } = this.data.header.devices[0]!;
    const request: FrameRequest = { device: 0, grouping: 0, axis: "moment", from: 0, to: moments, bottom_bytes: 0,
      top_bytes: peaks.reserved_bytes * 1.1, width: 200, height: 100, is_dark: false, query: "", lit: null,
      ...changes };
    const done = this.wait((m): m is FrameReply => m.type === "frame" && m.request === request && m.waiting === 0);
    this.engine.receive({ type: "frame", request });
    return done;
  }

  /** The address map of a moment. */
  map(moment: number, changes: Partial<MapRequest> = {}): Promise<MapReply> {
    const request: MapRequest = { device: 0, grouping: 0, moment, width: 400, height: 300, ratio: 1, is_dark: false,
      query: "", lit: null, ...changes };
    const done = this.wait((m): m is MapReply => m.type === "map" && m.request === request);
    this.engine.receive({ type: "map", request });
    return done;
  }

  /** The flame graph of the whole run. */
  flame(changes: Partial<FlameRequest>): Promise<FlameReply> {
    const { moments } = this.data.header.devices[0]!;
    const request: FlameRequest = { device: 0, of: "live", by: "stack", moment: 0, from: 0, to: moments,
      is_inverted: false, is_own: false, zoom: [], width: 1000, query: "", is_dark: false, ...changes };
    const done = this.wait((m): m is FlameReply => m.type === "flame" && m.request === request);
    this.engine.receive({ type: "flame", request });
    return done;
  }

  /** The first rows of a table, of stacks if nothing else is named. */
  table(changes: Partial<TableRequest>): Promise<TableReply> {
    const { moments } = this.data.header.devices[0]!;
    const request: TableRequest = { device: 0, rows: "stacks", moment: 0, from: 0, to: moments, query: "", sort: "",
      first: 0, count: 100, grouping: 0, is_dark: false, ...changes };
    const done = this.wait((m): m is TableReply => m.type === "table" && m.request === request);
    this.engine.receive({ type: "table", request });
    return done;
  }

  /** What a row of a table is. */
  async tableInfo({ request }: TableReply, row: number): Promise<Info | null> {
    const done = this.wait((m): m is FromEngine & { type: "info" } => m.type === "info");
    this.engine.receive({ type: "tableInfo", ticket: 1, request, row });
    return (await done).info;
  }

  /** The rows of a table that has been asked for, as text. */
  async tableText({ request }: TableReply, format: TextFormat, most: number): Promise<TableText> {
    const done = this.wait((m): m is FromEngine & { type: "tableText" } => m.type === "tableText");
    this.engine.receive({ type: "tableText", ticket: 1, request, format, most });
    const { text } = await done;
    assert.ok(text !== null);
    return text;
  }

  /** What an id of a picture is. */
  async info({ set }: FrameReply, x: number, id: number): Promise<Info | null> {
    const done = this.wait((m): m is FromEngine & { type: "info" } => m.type === "info");
    this.engine.receive({ type: "info", ticket: 1, set, x, id });
    return (await done).info;
  }

  /** What an id of a map is. */
  async mapInfo({ set }: MapReply, id: number): Promise<Info | null> {
    const done = this.wait((m): m is FromEngine & { type: "info" } => m.type === "info");
    this.engine.receive({ type: "mapInfo", ticket: 1, set, id });
    return (await done).info;
  }

  /** Segments of a window, from all of its lives. */
  segments(changes: Partial<SegmentsRequest> = {}): Promise<SegmentsReply> {
    const { moments } = this.data.header.devices[0]!;
    const request: SegmentsRequest = { device: 0, grouping: 0, axis: "moment", from: 0, to: moments, width: 300,
      height: 400, ratio: 1, scroll: 0, stretch: 1, is_dark: false, query: "", lit: null, ...changes };
    const done = this.wait((m): m is SegmentsReply => (
      m.type === "segments" && m.request === request && m.waiting === 0));
    this.engine.receive({ type: "segments", request });
    return done;
  }

  /** What a pixel of a picture of segments is. */
  async segmentInfo({ set, ids, request: { width } }: SegmentsReply, x: number, y: number): Promise<Info | null> {
    const done = this.wait((m): m is FromEngine & { type: "info" } => m.type === "info");
    this.engine.receive({ type: "segmentInfo", ticket: 1, set, x, y, id: ids[y * width + x]! });
    return (await done).info;
  }

  async stack(fraction: number): Promise<Stack> {
    const done = this.wait((m): m is FromEngine & { type: "stack" } => m.type === "stack");
    this.engine.receive({ type: "stack", ticket: 1, fraction });
    const { stack } = await done;
    assert.ok(stack !== null);
    return stack;
  }
}
