// The lines of the table: its heads, its visible rows and its sums.

import type { TableHead, TableReply, TableRow } from "../engine/tableprotocol.ts";
import { byId, make, setText, swatch } from "./dom.ts";
import { cellText, cellTitle } from "./tablewords.ts";

const isText = ({ unit }: TableHead): boolean => unit === "text" || unit === "code" || unit === "address";

/** Columns of short texts. */
const SHORT = /^(stream|pool|kind)$/;

/** Pixels of a column at least. */
function widthOf({ unit, key }: TableHead): number {
  if (unit === "code") return 260;
  if (unit === "text") return SHORT.test(key) ? 104 : 190;
  return unit === "address" ? 172 : unit === "count" || unit === "moments" ? 96 : 128;
}

/** Columns of text take the rest of the width. */
const isWide = ({ unit, key }: TableHead): boolean => unit === "code" || (unit === "text" && !SHORT.test(key));

export class TableRows {
  private readonly head = byId<HTMLTableRowElement>("rows-head");
  private readonly body = byId<HTMLTableSectionElement>("rows-body");
  private readonly sums = byId<HTMLTableRowElement>("rows-sums");
  private readonly rows: Row[] = [];
  private key = "";

  constructor(private readonly sort: (key: string) => void) {}

  show(reply: TableReply): void {
    this.showHeads(reply);
    while (this.rows.length < reply.rows.length) this.rows.push(new Row(this.rows.length));
    reply.rows.forEach((row, place) => { this.rows[place]!.show(row, reply, reply.request.first + place); });
    const shown = this.rows.slice(0, reply.rows.length).map(({ element }) => element);
    if (this.body.childElementCount !== shown.length) this.body.replaceChildren(...shown);
    const hasSums = hasSum(reply);
    byId("rows-foot").hidden = !hasSums;
    if (hasSums) this.sums.replaceChildren(...reply.heads.map((head, place) => sumCell(head, reply, place)));
  }

  /** Outlines the row of the keyboard and marks those of the lit group. */
  mark(reply: TableReply, at: number, lit: number | null): void {
    reply.rows.forEach((row, place) => {
      this.rows[place]!.mark(reply.request.first + place === at, lit !== null && row.group === lit);
    });
  }

  /** Built again for other columns only, so that a head keeps the focus. */
  private showHeads({ heads, sort, request }: TableReply): void {
    const key = `${request.rows} ${heads.map((one) => one.key).join(" ")}`;
    if (key !== this.key) {
      this.key = key;
      this.rows.length = 0;
      this.body.replaceChildren();
      this.head.replaceChildren(...heads.map((head) => this.headCell(head)));
      const width = heads.reduce((sum, head) => sum + widthOf(head), 0);
      byId("table-sizer").style.minWidth = `${width}px`;
    }
    heads.forEach((head, place) => {
      const isSorted = sort.replace(/^-/, "") === head.key;
      this.head.children[place]!.setAttribute("aria-sort",
        isSorted ? (sort.startsWith("-") ? "descending" : "ascending") : "none");
    });
  }

  private headCell(head: TableHead): HTMLElement {
    const button = make("button", "", head.title);
    button.title = head.hint === "" ? "Sort" : `${head.hint}. Click to sort.`;
    button.addEventListener("click", () => { this.sort(head.key); });
    const cell = make("th", isText(head) ? "text" : "", "", button);
    cell.scope = "col";
    if (!isWide(head)) cell.style.width = `${widthOf(head)}px`;
    return cell;
  }
}

export function hasSum({ sums, matching }: TableReply): boolean {
  return matching > 0 && sums.some((sum) => sum !== null);
}

function sumCell(head: TableHead, { sums }: TableReply, place: number): HTMLElement {
  const sum = sums[place] ?? null;
  const cell = make("td", isText(head) ? "text" : "", place === 0 ? "sum" : sum === null ? "" : cellText(sum, head));
  if (sum !== null) cell.title = cellTitle(sum, head);
  return cell;
}

/** A row that shows one after another. */
class Row {
  readonly element = make("tr");
  private readonly swatch = swatch(0);
  private readonly cells: HTMLElement[] = [];

  constructor(place: number) {
    this.element.id = `row-${place}`;
  }

  show({ cells, colour }: TableRow, { heads }: TableReply, index: number): void {
    const { element } = this;
    if (this.cells.length === 0) heads.forEach((head, place) => { this.add(head, place); });
    element.dataset.index = String(index);
    element.setAttribute("aria-rowindex", String(index + 2));
    heads.forEach((head, place) => {
      setText(this.cells[place]!, cellText(cells[place]!, head), cellTitle(cells[place]!, head));
    });
    this.swatch.hidden = colour === null;
    this.swatch.style.backgroundColor = `#${(colour ?? 0).toString(16).padStart(6, "0")}`;
  }

  mark(isAt: boolean, isLit: boolean): void {
    this.element.className = `${isAt ? "at" : ""}${isLit ? " lit" : ""}`;
    this.element.setAttribute("aria-selected", String(isAt));
  }

  private add(head: TableHead, place: number): void {
    const inner = head.is_place ? make("button", "link place") : make("span");
    if (head.is_place) inner.tabIndex = -1;
    this.cells.push(inner);
    this.element.append(make("td", isText(head) ? "text" : "", "", ...(place === 0 ? [this.swatch] : []), inner));
  }
}
