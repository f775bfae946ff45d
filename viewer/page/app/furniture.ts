// Everything around the chart: title, key numbers, selects, facts, messages.

import type { Found, FrameReply } from "../engine/protocol.ts";
import { isOfBlocks } from "../format/header.ts";
import { byId, make, setText } from "./dom.ts";
import { isServed } from "./source.ts";
import { Tip } from "./tip.ts";
import { bytes, count } from "./units.ts";
import type { View } from "./view.ts";

/** Messages that are shown; the rest is counted. */
const FAULTS_MAX = 4;

function option(value: number | string, text: string): HTMLOptionElement {
  const element = make("option", "", text);
  element.value = String(value);
  return element;
}

function deviceName(view: View, place: number): string {
  const { run, device, name } = view.header.devices[place]!;
  return `${run} · device ${device}${name === "" ? "" : ` · ${name}`}`;
}

export function fillSelects(view: View): void {
  const devices = byId<HTMLSelectElement>("device");
  devices.replaceChildren(...view.header.devices.map((_, place) => option(place, deviceName(view, place))));
  byId("device-field").hidden = view.header.devices.length < 2;
  devices.addEventListener("change", () => {
    view.selectDevice(Number(devices.value));
    view.changed("data");
  });
  const groupings = byId<HTMLSelectElement>("grouping");
  groupings.addEventListener("change", () => {
    view.selectGrouping(Number(groupings.value));
  });
  const axis = byId<HTMLSelectElement>("axis");
  axis.addEventListener("change", () => {
    view.selectAxis(axis.value === "time" ? "time" : "moment");
  });
  const search = byId<HTMLInputElement>("search");
  search.addEventListener("input", () => {
    view.find(search.value);
  });
}

/** What depends on the device. */
export function fillDevice(view: View): void {
  const { data } = view;
  const { peaks } = data;
  byId("run").textContent = data.run;
  byId("run").title = data.run;
  byId("gpu").textContent = `device ${data.device}${data.name === "" ? "" : ` · ${data.name}`}`;
  byId<HTMLSelectElement>("device").value = String(view.device);
  byId<HTMLSelectElement>("grouping").replaceChildren(...data.groupings.flatMap((one, place) => (
    isOfBlocks(one) ? [option(place, one.name)] : [])));
  byId<HTMLSelectElement>("grouping").value = String(view.grouping);
  const axis = byId<HTMLSelectElement>("axis");
  axis.value = view.axis;
  axis.querySelector<HTMLOptionElement>("option[value=time]")!.disabled = !data.has_clock;
  byId<HTMLInputElement>("search").value = view.query;
  const figures: [string, string, string][] = [
    ["peak allocated", bytes(peaks.allocated_bytes), `at moment ${count(peaks.allocated_moment)}`],
    ["peak reserved", bytes(peaks.reserved_bytes), `at moment ${count(peaks.reserved_moment)}`],
  ];
  if (data.capacity_bytes !== null) {
    const part = (100 * peaks.reserved_bytes) / Math.max(1, data.capacity_bytes);
    figures.push(["capacity", bytes(data.capacity_bytes), `${part.toFixed(0)} % reserved at the peak`]);
  }
  figures.push(["allocations", count(data.lives.count), `in ${count(data.records)} records`]);
  byId("figures").replaceChildren(...figures.map(([name, value, note]) => (
    make("div", "", "", make("dt", "", name), make("dd", "", value), make("dd", "note", note)))));
  byId("facts").replaceChildren(...data.facts.flatMap(([name, value]) => (
    [make("dt", "", name), make("dd", "", value)])));
  byId("about").hidden = data.facts.length === 0;
  const warnings: string[] = [];
  if (data.lost > 0) warnings.push(`Records that the recorder lost: ${count(data.lost)}. Their effects are unknown.`);
  if (data.left_out > 0) {
    warnings.push(`Records on the tape that are not in this page: ${count(data.left_out)}.`);
  }
  byId("warnings").replaceChildren(...warnings.map((text) => make("p", "", text)));
}

export function emptyText(view: View): string {
  const { data } = view;
  if (data.records === 0) return "The recording has no records of this device.";
  if (data.peaks.allocated_bytes === 0 && data.peaks.reserved_bytes === 0) {
    return "Nothing was allocated or reserved on this device.";
  }
  return "";
}

/** The level of detail, and what of it is missing. */
export function showStatus(view: View, reply: FrameReply): void {
  const { detail } = reply;
  const parts: string[] = [];
  if (detail.mode === "blocks") {
    const column = count(view.data.levels[0]?.column_moments ?? 0);
    const hasPending = reply.columns.active.some((bytes, x) => bytes > reply.columns.allocated[x]!);
    parts.push(`Exact: ${count(detail.blocks)} blocks${hasPending
      ? `; bytes in use by other streams (hatched) by columns of ${column} moments` : ""}.`);
  }
  else if (detail.mode === "bands") {
    parts.push(`Columns of ${count(detail.column_moments)} moments, each drawn at its peak; the largest 64 groups of `
      + "each tile, the rest as other.");
  }
  if (view.hasEnvelopes) {
    parts.push("An envelope is as high as the most that its private pool reserved so far.");
    if (reply.other_envelopes > 0) parts.push(`${count(reply.other_envelopes)} lower envelopes have no border.`);
  }
  const deeper = view.lanes?.deeper ?? 0;
  if (deeper > 0) parts.push(`${count(deeper)} ranges are nested too deeply to be drawn.`);
  if (detail.mode === "bands" && detail.is_coarser) parts.push("Loading finer columns …");
  else if (reply.waiting > 0) parts.push("Loading …");
  const status = byId("detail");
  setText(status, parts.join(" "));
  status.classList.toggle("loading", reply.waiting > 0);
  setText(byId("peak"), Tip.peakText(view, reply.peak.moment, reply.peak.allocated_bytes));
  showFound(reply.found, "at the peak");
}

/** The result of the search. */
export function showFound(found: Found | null, when: string, what = "group"): void {
  setText(byId("found"), found === null ? "" : found.error !== "" ? found.error
    : `${count(found.groups)} ${what}${found.groups === 1 ? "" : "s"}, ${bytes(found.at_peak_bytes)} ${when}`);
  byId("found").classList.toggle("error", found !== null && found.error !== "");
}

const faults: string[] = [];

/** Says in the page what cannot be read. */
export function showFault(text: string): void {
  if (faults.includes(text)) return;
  faults.push(text);
  const more = faults.length - FAULTS_MAX;
  const list = faults.slice(0, FAULTS_MAX).map((fault) => make("p", "", fault));
  if (more > 0) list.push(make("p", "", `and ${count(more)} more like these`));
  byId("faults").replaceChildren(make("p", "lead", `Part of this page's data cannot be read. ${isServed
    ? "Reload the page, or run `vramtape view --serve` again and open the URL that it prints."
    : "Write the page again with `vramtape view`, or copy the file again."}`), ...list);
  byId("faults").hidden = false;
}
