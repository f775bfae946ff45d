// The groups in view, as a table.

import type { FrameReply, LegendRow } from "../engine/protocol.ts";
import { byId, make, swatch } from "./dom.ts";
import { bytes, count, exactBytes, share } from "./units.ts";
import type { View } from "./view.ts";

type Column = "label" | "at_peak_bytes" | "most_bytes";

/** What the table shows of a picture. */
type Shown = Pick<FrameReply, "legend" | "groups_in_view" | "peak">;

/** Between two updates while the window moves. */
const UPDATE_MS = 120;

export class Legend {
  private sort: { column: Column; isUp: boolean } = { column: "at_peak_bytes", isUp: false };
  private reply: Shown | null = null;
  private readonly body = byId<HTMLTableSectionElement>("groups");
  private planned = false;

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
    byId("legend").querySelector("[data-column=at_peak_bytes]")!.textContent = isMap ? "allocated" : "at the peak";
    if (this.planned) return;
    this.planned = true;
    setTimeout(() => {
      this.planned = false;
      this.draw();
    }, UPDATE_MS);
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
    this.body.replaceChildren(...rows.map((row) => this.row(row, whole, view.lit)));
    if (focused !== undefined) this.body.querySelector<HTMLElement>(`tr[data-group="${focused}"] button`)?.focus();
    const left = reply.groups_in_view - reply.legend.filter((row) => row.group >= 0).length;
    byId("more").textContent = left > 0 ? `and ${count(left)} smaller groups, not listed` : "";
  }

  private row(row: LegendRow, whole: number, lit: number | null): HTMLTableRowElement {
    const tr = make("tr", lit === row.group ? "lit" : "");
    tr.dataset.group = String(row.group);
    const label = make("td", "label");
    if (row.group >= 0) {
      const button = make("button", "link", row.label);
      button.setAttribute("aria-pressed", String(lit === row.group));
      button.title = row.label;
      label.append(make("div", "", "", swatch(row.colour), button));
    } else {
      const text = make("span", "dim", "other: all smaller groups");
      label.append(make("div", "", "", swatch(row.colour), text));
    }
    const part = make("td", "part");
    const bar = make("i");
    bar.style.width = `${whole > 0 ? (100 * row.at_peak_bytes) / whole : 0}%`;
    bar.style.backgroundColor = `#${row.colour.toString(16).padStart(6, "0")}`;
    part.append(bar, make("span", "", share(row.at_peak_bytes, whole)));
    const at = make("td", "", bytes(row.at_peak_bytes));
    at.title = exactBytes(row.at_peak_bytes);
    const most = make("td", "", bytes(row.most_bytes));
    most.title = exactBytes(row.most_bytes);
    tr.append(label, at, part, most);
    return tr;
  }
}
