// The flame graph in words.

import type { FlameRect, FlameReply } from "../engine/protocol.ts";
import { make } from "./dom.ts";
import { bytes, count, exactBytes, share } from "./units.ts";
import type { View } from "./view.ts";

function blocks(number: number): string {
  return `${count(number)} ${number === 1 ? "block" : "blocks"}`;
}

/** A rectangle, for its tooltip. */
export function rectText(rect: FlameRect, { total_bytes: total, request }: FlameReply): HTMLElement[] {
  const title = make("p", "title", "", make("span", "", rect.label));
  const list = make("dl", "facts");
  const add = (name: string, text: string): void => {
    if (text !== "") list.append(make("dt", "", name), make("dd", "", text));
  };
  add("at", rect.detail);
  add(request.of === "allocated" ? "allocated" : request.of === "live" ? "live" : "changed", exactBytes(rect.bytes));
  add("share", share(rect.bytes, total));
  add(request.of === "allocated" ? "allocations" : "blocks", count(rect.blocks));
  return [title, list];
}

/** The sentence below the graph: what it adds up, and what of it is not drawn. */
export function flameNote(view: View, reply: FlameReply): string {
  const { request: { of, moment, from, to }, total_bytes: total, more_bytes: more, less_bytes: less, narrow } = reply;
  if (reply.is_too_much) return "";
  const window = `moments ${count(from)} to ${count(to - 1)}`;
  const sum = of === "live" ? `${bytes(total)} in ${blocks(reply.blocks)} at moment ${count(moment)}${
    view.moment === null ? ", the peak" : ""}.`
    : of === "allocated" ? `${bytes(total)} in ${count(reply.blocks)} allocations, ${window}.`
      : `${bytes(more)} more and ${bytes(less)} less at the end of ${window}.`;
  const left = narrow > 0 ? ` ${count(narrow)} narrower than a pixel: zoom in to see them.` : "";
  return sum + left;
}
