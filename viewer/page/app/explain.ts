// A moment explained: the verdict, the numbers that prove it, and the pinning set where it lies.

import { type ExplainedMoment, type ExplainedSegment, parseExplained } from "../format/explained.ts";
import { byId, css, make, setText } from "./dom.ts";
import { PlotData } from "./plotdata.ts";
import { bytes, count, exactBytes, share } from "./units.ts";
import type { View } from "./view.ts";

/** Height of a segment's bar, and the least width of a block of the pinning set, in pixels. */
const BAR_PX = 18;
const PINNING_PX = 2;

export class Explain {
  private readonly data: PlotData<ExplainedMoment>;
  private filled: ExplainedMoment | null = null;

  constructor(
    private readonly view: View,
    fault: (text: string) => void,
    ready: () => void,
  ) {
    const arrived = (): void => {
      this.update();
      ready();
    };
    this.data = new PlotData(view, "explain", parseExplained, arrived, fault);
    new ResizeObserver(() => { this.paint(); }).observe(byId("explain-segments"));
  }

  update(): void {
    if (this.view.tab !== "explain") return;
    const found = this.data.get();
    const none = "This page has no explanation of this device.";
    setText(byId("explain-heading"), found === null ? none : found?.heading ?? "");
    if (found && found !== this.filled) this.fill(found);
    byId("explain-pinning-section").hidden = !found?.pinning;
    this.paint();
  }

  private fill(found: ExplainedMoment): void {
    this.filled = found;
    setText(byId("explain-also"), found.also.length > 0 ? `Also possible: ${found.also.join(", ")}.` : "");
    byId("explain-arithmetic").replaceChildren(...found.arithmetic.map(({ name, how, bytes: size }) => {
      const cell = make("td", "", bytes(size));
      cell.title = exactBytes(size);
      return make("tr", "", "", make("td", "words", name), cell, make("td", "words", how));
    }));
    byId("explain-remedies").replaceChildren(...found.remedies.map((text) => make("li", "", text)));
    setText(byId("explain-remedies-empty"), found.remedies.length > 0 ? "" : "No change is known to help.");
    this.fillPinning(found);
    const { segments, segments_left_out: left } = found;
    byId("explain-segments").replaceChildren(...segments.map((segment, place) => this.row(segment, place)));
    setText(byId("explain-more"), left > 0 ? `${count(left)} more segments are not drawn.` : "");
    const show = byId("explain-show");
    show.onclick = () => {
      this.view.setMoment(found.moment);
      this.view.selectTab("map");
    };
  }

  private fillPinning({ pinning, request }: ExplainedMoment): void {
    if (pinning === null) return;
    const { blocks, left_out: left, bytes: size, lower_bound_bytes: bound } = pinning;
    const number = blocks.length + left;
    const exact = bound < size ? `, and no set has less than ${bytes(bound)}` : ", and no set with fewer bytes does";
    setText(byId("explain-pinning"), `Pinning set: ${count(number)} live ${number === 1 ? "block" : "blocks"}, ${
      bytes(size)}. Freed before the request of ${bytes(request?.bytes ?? 0)}, ${
      number === 1 ? "it serves" : "they serve"} it${exact}.`);
    byId("explain-blocks").replaceChildren(...blocks.map((block) => make("tr", "", "",
      make("td", "", bytes(block.bytes)), make("td", "", block.segment === null ? "" : String(block.segment + 1)),
      make("td", "words", block.code), make("td", "words", block.module ?? ""))));
    setText(byId("explain-blocks-more"), left > 0 ? `${count(left)} more blocks are not listed.` : "");
  }

  private row(segment: ExplainedSegment, place: number): HTMLElement {
    const { pool, stream, bytes: size, pinning_bytes: pinning, runs } = segment;
    const free = runs.reduce((sum, run) => sum + (run.state === "free" ? run.bytes : 0), 0);
    const label = `${place + 1}: ${bytes(size)}, ${pool}, stream ${stream}, ${share(free, size) || "0 %"} free${
      pinning > 0 ? `, ${bytes(pinning)} of the pinning set` : ""}`;
    const canvas = make("canvas");
    canvas.setAttribute("aria-hidden", "true");
    return make("div", "explained", "", make("p", "dim", label), canvas);
  }

  /** Draws the bars; the widest segment, or the request, takes all of the width. */
  private paint(): void {
    const found = this.filled;
    if (this.view.tab !== "explain" || found === null) return;
    const widest = Math.max(1, found.request?.bytes ?? 0, ...found.segments.map((segment) => segment.bytes));
    const colours = { live: css("--map-allocated"), free: css("--map-reserved"), pinning: css("--alarm"),
      "pending free": css("--warning") };
    const width = byId("explain-segments").clientWidth;
    byId("explain-request").style.width = `${(100 * (found.request?.bytes ?? 0)) / widest}%`;
    byId("explain-request-section").hidden = found.request === null;
    setText(byId("explain-request-text"), found.request === null ? ""
      : `The request: ${bytes(found.request.bytes)} by ${found.request.code}`);
    document.querySelectorAll<HTMLCanvasElement>("#explain-segments canvas").forEach((canvas, place) => {
      const segment = found.segments[place]!;
      const full = Math.max(2, (width * segment.bytes) / widest);
      const ratio = window.devicePixelRatio;
      canvas.width = Math.round(full * ratio);
      canvas.height = BAR_PX * ratio;
      canvas.style.width = `${full}px`;
      canvas.style.height = `${BAR_PX}px`;
      const context = canvas.getContext("2d")!;
      context.scale(ratio, ratio);
      const scale = full / segment.bytes;
      // The pinning set comes last, so that no neighbour hides it.
      const order = [...segment.runs].sort((a, b) => Number(a.state === "pinning") - Number(b.state === "pinning"));
      for (const { offset, bytes: size, state } of order) {
        const least = state === "pinning" ? PINNING_PX : 0;
        context.fillStyle = colours[state];
        context.fillRect(Math.min(offset * scale, full - least), 0, Math.max(size * scale, least), BAR_PX);
      }
    });
  }
}
