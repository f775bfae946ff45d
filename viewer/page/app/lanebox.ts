// The lanes above the chart: steps, phases, ranges, and single marks.

import { HUES, THEMES, hash } from "../engine/colours.ts";
import type { Lane, Lanes, Point } from "../engine/lanes.ts";
import { css } from "./dom.ts";
import type { Scale } from "./scale.ts";
import { fitText, textWidth } from "./surface.ts";
import { count } from "./units.ts";

export const LANE_HEIGHT = 20;
const GAP = 3;
/** Spans that are narrower are merged with their neighbours. */
const SPAN_MIN = 4;

/** What is drawn at a place of a lane, for pointing at it. */
export interface Drawn {
  x0: number;
  x1: number;
  y: number;
  text: string;
  span: { lane: string; name: string; start: number; end: number } | null;
  points: Point[];
  merged: number;
}

function momentsAt(lanes: Lanes | null): Point[] {
  return lanes?.points.filter((point) => point.kind === "instant" || point.kind === "snapshot") ?? [];
}

export function lanesHeight(lanes: Lanes | null): number {
  if (lanes === null) return 0;
  const rows = lanes.lanes.length + (momentsAt(lanes).length > 0 ? 1 : 0);
  return rows === 0 ? 0 : rows * (LANE_HEIGHT + GAP) + 3;
}

/** The first span that starts at or behind a moment. */
function firstFrom(starts: Float64Array, moment: number): number {
  let [low, high] = [0, starts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (starts[middle]! < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function drawLanes(context: CanvasRenderingContext2D, scale: Scale, isDark: boolean, top: number): Drawn[] {
  const { lanes } = scale.view;
  if (lanes === null) return [];
  const drawn: Drawn[] = [];
  const { left, width } = scale.plot;
  let y = top;
  for (const lane of lanes.lanes) {
    title(context, lane.title, left, y);
    context.save();
    context.beginPath();
    context.rect(left, y, width, LANE_HEIGHT);
    context.clip();
    drawn.push(...drawLane(context, scale, lane, lanes, y, isDark));
    context.restore();
    y += LANE_HEIGHT + GAP;
  }
  const points = momentsAt(lanes);
  if (points.length > 0) {
    title(context, "marks", left, y);
    drawn.push(...drawPoints(context, scale, points, y));
  }
  return drawn;
}

function title(context: CanvasRenderingContext2D, text: string, left: number, y: number): void {
  context.fillStyle = css("--dim");
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillText(text, left - 8, y + LANE_HEIGHT / 2);
}

function drawLane(context: CanvasRenderingContext2D, scale: Scale, lane: Lane, lanes: Lanes, y: number,
  isDark: boolean): Drawn[] {
  const { view, plot } = scale;
  const right = plot.left + plot.width;
  const drawn: Drawn[] = [];
  const seen = view.momentAt(view.from);
  const until = view.momentAt(view.to);
  let i = Math.max(0, firstFrom(lane.start, seen) - 1);
  for (let place = i; place < lane.start.length && lane.start[place]! <= until; place = i) {
    const x0 = scale.moment(lane.start[place]!);
    const x1 = scale.moment(lane.end[place]!);
    i = place + 1;
    if (x1 < plot.left) continue;
    const name = lanes.names[lane.name[place]!] ?? "";
    if (x1 - x0 >= SPAN_MIN) {
      const isNamed = drawSpan(context, name, Math.max(x0, plot.left), Math.min(x1, right), y, isDark,
        lane.title === "steps", place);
      if (!isNamed && x1 < right) drawBeside(context, name, x1, nextX(scale, lane, i, right), y);
      drawn.push({ x0, x1, y, text: name, merged: 1, points: [],
        span: { lane: lane.title, name, start: lane.start[place]!, end: lane.end[place]! } });
      continue;
    }
    // A run of narrow spans: on to the first that is wide or lies apart.
    let end = x1;
    while (i < lane.start.length) {
      const next = scale.moment(lane.start[i]!);
      const nextEnd = scale.moment(lane.end[i]!);
      if (next > right || next - end > SPAN_MIN || nextEnd - next >= SPAN_MIN) break;
      end = nextEnd;
      const beyond = view.momentAt(view.from + ((end + 1 - plot.left) / plot.width) * (view.to - view.from));
      const jump = firstFrom(lane.start, beyond) - 1;
      if (jump > i && scale.moment(lane.end[jump]!) - scale.moment(lane.start[jump]!) < SPAN_MIN) {
        i = jump;
        end = scale.moment(lane.end[i]!);
      }
      i++;
    }
    const merged = i - place;
    drawMerged(context, merged, lane.title, Math.max(x0, plot.left), Math.min(Math.max(end, x0 + 2), right), y);
    if (merged === 1) drawBeside(context, name, Math.max(end, x0 + 2), nextX(scale, lane, i, right), y);
    drawn.push({ x0, x1: end, y, text: "", span: null, points: [], merged });
  }
  return drawn;
}

/** Where the span at a place of a lane begins, or the end of the plot. */
function nextX(scale: Scale, lane: Lane, place: number, right: number): number {
  return place < lane.start.length ? Math.min(right, scale.moment(lane.start[place]!)) : right;
}

/** The name of a span that is too narrow for it, where nothing else is. */
function drawBeside(context: CanvasRenderingContext2D, name: string, x: number, room: number, y: number): void {
  if (textWidth(context, name) + 10 > room - x) return;
  context.fillStyle = css("--dim");
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(name, x + 4, y + LANE_HEIGHT / 2 + 0.5);
}

/** Returns whether the span has room for its name, or a part of it. */
function drawSpan(context: CanvasRenderingContext2D, name: string, x0: number, x1: number, y: number, isDark: boolean,
  isStep: boolean, place: number): boolean {
  const theme = isDark ? THEMES.dark : THEMES.light;
  context.fillStyle = isStep ? css(place % 2 === 0 ? "--lane-a" : "--lane-b")
    : theme.groups[hash(name) % HUES]!;
  context.globalAlpha = isStep ? 1 : theme.lane;
  context.beginPath();
  context.roundRect(x0 + 0.5, y + 1, Math.max(1, x1 - x0 - 1), LANE_HEIGHT - 2, 3);
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = css("--ink");
  context.textAlign = "left";
  context.textBaseline = "middle";
  return fitText(context, name, x0 + 6, y + LANE_HEIGHT / 2 + 0.5, x1 - x0 - 10);
}

/** Says that so many spans were too narrow to be drawn one by one. */
function drawMerged(context: CanvasRenderingContext2D, merged: number, lane: string, x0: number, x1: number,
  y: number): void {
  context.fillStyle = css("--lane-merged");
  context.fillRect(x0, y + 1, Math.max(1, x1 - x0 - 0.5), LANE_HEIGHT - 2);
  if (merged < 2) return;
  context.fillStyle = css("--dim");
  context.textAlign = "left";
  context.textBaseline = "middle";
  const what = lane === "" ? "ranges" : lane;
  const text = `${count(merged)} ${what}, merged`;
  const short = count(merged);
  const fits = textWidth(context, text) < x1 - x0 - 8;
  fitText(context, fits ? text : short, x0 + 5, y + LANE_HEIGHT / 2 + 0.5, x1 - x0 - 6);
}

function drawPoints(context: CanvasRenderingContext2D, scale: Scale, points: Point[], y: number): Drawn[] {
  const { left, width } = scale.plot;
  const shown = points.filter((point) => {
    const x = scale.moment(point.moment);
    return x >= left && x <= left + width;
  });
  const drawn: Drawn[] = [];
  for (const point of shown) {
    const x = scale.moment(point.moment);
    const last = drawn.at(-1);
    if (last !== undefined && x - last.x0 < SPAN_MIN + 2) {
      last.points.push(point);
      continue;
    }
    drawn.push({ x0: x - 4, x1: x + 5, y, text: point.name, span: null, points: [point], merged: 1 });
  }
  drawn.forEach((mark, place) => {
    const x = mark.x0 + 4;
    context.fillStyle = css("--accent");
    context.beginPath();
    context.moveTo(x, y + 3);
    context.lineTo(x + 4, y + LANE_HEIGHT / 2);
    context.lineTo(x, y + LANE_HEIGHT - 3);
    context.lineTo(x - 4, y + LANE_HEIGHT / 2);
    context.fill();
    context.fillStyle = css("--ink");
    context.textAlign = "left";
    context.textBaseline = "middle";
    const room = (drawn[place + 1]?.x0 ?? left + width) - x - 14;
    const text = mark.points.length > 1 ? `${mark.points.length} marks` : mark.text;
    fitText(context, text, x + 7, y + LANE_HEIGHT / 2 + 0.5, room);
  });
  return drawn;
}
