// The groups in view, as a table.

import type { FrameReply, LegendRow } from "../engine/protocol.ts";
import { byId, make, setText, swatch } from "./dom.ts";
import { bytes, count, exactBytes, share } from "./units.ts";
import type { View } from "./view.ts";

type Column = "label" | "at_peak_bytes" | "most_bytes";

/** What the table shows of a picture. */
type Shown = Pick<FrameReply, "legend" | "groups_in_view" | "peak">;

/** A picture that rests for so long is followed. */
const REST_MS = 120;
/** Between two updates while the window moves: each leaves hundreds of kilobytes of layout behind as garbage. */
const UPDATE_MS = 1000;

export class Legend {
  private sort: { column: Column; isUp: boolean } = { column: "at_peak_bytes", isUp: false };
  private reply: Shown | null = null;
  private readonly body = byId<HTMLTableSectionElement>("groups");
  private readonly rows: Row[] = [];
  private timer: ReturnType<typeof setTimeout> | null = null;
  /** The latest time of the next update. */
  private due = 0;

  constructor(private readonly view: View) {
    for (const button of document.querySelectorAll<HTMLButtonElement>("#legend th button")) {
      button.addEventListener("click", () => {
        const column = button.dataset.column as Column;
        const isUp = this.sort.column === column ? !this.sort.isUp : column === "label";
        this.sort = { column, isUp };
        this.draw();
      });
    }
    this.body.addEventListener("click", (event) => {
      const row = (event.target as HTMLElement).closest("tr");
      const group = Number(row?.dataset.group ?? NaN);
      if (Number.isInteger(group) && group >= 0) view.light(view.lit === group ? null : group);
    });
  }

  show(reply: Shown): void {
    this.reply = reply;
    const isMap = this.view.tab === "map";
    byId("legend").classList.toggle("at-moment", isMap);
    const column = byId("legend").querySelector<HTMLElement>("[data-column=at_peak_bytes]")!;
    setText(column, isMap ? "allocated" : "at the peak", column.title);
    const now = performance.now();
    if (this.timer === null) this.due = now + UPDATE_MS;
    else clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = null;
      this.draw();
    }, Math.min(REST_MS, Math.max(0, this.due - now)));
  }

  private draw(): void {
    const { reply, sort, view } = this;
    if (reply === null) return;
    for (const cell of document.querySelectorAll<HTMLElement>("#legend th")) {
      const isSorted = cell.querySelector("button")?.dataset.column === sort.column;
      cell.setAttribute("aria-sort", isSorted ? (sort.isUp ? "ascending" : "descending") : "none");
    }
    const order = (a: LegendRow, b: LegendRow): number => sort.column === "label" ? a.label.localeCompare(b.label)
      : a[sort.column] - b[sort.column];
    const rows = [...reply.legend].sort((a, b) => (sort.isUp ? order(a, b) : order(b, a)));
    const { allocated_bytes: whole } = reply.peak;
    const focused = (document.activeElement as HTMLElement | null)?.closest("tr")?.dataset.group;
    while (this.rows.length < rows.length) this.rows.push(new Row());
    rows.forEach((row, place) => { this.rows[place]!.show(row, whole, view.lit); });
    const shown = this.rows.slice(0, rows.length).map((row) => row.element);
    if (this.body.childElementCount !== shown.length) this.body.replaceChildren(...shown);
    if (focused !== undefined) this.body.querySelector<HTMLElement>(`tr[data-group="${focused}"] button`)?.focus();
    const left = reply.groups_in_view - reply.legend.filter((row) => row.group >= 0).length;
    byId("more").textContent = left > 0 ? `and ${count(left)} smaller groups, not listed` : "";
  }
}

/** A row that shows one group after another: new elements for each picture would be megabytes of garbage a second. */
class Row {
  readonly element = make("tr");
  private readonly swatch = swatch(0);
  private readonly button = make("button", "link");
  private readonly other = make("span", "dim", "other: all smaller groups");
  private readonly bar = make("i");
  private readonly share = make("span");
  private readonly at = make("td");
  private readonly most = make("td");

  constructor() {
    this.element.append(make("td", "label", "", make("div", "", "", this.swatch, this.button, this.other)), this.at,
      make("td", "part", "", this.bar, this.share), this.most);
  }

  show(row: LegendRow, whole: number, lit: number | null): void {
    const { element, button, bar } = this;
    const colour = `#${row.colour.toString(16).padStart(6, "0")}`;
    const isGroup = row.group >= 0;
    element.className = lit === row.group ? "lit" : "";
    element.dataset.group = String(row.group);
    this.swatch.style.backgroundColor = colour;
    button.hidden = !isGroup;
    this.other.hidden = isGroup;
    button.setAttribute("aria-pressed", String(lit === row.group));
    setText(button, row.label, row.label);
    bar.style.width = `${whole > 0 ? (100 * row.at_peak_bytes) / whole : 0}%`;
    bar.style.backgroundColor = colour;
    setText(this.share, share(row.at_peak_bytes, whole));
    setText(this.at, bytes(row.at_peak_bytes), exactBytes(row.at_peak_bytes));
    setText(this.most, bytes(row.most_bytes), exactBytes(row.most_bytes));
  }
}
