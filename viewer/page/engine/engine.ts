// Everything between the chunks and the pixels. Runs in a worker, or in the page where none can start.

import type { Header } from "../format/header.ts";
import { NO_NAMES } from "../format/rest.ts";
import type { ChunkError } from "../format/varint.ts";
import { infoAt, stackAt } from "./answers.ts";
import { Chunks } from "./chunks.ts";
import { pixelEdges } from "./clock.ts";
import { Dataset } from "./dataset.ts";
import { Flamer } from "./flamer.ts";
import { arrange } from "./lanes.ts";
import { chooseColumns, levelFor } from "./levels.ts";
import { Mapper } from "./mapper.ts";
import { newColumns } from "./picture.ts";
import type { Axis, FlameRequest, FrameRequest, FromEngine, MapRequest, SegmentsRequest, ToEngine,
} from "./protocol.ts";
import { Renderer } from "./render.ts";
import { Segmenter } from "./segmenter.ts";
import { Tabler } from "./tabler.ts";
import type { TableRequest } from "./tableprotocol.ts";
import { Tiles } from "./tiles.ts";

/** Between two pictures of one window while its chunks arrive. */
const REDRAW_MS = 80;

interface MinimapRequest {
  device: number;
  axis: Axis;
  width: number;
}

export class Engine {
  private readonly chunks: Chunks;
  private datasets: Dataset[] = [];
  private readonly renderer: Renderer;
  private readonly mapper: Mapper;
  private readonly flamer = new Flamer();
  private readonly segmenter: Segmenter;
  private readonly tabler = new Tabler();
  /** Asked for and not answered, or answered from less than all of its chunks. */
  private frame: FrameRequest | null = null;
  private map: MapRequest | null = null;
  private flame: FlameRequest | null = null;
  private segments: SegmentsRequest | null = null;
  private table: TableRequest | null = null;
  /** By device and width. */
  private readonly minimaps = new Map<string, MinimapRequest>();
  private device: number | null = null;
  private isPlanned = false;
  /** Drawn from less than all of its chunks. */
  private drawnInPart: FrameRequest | null = null;

  constructor(private readonly post: (message: FromEngine, transfer?: Transferable[]) => void) {
    const fault = (error: ChunkError): void => {
      post({ type: "fault", chunk: error.chunk, text: error.message });
    };
    this.renderer = new Renderer(fault);
    this.mapper = new Mapper(this.renderer.spares, fault);
    this.segmenter = new Segmenter(this.renderer.spares, fault);
    this.chunks = new Chunks(
      (id) => {
        post({ type: "need", id });
      },
      () => {
        this.plan();
      },
      fault,
    );
  }

  receive(message: ToEngine): void {
    switch (message.type) {
      case "start":
        this.start(message.header);
        return;
      case "chunk":
        void this.chunks.receive(message.id, message.text);
        return;
      case "device":
        this.device = message.device;
        break;
      case "frame":
        this.frame = message.request;
        this.work();
        this.post({ type: "taken" });
        return;
      case "map":
        this.map = message.request;
        this.work();
        this.post({ type: "taken" });
        return;
      case "flame":
        this.flame = message.request;
        this.work();
        this.post({ type: "taken" });
        return;
      case "segments":
        this.segments = message.request;
        this.work();
        this.post({ type: "taken" });
        return;
      case "table":
        this.table = message.request;
        this.work();
        this.post({ type: "taken" });
        return;
      case "tableInfo": {
        const data = this.datasets[message.request.device];
        const info = data === undefined ? null : this.tabler.info(data, message.request, message.row);
        this.post({ type: "info", ticket: message.ticket, info });
        return;
      }
      case "tableText": {
        const { request, format, most, ticket } = message;
        const data = this.datasets[request.device];
        const text = data === undefined ? null : this.tabler.text(data, request, format, most);
        this.post({ type: "tableText", ticket, text });
        return;
      }
      case "minimap":
        this.minimaps.set(`${message.device} ${message.width}`, message);
        break;
      case "recycle":
        this.renderer.spares.give(message.buffers);
        return;
      case "info": {
        const { drawn } = this.renderer;
        const isSame = drawn !== null && (drawn.set?.number ?? 0) === message.set;
        const info = isSame ? infoAt(drawn, message.x, message.id) : null;
        this.post({ type: "info", ticket: message.ticket, info });
        return;
      }
      case "mapInfo":
        this.post({ type: "info", ticket: message.ticket, info: this.mapper.info(message.set, message.id) });
        return;
      case "segmentInfo": {
        const info = this.segmenter.info(message.set, message.x, message.y, message.id);
        this.post({ type: "info", ticket: message.ticket, info });
        return;
      }
      case "stack": {
        const { drawn } = this.renderer;
        const width = drawn?.request.width ?? 0;
        const x = Math.min(Math.max(Math.floor(message.fraction * width), 0), width - 1);
        this.post({ type: "stack", ticket: message.ticket, stack: drawn === null ? null : stackAt(drawn, x) });
        return;
      }
    }
    this.work();
  }

  private start(header: Header): void {
    this.datasets = header.devices.map((device, place) => new Dataset(this.chunks, place, device));
    this.post({ type: "ready" });
  }

  /** Works once after all chunks that arrive together. A picture that is there in part is not drawn again for each. */
  private plan(): void {
    if (this.isPlanned) return;
    this.isPlanned = true;
    const isUrgent = this.frame !== this.drawnInPart || this.map !== null || this.flame !== null
      || this.segments !== null || this.table !== null || this.chunks.waiting === 0;
    setTimeout(() => {
      this.isPlanned = false;
      this.work();
    }, isUrgent ? 0 : REDRAW_MS);
  }

  private work(): void {
    if (this.frame !== null) this.drawFrame(this.frame);
    if (this.map !== null) this.drawMap(this.map);
    if (this.flame !== null) this.drawFlame(this.flame);
    if (this.segments !== null) this.drawSegments(this.segments);
    if (this.table !== null) this.drawTable(this.table);
    for (const [key, request] of this.minimaps) if (this.drawMinimap(request)) this.minimaps.delete(key);
    if (this.device !== null) this.describe(this.device);
  }

  private drawFrame(request: FrameRequest): void {
    const data = this.datasets[request.device];
    if (data === undefined) return;
    const reply = this.renderer.draw(data, request, () => this.chunks.waiting);
    if (reply === null) return;
    this.drawnInPart = reply.waiting > 0 ? request : null;
    if (reply.waiting === 0) this.frame = null;
    this.post(reply, [reply.pixels.buffer, reply.ids.buffer, reply.columns.moment.buffer]);
  }

  private drawMap(request: MapRequest): void {
    const data = this.datasets[request.device];
    const reply = data === undefined ? null : this.mapper.draw(data, request);
    if (reply === null) return;
    this.map = null;
    this.post(reply, [reply.pixels.buffer]);
  }

  private drawFlame(request: FlameRequest): void {
    const data = this.datasets[request.device];
    const reply = data === undefined ? null : this.flamer.draw(data, request);
    if (reply === null) return;
    this.flame = null;
    this.post(reply);
  }

  private drawSegments(request: SegmentsRequest): void {
    const data = this.datasets[request.device];
    const reply = data === undefined ? null : this.segmenter.draw(data, request);
    if (reply === null) return;
    if (reply.waiting === 0) this.segments = null;
    this.post(reply, [reply.pixels.buffer, reply.ids.buffer]);
  }

  private drawTable(request: TableRequest): void {
    const data = this.datasets[request.device];
    const reply = data === undefined ? null : this.tabler.draw(data, request);
    if (reply === null) return;
    this.table = null;
    this.post(reply);
  }

  /** Whether all of it was there. */
  private drawMinimap({ device: place, axis, width }: MinimapRequest): boolean {
    const data = this.datasets[place];
    const clock = axis === "time" ? data?.clock() : null;
    if (data === undefined || clock === undefined) return false;
    const { moments } = data.device;
    const level = levelFor(data.device, moments, width);
    const tiles = new Tiles(data, 0);
    tiles.ask(level, 0, (data.device.levels[level]?.columns ?? 1) - 1, false);
    const to = clock === null ? moments : Math.max(1, clock.last_ns);
    const columns = newColumns(width, this.renderer.spares);
    const chosen = chooseColumns(tiles, level, pixelEdges(width, 0, to, clock), columns, false);
    if (!chosen.level.every((use) => use === level)) return false;
    this.post({ type: "minimap", device: place, axis, allocated: columns.allocated, reserved: columns.reservedMost });
    return true;
  }

  private describe(place: number): void {
    const data = this.datasets[place];
    if (data === undefined) return;
    const [marks, names, times] = [data.marks(), data.names(), data.times()];
    if (marks === undefined || names === undefined || times === undefined) return;
    this.device = null;
    const lanes = arrange(marks, names ?? NO_NAMES, data.device.moments);
    this.post({ type: "device", device: place, times, lanes });
  }
}
