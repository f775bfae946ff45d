// Cells and messages of the table in words.

import type { TableHead, TableReply } from "../engine/tableprotocol.ts";
import { bytes, count, duration, exactBytes } from "./units.ts";
import type { View } from "./view.ts";

type Value = string | number | null;

/** The text of a cell. */
export function cellText(value: Value, { unit }: TableHead): string {
  if (value === null) return "–";
  // Without the folders: the line and the function behind the file are worth more room.
  if (typeof value === "string") return unit === "code" ? value.replace(/^.*\/(?=[^/ ]+ )/, "") : value;
  switch (unit) {
    case "bytes": return bytes(value);
    case "ns": return duration(value);
    case "address": return `0x${value.toString(16)}`;
    default: return count(value);
  }
}

/** What a cell's text leaves out. */
export function cellTitle(value: Value, head: TableHead): string {
  if (typeof value === "string") return value;
  if (value === null) return "";
  if (head.unit === "bytes") return exactBytes(value);
  return head.unit === "ns" ? `${count(value)} ns` : head.is_place ? head.hint : "";
}

/** `1,234 of 56,789 rows match`. */
export function countText({ request: { query }, matching, total, error }: TableReply): string {
  const rows = total === 1 ? "row" : "rows";
  return query === "" || error !== "" ? `${count(total)} ${rows}`
    : `${count(matching)} of ${count(total)} ${rows} match`;
}

/** What the rows are, and what is not in them. */
export function tableNote(view: View, { request: { rows, moment, from, to }, notes }: TableReply): string {
  const window = `moments ${count(from)} to ${count(to - 1)}`;
  const at = `moment ${count(moment)}${view.moment === null ? ", the peak" : ""}`;
  const isWhole = from === 0 && to === view.data.moments;
  const where = isWhole ? "the whole run" : `the window, ${window}`;
  const of: Record<string, string> = {
    blocks: `Blocks that are allocated at ${at}.`, segments: `Mapped ranges at ${at}.`,
    allocations: `Allocations in ${where}.`, "out of memory": `Out-of-memory errors in ${where}.`,
    marks: `Steps, phases, ranges, patterns and other marks in ${where}.`,
  };
  return [of[rows] ?? `Live at ${at}; allocated in ${where}.`, ...notes].join(" ");
}
