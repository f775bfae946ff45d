// Starts the page.

import { type Header, parseHeader } from "../format/header.ts";
import { Clock } from "../engine/clock.ts";
import { AddressMap } from "./addressmap.ts";
import { Chart } from "./chart.ts";
import { byId, onScheme } from "./dom.ts";
import { Explain } from "./explain.ts";
import { keepFragment, readFragment, type Wanted } from "./fragment.ts";
import { emptyText, fillDevice, fillSelects, showFault, showFound, showStatus } from "./furniture.ts";
import { FlameGraph } from "./flame.ts";
import { FlameInput } from "./flameinput.ts";
import { HookState } from "./hook.ts";
import { Input } from "./input.ts";
import { Legend } from "./legend.ts";
import { EngineLink } from "./link.ts";
import { MapInput } from "./mapinput.ts";
import { Minimap } from "./minimap.ts";
import { MomentField } from "./momentfield.ts";
import { Pinned } from "./pinned.ts";
import { Ranks } from "./ranks.ts";
import { SegmentInput } from "./segmentinput.ts";
import { Segments } from "./segments.ts";
import { isServed } from "./source.ts";
import { Strategies } from "./strategies.ts";
import { TableInput } from "./tableinput.ts";
import { TableView } from "./tableview.ts";
import { Tabs } from "./tabs.ts";
import { Tip } from "./tip.ts";
import { View } from "./view.ts";
import { Waste } from "./waste.ts";

/** Messages are the page's only output; a page without a header has nothing else. */
function fail(text: string): void {
  showFault(text);
  byId("app").classList.add("failed");
}

function apply(view: View, wanted: Wanted): void {
  if (wanted.axis === "time") view.selectAxis("time");
  if (wanted.to > wanted.from) view.setWindow(wanted.from, wanted.to);
}

function start(header: Header): void {
  const view = new View(header);
  let wanted: Wanted | null = readFragment(view);
  const link = new EngineLink(header, {
    frame: (reply) => {
      chart.show(reply);
      hook.show(reply);
      if (view.tab === "timeline") {
        showStatus(view, reply);
        legend.show(reply);
        tip.follow();
      }
      ready();
    },
    map: (reply) => {
      map.show(reply);
      hook.showMap(reply);
      if (view.tab === "map") {
        showFound(reply.found, "at this moment");
        legend.show({ ...reply, peak: reply.numbers });
      }
      ready();
    },
    flame: (reply) => {
      flame.show(reply);
      hook.showFlame(reply);
      if (view.tab === "flame") showFound(reply.found, "in the graph", "frame");
      ready();
    },
    segments: (reply) => {
      segments.show(reply);
      hook.showSegments(reply);
      if (view.tab === "segments") {
        showFound(reply.found, "at the peak");
        legend.show(reply);
      }
      ready();
    },
    table: (reply) => {
      if (view.tab === "table") table.show(reply);
      hook.showTable(reply);
      ready();
    },
    device: (message) => {
      if (message.device !== view.device) return;
      const { time_step_moments: step, moments } = view.data;
      view.lanes = message.lanes;
      view.clock = message.times === null ? null : new Clock(message.times, step, moments);
      if (wanted?.axis === "time") apply(view, wanted);
      wanted = null;
      view.changed("data");
    },
    minimap: (message) => {
      if (ranks.show(message) && view.tab === "ranks") ready();
      minimap.show(message);
    },
    fault: (_, text) => {
      showFault(text);
    },
  });
  const chart = new Chart(view, (request) => {
    link.draw(request);
  }, (...buffers) => {
    link.recycle(...buffers);
  });
  const pinned = new Pinned(view);
  const tip = new Tip(view, chart, link, pinned);
  const map = new AddressMap(view, link, pinned);
  const flame = new FlameGraph(view, link);
  const segments = new Segments(view, link, pinned);
  const table = new TableView(view, link, pinned);
  const ranks = new Ranks(view, (place, width) => {
    link.askMinimap(place, "moment", width);
  });
  const waste = new Waste(view, showFault, ready);
  const strategies = new Strategies(view, showFault, ready);
  const explain = new Explain(view, showFault, ready);
  const momentField = new MomentField(view);
  const tabs = new Tabs(view);
  const minimap = new Minimap(view, chart, segments, (width) => {
    link.askMinimap(view.device, view.axis, width);
  });
  const legend = new Legend(view);
  const hook = new HookState(view, chart, map, flame, segments, table, ranks, waste, strategies, link);
  const help = byId<HTMLDialogElement>("help");
  const openHelp = (): void => {
    if (!help.open) help.showModal();
  };
  new Input(view, chart, tip, new MapInput(view, map), [new FlameInput(view, flame), new SegmentInput(view, segments),
    new TableInput(table), waste.panel, strategies.panel], openHelp);
  fillSelects(view);
  let device = -1;
  const update = (): void => {
    if (device !== view.device) {
      device = view.device;
      tip.clear();
      chart.forget();
      map.forget();
      flame.forget();
      segments.forget();
      table.forget();
      if (!view.isEmpty) link.askDevice(device);
    }
    fillDevice(view);
    byId("empty").textContent = emptyText(view);
    chart.update();
    map.update();
    flame.update();
    segments.update();
    table.update();
    ranks.update();
    waste.update();
    strategies.update();
    explain.update();
    momentField.update();
    minimap.draw();
  };
  tabs.show();
  // An axis of time has to wait for its clock; the whole run in moments is drawn until then.
  if (wanted.axis !== "time") apply(view, wanted);
  view.onChange((change) => {
    if (change === "tab") {
      tip.hide();
      segments.hide();
      tabs.show();
    }
    if (change === "data" || change === "tab") {
      update();
      return;
    }
    if (change === "moment") chart.plan();
    else if (change !== "flame" && change !== "table") chart.update();
    if (change === "moment" || change === "look") map.update();
    flame.update();
    waste.update();
    strategies.update();
    if (change === "moment") segments.plan();
    else if (change !== "flame" && change !== "table") segments.update();
    table.update();
    momentField.update();
    if (change !== "look") minimap.draw();
  });
  keepFragment(view);
  onScheme(update);
  new ResizeObserver(() => { minimap.draw(); }).observe(byId("minimap").parentElement!);
  byId("zoom-in").addEventListener("click", () => { view.zoom(0.5, 0.5); });
  byId("zoom-out").addEventListener("click", () => { view.zoom(2, 0.5); });
  byId("whole").addEventListener("click", () => { view.reset(); });
  byId("open-help").addEventListener("click", openHelp);
  byId("close-help").addEventListener("click", () => { help.close(); });
  window.addEventListener("beforeprint", () => { byId<HTMLDetailsElement>("about").open = true; });
  update();
  if (view.isEmpty) ready();
}

let isReady = false;

/** The first picture with data is there. */
function ready(): void {
  if (isReady) return;
  isReady = true;
  performance.mark("vramtape:first-frame");
  document.documentElement.dataset.ready = "1";
}

function boot(): void {
  byId("stalled").remove();
  document.addEventListener("DOMContentLoaded", () => {
    // The last element, behind all chunks.
    if (document.getElementById("end") === null) {
      showFault(`This page is cut off: ${isServed ? "reload it" : "copy or write it again"}. The parts before the cut `
        + "are shown.");
    }
  });
  const element = document.getElementById("header");
  if (element === null) {
    fail("The page has no header: it was not written by `vramtape view`, or it is cut off.");
    return;
  }
  try {
    const header = parseHeader(element.textContent);
    byId("producer").textContent = header.producer;
    if (isServed) byId("origin").textContent = "It is loaded in parts from vramtape, and makes no other requests.";
    if (header.devices.length > 0) start(header);
    else {
      byId("empty").textContent = "This recording has no device: the program allocated no GPU memory.";
      byId("app").classList.add("bare");
    }
  } catch (error) {
    fail(error instanceof Error ? error.message : String(error));
  }
}

boot();
