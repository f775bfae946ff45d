// The window and the choices in the URL's fragment, so that a link shows the same. Where the URL is closed to the page
// (a sandbox), nothing is kept.

import { isOfBlocks } from "../format/header.ts";
import type { View } from "./view.ts";

const WRITE_MS = 400;

export interface Wanted {
  axis: string | null;
  from: number;
  to: number;
}

function number(text: string | null): number {
  return text === null || text === "" ? NaN : Number(text);
}

/** Takes over device, grouping and search. Axis and window can need the clock, so they are returned. */
export function readFragment(view: View): Wanted {
  let params = new URLSearchParams();
  try {
    params = new URLSearchParams(window.location.hash.slice(1));
  } catch {
    // No URL: nothing was asked for.
  }
  const device = number(params.get("device"));
  if (Number.isInteger(device)) view.selectDevice(device);
  const by = view.data.groupings.findIndex((one) => isOfBlocks(one) && one.name === params.get("by"));
  if (by >= 0) view.grouping = by;
  view.query = params.get("find") ?? "";
  view.tab = view.tabs.find((tab) => tab === params.get("view")) ?? view.tab;
  const [of, frames] = [params.get("flame"), params.get("frames")];
  if (of === "allocated" || of === "difference") view.setFlame({ of });
  if (frames === "module" && view.data.groupings.some(({ name }) => name === "module")) view.setFlame({ by: "module" });
  if (params.has("inverted")) view.setFlame({ is_inverted: true });
  if (params.has("own")) view.setFlame({ is_own: true });
  view.setTable({ rows: params.get("rows") ?? view.table.rows, sort: params.get("sort") ?? "" });
  const at = number(params.get("at"));
  if (at >= 0) view.setMoment(at);
  view.setMapZoom(number(params.get("zoom")));
  const [bottom, top] = [number(params.get("bottom")), number(params.get("top"))];
  if (top > bottom) view.setHeight(bottom, top);
  return { axis: params.get("axis"), from: number(params.get("from")), to: number(params.get("to")) };
}

function write(view: View): void {
  const params = new URLSearchParams();
  if (view.device > 0) params.set("device", String(view.device));
  const hasOtherFirst = view.tabs.includes("ranks") || view.tabs.includes("explain");
  if (view.tab !== "timeline" || hasOtherFirst) params.set("view", view.tab);
  if (view.flame.of !== "live") params.set("flame", view.flame.of);
  if (view.flame.by !== "stack") params.set("frames", view.flame.by);
  if (view.flame.is_inverted) params.set("inverted", "1");
  if (view.flame.is_own) params.set("own", "1");
  if (view.table.rows !== "stacks") params.set("rows", view.table.rows);
  if (view.table.sort !== "") params.set("sort", view.table.sort);
  if (view.moment !== null) params.set("at", String(view.moment));
  if (view.mapZoom > 1) params.set("zoom", String(view.mapZoom));
  params.set("by", view.data.groupings[view.grouping]?.name ?? "");
  if (view.axis === "time") params.set("axis", "time");
  if (view.from > 0 || view.to < view.end) {
    params.set("from", String(Math.round(view.from * 100) / 100));
    params.set("to", String(Math.round(view.to * 100) / 100));
  }
  if (view.top_bytes !== null) {
    params.set("bottom", String(Math.round(view.bottom_bytes)));
    params.set("top", String(Math.round(view.top_bytes)));
  }
  if (view.query !== "") params.set("find", view.query);
  try {
    window.history.replaceState(null, "", `#${params.toString()}`);
  } catch {
    // The page works without.
  }
}

export function keepFragment(view: View): void {
  let timer = 0;
  view.onChange(() => {
    window.clearTimeout(timer);
    timer = window.setTimeout(() => {
      write(view);
    }, WRITE_MS);
  });
}
