// The engine, in a worker or in the page, and the chunks that it asks for.

import type { Header } from "../format/header.ts";
import type { FlameReply, FlameRequest, FrameReply, FrameRequest, FromEngine, Info, MapReply, MapRequest,
  SegmentsReply, SegmentsRequest, Stack, ToEngine,
} from "../engine/protocol.ts";
import type { TableReply, TableRequest, TableText, TextFormat } from "../engine/tableprotocol.ts";
import { ChunkSource } from "./source.ts";

/** A worker that has not begun by then is given up. */
const START_MS = 4000;

type Answer = Info | Stack | TableText;

export interface Listener {
  frame(reply: FrameReply): void;
  map(reply: MapReply): void;
  flame(reply: FlameReply): void;
  segments(reply: SegmentsReply): void;
  table(reply: TableReply): void;
  device(message: FromEngine & { type: "device" }): void;
  minimap(message: FromEngine & { type: "minimap" }): void;
  fault(chunk: string, text: string): void;
}

export class EngineLink {
  private worker: Worker | null = null;
  private engine: { receive(message: ToEngine): void } | null = null;
  private isReady = false;
  private ticket = 0;
  private readonly asked = new Map<number, (answer: Answer | null) => void>();
  /** Sent and unanswered; the next picture waits for the answer, and only the newest of those that wait is drawn. */
  private isInFlight = false;
  private next: FrameRequest | null = null;
  private nextMap: MapRequest | null = null;
  private nextFlame: FlameRequest | null = null;
  private nextSegments: SegmentsRequest | null = null;
  private nextTable: TableRequest | null = null;
  private sent: ToEngine[] = [];
  private readonly source: ChunkSource;

  constructor(
    private readonly header: Header,
    private readonly listener: Listener,
  ) {
    this.source = new ChunkSource((id, text) => {
      this.send({ type: "chunk", id, text });
    }, (text) => {
      listener.fault("", text);
    });
    this.startWorker();
  }

  get isInPage(): boolean {
    return this.engine !== null;
  }

  private startWorker(): void {
    try {
      const script = document.getElementById("worker")?.textContent ?? "";
      const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
      this.worker = new Worker(url);
    } catch {
      this.startInPage();
      return;
    }
    this.worker.onmessage = (event: MessageEvent<FromEngine>) => {
      this.receive(event.data);
    };
    this.worker.onerror = (event) => {
      event.preventDefault();
      if (this.isReady) this.listener.fault("", `the worker failed: ${event.message}; reload the page`);
      else this.startInPage();
    };
    setTimeout(() => {
      if (!this.isReady) this.startInPage();
    }, START_MS);
    this.worker.postMessage({ type: "start", header: this.header } satisfies ToEngine);
  }

  private startInPage(): void {
    if (this.engine !== null) return;
    this.worker?.terminate();
    this.worker = null;
    this.engine = window.vramtapeEngine!((message) => {
      // As a worker's message, it comes after the current task.
      setTimeout(() => {
        this.receive(message);
      }, 0);
    });
    this.engine.receive({ type: "start", header: this.header });
    for (const message of this.sent) this.engine.receive(message);
  }

  private send(message: ToEngine): void {
    if (!this.isReady) this.sent.push(message);
    if (this.engine !== null) this.engine.receive(message);
    else this.worker?.postMessage(message);
  }

  private receive(message: FromEngine): void {
    switch (message.type) {
      case "ready":
        this.isReady = true;
        this.sent = [];
        return;
      case "need":
        this.source.need(message.id);
        return;
      case "frame":
        this.listener.frame(message);
        return;
      case "map":
        this.listener.map(message);
        return;
      case "flame":
        this.listener.flame(message);
        return;
      case "segments":
        this.listener.segments(message);
        return;
      case "table":
        this.listener.table(message);
        return;
      case "tableText":
        this.answer(message.ticket, message.text);
        return;
      case "taken":
        this.isInFlight = false;
        this.sendNext();
        return;
      case "info":
        this.answer(message.ticket, message.info);
        return;
      case "stack":
        this.answer(message.ticket, message.stack);
        return;
      case "device":
        this.listener.device(message);
        return;
      case "minimap":
        this.listener.minimap(message);
        return;
      case "fault":
        this.listener.fault(message.chunk, message.text);
    }
  }

  private answer(ticket: number, value: Answer | null): void {
    this.asked.get(ticket)?.(value);
    this.asked.delete(ticket);
  }

  draw(request: FrameRequest): void {
    this.next = request;
    this.sendNext();
  }

  drawMap(request: MapRequest): void {
    this.nextMap = request;
    this.sendNext();
  }

  drawFlame(request: FlameRequest): void {
    this.nextFlame = request;
    this.sendNext();
  }

  drawSegments(request: SegmentsRequest): void {
    this.nextSegments = request;
    this.sendNext();
  }

  drawTable(request: TableRequest): void {
    this.nextTable = request;
    this.sendNext();
  }

  private sendNext(): void {
    const { next, nextMap, nextFlame, nextSegments, nextTable } = this;
    if (this.isInFlight || (next ?? nextMap ?? nextFlame ?? nextSegments ?? nextTable) === null) return;
    this.isInFlight = true;
    if (next !== null) {
      this.next = null;
      this.send({ type: "frame", request: next });
    } else if (nextMap !== null) {
      this.nextMap = null;
      this.send({ type: "map", request: nextMap });
    } else if (nextFlame !== null) {
      this.nextFlame = null;
      this.send({ type: "flame", request: nextFlame });
    } else if (nextSegments !== null) {
      this.nextSegments = null;
      this.send({ type: "segments", request: nextSegments });
    } else if (nextTable !== null) {
      this.nextTable = null;
      this.send({ type: "table", request: nextTable });
    }
  }

  /** Gives back the memory of a picture; what it held is gone. */
  recycle(...buffers: ArrayBuffer[]): void {
    const kept = buffers.filter((buffer) => buffer.byteLength > 0);
    if (this.engine !== null) this.engine.receive({ type: "recycle", buffers: kept });
    else this.worker?.postMessage({ type: "recycle", buffers: kept } satisfies ToEngine, kept);
  }

  askDevice(device: number): void {
    this.send({ type: "device", device });
  }

  askMinimap(device: number, axis: "moment" | "time", width: number): void {
    this.send({ type: "minimap", device, axis, width });
  }

  info(set: number, x: number, id: number): Promise<Info | null> {
    return new Promise((resolve) => {
      this.asked.set(++this.ticket, resolve as (answer: Answer | null) => void);
      this.send({ type: "info", ticket: this.ticket, set, x, id });
    });
  }

  mapInfo(set: number, id: number): Promise<Info | null> {
    return new Promise((resolve) => {
      this.asked.set(++this.ticket, resolve as (answer: Answer | null) => void);
      this.send({ type: "mapInfo", ticket: this.ticket, set, id });
    });
  }

  segmentInfo(set: number, x: number, y: number, id: number): Promise<Info | null> {
    return new Promise((resolve) => {
      this.asked.set(++this.ticket, resolve as (answer: Answer | null) => void);
      this.send({ type: "segmentInfo", ticket: this.ticket, set, x, y, id });
    });
  }

  stack(fraction: number): Promise<Stack | null> {
    return new Promise((resolve) => {
      this.asked.set(++this.ticket, resolve as (answer: Answer | null) => void);
      this.send({ type: "stack", ticket: this.ticket, fraction });
    });
  }

  /** The block or group of a row of a table. */
  tableInfo(request: TableRequest, row: number): Promise<Info | null> {
    return new Promise((resolve) => {
      this.asked.set(++this.ticket, resolve as (answer: Answer | null) => void);
      this.send({ type: "tableInfo", ticket: this.ticket, request, row });
    });
  }

  /** The first of the matching rows of a table as text. */
  tableText(request: TableRequest, format: TextFormat, most: number): Promise<TableText | null> {
    return new Promise((resolve) => {
      this.asked.set(++this.ticket, resolve as (answer: Answer | null) => void);
      this.send({ type: "tableText", ticket: this.ticket, request, format, most });
    });
  }
}
