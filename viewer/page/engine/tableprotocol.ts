// The messages of the table between the page and its worker.

/** How a column's numbers are written. Text of code has a path in it. */
export type Unit = "text" | "code" | "bytes" | "count" | "moment" | "moments" | "ns" | "address";

export interface TableHead {
  /** In fragments and exported text; it ends with the unit of its numbers. */
  key: string;
  title: string;
  hint: string;
  unit: Unit;
  has_sum: boolean;
  /** Whether its cells show the row in the address map. */
  is_place: boolean;
}

/** Rows that are no groups of a grouping. */
export const PLAIN_ROWS = ["stacks", "blocks", "allocations", "segments", "out of memory", "marks"] as const;
export type PlainRows = (typeof PLAIN_ROWS)[number];

/** A slice of the sorted rows that match. `from`, `to` and `moment` are moments. */
export interface TableRequest {
  device: number;
  /** One of `PLAIN_ROWS`, or the name of a grouping. */
  rows: string;
  moment: number;
  from: number;
  to: number;
  query: string;
  /** The key of a column, after "-" from the highest to the lowest; "" for the usual order. */
  sort: string;
  first: number;
  count: number;
  /** That of the colours of blocks. */
  grouping: number;
  is_dark: boolean;
}

export interface TableRow {
  /** Its number before sorting. */
  row: number;
  cells: (string | number | null)[];
  /** Its moment in the address map. */
  moment: number | null;
  group: number | null;
  colour: number | null;
}

export interface TableReply {
  type: "table";
  request: TableRequest;
  heads: TableHead[];
  /** As in the request, never "". */
  sort: string;
  total: number;
  matching: number;
  /** Of the matching rows; null for columns without one. */
  sums: (number | null)[];
  rows: TableRow[];
  /** The grouping of the rows' groups. */
  grouping: number;
  /** What the rows are, and what is not in them. */
  notes: string[];
  /** A regular expression that cannot be read, or "". */
  error: string;
  took_ms: number;
}

export type TextFormat = "tsv" | "csv";

/** The matching rows as text, in parts that follow one another. */
export interface TableText {
  parts: string[];
  rows: number;
  matching: number;
}
