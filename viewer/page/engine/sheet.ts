// The rows of a table: columns that compute their cells, and the order of the rows that match a search.

import { hex } from "./answers.ts";
import type { StackFrame } from "./protocol.ts";
import type { TableHead, TextFormat, Unit } from "./tableprotocol.ts";

/** Numbers; NaN where a row has none. */
export interface NumberColumn {
  head: TableHead;
  value(row: number): number;
}

/** Texts that many rows share. */
export interface TextColumn {
  head: TableHead;
  texts: number;
  id(row: number): number;
  text(id: number): string;
}

export type Column = NumberColumn | TextColumn;

export interface Sheet {
  rows: number;
  columns: Column[];
  /** The usual order. */
  sort: string;
  notes: string[];
  /** The moment of a row in the address map. */
  moment?(row: number): number;
  /** The group of a row in a grouping, null where it has none or several. */
  group?(row: number, grouping: number): number | null;
  /** Of a group: its label and its bytes at the moment. */
  sum?(row: number): { label: string; bytes: number; frames?: StackFrame[] };
  /** Of a block: where its life is. */
  life?(row: number): { node: number; place: number };
}

export function head(key: string, title: string, unit: Unit, hint = ""): TableHead {
  return { key, title, unit, hint, has_sum: false, is_place: false };
}

export function numbers(key: string, title: string, unit: Unit, value: (row: number) => number, hint = "",
  more: Partial<TableHead> = {}): NumberColumn {
  return { head: { ...head(key, title, unit, hint), ...more }, value };
}

/** Texts of a list. */
export function texts(key: string, title: string, list: readonly string[], id: (row: number) => number,
  unit: Unit = "text"): TextColumn {
  return { head: head(key, title, unit), texts: list.length, id, text: (at) => list[at] ?? "?" };
}

export function cell(column: Column, row: number): string | number | null {
  if ("id" in column) return column.text(column.id(row));
  const value = column.value(row);
  return Number.isNaN(value) ? null : value;
}

const collator = new Intl.Collator("en", { numeric: true });

/** Numbers that are in order where the column's cells are. */
function keysOf(column: Column, rows: Uint32Array, of: number): Float64Array {
  const keys = new Float64Array(of);
  if ("value" in column) {
    for (const row of rows) keys[row] = column.value(row);
    return keys;
  }
  const list = Array.from({ length: column.texts }, (_, id) => column.text(id));
  const rank = new Float64Array(column.texts);
  const sorted = list.map((_, id) => id).sort((a, b) => collator.compare(list[a]!, list[b]!));
  let next = 0;
  sorted.forEach((id, place) => {
    if (place > 0 && list[id] !== list[sorted[place - 1]!]) next = place;
    rank[id] = next;
  });
  for (const row of rows) keys[row] = rank[column.id(row)] ?? next;
  return keys;
}

/** Sorts rows. Equal ones stay in the order of their numbers, and those without a number come last. */
export function sorted(sheet: Sheet, rows: Uint32Array, column: Column, isUp: boolean): Uint32Array {
  const keys = keysOf(column, rows, sheet.rows);
  const sign = isUp ? 1 : -1;
  return rows.slice().sort((a, b) => {
    const [x, y] = [keys[a]!, keys[b]!];
    if (x !== x || y !== y) return (x === x ? 0 : 1) - (y === y ? 0 : 1) || a - b;
    return sign * (x - y) || a - b;
  });
}

/** The rows of which a text or an address matches. */
export function matching({ rows, columns }: Sheet, pattern: RegExp | null): Uint32Array {
  const found = new Uint32Array(rows);
  let count = 0;
  const tests = columns.flatMap((column): ((row: number) => boolean)[] => {
    if (pattern === null) return [];
    if ("value" in column) {
      return column.head.unit === "address" ? [(row) => pattern.test(hex(column.value(row)))] : [];
    }
    // 0 is not tested yet.
    const known = new Uint8Array(column.texts);
    return [(row) => {
      const id = column.id(row);
      if (known[id] === undefined) return pattern.test(column.text(id));
      if (known[id] === 0) known[id] = pattern.test(column.text(id)) ? 2 : 1;
      return known[id] === 2;
    }];
  });
  for (let row = 0; row < rows; row++) {
    if (pattern === null || tests.some((test) => test(row))) found[count++] = row;
  }
  return found.slice(0, count);
}

export function sumOf(column: Column, rows: Uint32Array): number | null {
  if (!column.head.has_sum || "id" in column) return null;
  let sum = 0;
  for (const row of rows) sum += column.value(row);
  return sum;
}

const SEPARATOR: Record<TextFormat, string> = { tsv: "\t", csv: "," };
/** Rows of one part of a long text. */
const PART_ROWS = 10_000;

function field(value: string | number | null, unit: Unit, format: TextFormat): string {
  const text = value === null ? "" : unit === "address" ? hex(Number(value)) : String(value);
  if (format === "tsv") return text.replace(/[\t\r\n]+/g, " ");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows with a line of keys above them; numbers are whole bytes, moments and nanoseconds. */
export function textOf({ columns }: Sheet, rows: Uint32Array, format: TextFormat): string[] {
  const parts = [`${columns.map(({ head: { key } }) => key).join(SEPARATOR[format])}\n`];
  for (let first = 0; first < rows.length; first += PART_ROWS) {
    let part = "";
    for (const row of rows.subarray(first, first + PART_ROWS)) {
      part += `${columns.map((one) => field(cell(one, row), one.head.unit, format)).join(SEPARATOR[format])}\n`;
    }
    parts.push(part);
  }
  return parts;
}
