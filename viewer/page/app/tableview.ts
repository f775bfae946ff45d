// The table: rows of the worker, of which those in view are in the document.

import type { Info } from "../engine/protocol.ts";
import { PLAIN_ROWS, type TableReply, type TableRequest, type TableRow } from "../engine/tableprotocol.ts";
import { copyOut } from "./copy.ts";
import { byId, isDark, make } from "./dom.ts";
import type { EngineLink } from "./link.ts";
import type { Pinned } from "./pinned.ts";
import { hasSum, TableRows } from "./tablerows.ts";
import { TableScroll } from "./tablescroll.ts";
import { countText, tableNote } from "./tablewords.ts";
import { count } from "./units.ts";
import type { View } from "./view.ts";

/** Rows that the clipboard gets at most. */
const COPIED_MAX = 100_000;

export class TableView {
  reply: TableReply | null = null;
  readonly table = byId<HTMLTableElement>("rows-table");
  private readonly scroll = new TableScroll(byId("table-scroll"), byId("table-sizer"), byId("table-pane"),
    byId("rows-body"));
  private readonly rows: TableRows;
  /** The row of the keyboard among the matching ones. */
  private at = 0;
  /** The last request, and the order that it asked for. */
  private asked = "";
  private order = "";

  constructor(
    private readonly view: View,
    private readonly link: EngineLink,
    private readonly pinned: Pinned,
  ) {
    this.rows = new TableRows((key) => {
      const up = this.reply?.sort === key;
      const isText = this.reply?.heads.find((head) => head.key === key)?.unit.match(/text|code|address|moment$/);
      const isSorted = this.reply?.sort.replace(/^-/, "") === key;
      view.setTable({ sort: (isSorted ? up : isText === null) ? `-${key}` : key });
    });
    this.scroll.root.addEventListener("scroll", () => { this.scrolled(); }, { passive: true });
    new ResizeObserver(() => { this.update(); this.place(); }).observe(this.scroll.root);
    const select = byId<HTMLSelectElement>("table-rows");
    select.addEventListener("change", () => { view.setTable({ rows: select.value, sort: "" }); });
    byId("rows-body").addEventListener("click", (event) => {
      const target = event.target as HTMLElement;
      const index = Number(target.closest("tr")?.dataset.index ?? NaN);
      if (Number.isNaN(index)) return;
      this.go(index);
      if (target.classList.contains("place")) void this.toMap();
      else void this.pin();
    });
    const copy = byId<HTMLButtonElement>("table-copy");
    copy.addEventListener("click", () => { void this.copy(copy); });
    byId("table-save").addEventListener("click", () => { void this.save(); });
  }

  update(): void {
    const { view } = this;
    if (view.tab !== "table") return;
    this.fillSelect();
    if (!view.isEmpty) this.ask();
    const { reply } = this;
    if (reply !== null) this.rows.mark(reply, this.at, this.lit(reply));
  }

  private fillSelect(): void {
    const { view } = this;
    const select = byId<HTMLSelectElement>("table-rows");
    const groupings = view.data.groupings.flatMap(({ name, quantity }) => (quantity === "allocated" ? [name] : []));
    const [first, ...others] = PLAIN_ROWS;
    const names = [first, ...groupings, ...others];
    if (names.join() !== [...select.options].map(({ value }) => value).join()) {
      select.replaceChildren(...names.map((name) => {
        const option = make("option", "", name);
        option.value = name;
        return option;
      }));
    }
    select.value = view.table.rows;
  }

  request(): TableRequest {
    const { view } = this;
    const [from, to] = view.moments;
    return { device: view.device, rows: view.table.rows, sort: view.table.sort, moment: view.at, from, to,
      query: view.query, grouping: view.grouping, is_dark: isDark(), ...this.scroll.wanted() };
  }

  /** Asks for the rows in view. Another order begins at its top. */
  private ask(): void {
    const { device, rows, sort, query } = this.request();
    const order = JSON.stringify([device, rows, sort, query]);
    if (order !== this.order) {
      this.order = order;
      this.at = 0;
      this.scroll.toTop();
      byId("table-copy").textContent = "Copy";
      byId("table").querySelector("textarea")?.remove();
    }
    const request = this.request();
    const key = JSON.stringify(request);
    if (key === this.asked) return;
    this.asked = key;
    this.link.drawTable(request);
  }

  show(reply: TableReply): void {
    if (reply.request.device !== this.view.device || reply.request.rows !== this.view.table.rows) return;
    this.reply = reply;
    byId("table-count").textContent = countText(reply);
    byId("table-note").textContent = tableNote(this.view, reply);
    byId("found").textContent = reply.error;
    byId("found").classList.toggle("error", reply.error !== "");
    byId("table-empty").textContent = reply.matching > 0 ? "" : reply.total > 0 ? "No row matches." : "No rows.";
    this.table.setAttribute("aria-rowcount", String(reply.matching + 1));
    this.at = Math.min(this.at, Math.max(0, reply.matching - 1));
    for (const id of ["table-copy", "table-save"]) byId<HTMLButtonElement>(id).disabled = reply.matching === 0;
    this.rows.show(reply);
    this.place();
    if (!this.scroll.covers(reply.request.first, reply.request.first + reply.rows.length)) this.ask();
  }

  private place(): void {
    const { reply } = this;
    if (reply === null) return;
    this.scroll.resize(reply.matching, hasSum(reply));
    this.scroll.place(reply.request.first, reply.rows.length);
    this.rows.mark(reply, this.at, this.lit(reply));
    const place = this.at - reply.request.first;
    if (place >= 0 && place < reply.rows.length) this.table.setAttribute("aria-activedescendant", `row-${place}`);
    else this.table.removeAttribute("aria-activedescendant");
  }

  private scrolled(): void {
    const { reply } = this;
    if (reply === null) return;
    this.place();
    if (!this.scroll.covers(reply.request.first, reply.request.first + reply.rows.length)) this.ask();
  }

  private lit({ grouping }: TableReply): number | null {
    return grouping === this.view.grouping ? this.view.lit : null;
  }

  /** To a row of the matching ones. */
  go(index: number): void {
    this.at = Math.min(Math.max(index, 0), Math.max(0, (this.reply?.matching ?? 0) - 1));
    this.scroll.show(this.at);
    this.scrolled();
  }

  step(by: number): void {
    this.go(this.at + by);
  }

  stepPages(by: number): void {
    this.go(this.at + by * this.scroll.page);
  }

  private current(): TableRow | null {
    const { reply, at } = this;
    return reply?.rows[at - reply.request.first] ?? null;
  }

  private async info(): Promise<Info | null> {
    const [row, reply] = [this.current(), this.reply];
    return row === null || reply === null ? null : this.link.tableInfo(reply.request, row.row);
  }

  /** Pins the block or group of the row and lights its group everywhere. */
  async pin(): Promise<void> {
    const info = await this.info();
    if (info === null) return;
    const { view } = this;
    if (info.grouping !== undefined && info.grouping !== view.grouping) view.selectGrouping(info.grouping);
    this.pinned.show(info);
  }

  /** Shows the row in the address map: a block at its allocation. */
  async toMap(): Promise<void> {
    const moment = this.current()?.moment ?? null;
    if (moment === null) return;
    await this.pin();
    this.view.setMoment(moment);
    this.view.selectTab("map");
  }

  private async copy(button: HTMLButtonElement): Promise<void> {
    const text = await this.link.tableText(this.request(), "tsv", COPIED_MAX);
    if (text === null) return;
    const all = text.rows === text.matching;
    const done = `Copied ${count(text.rows)}${all ? "" : ` of ${count(text.matching)}`} rows`;
    await copyOut(button, byId("table"), text.parts.join(""), done);
  }

  private async save(): Promise<void> {
    const request = this.request();
    const text = await this.link.tableText(request, "csv", Infinity);
    if (text === null) return;
    const link = make("a");
    link.href = URL.createObjectURL(new Blob(text.parts, { type: "text/csv" }));
    link.download = `${this.view.data.run.replace(/\.[^/]*$/, "")}-${request.rows.replaceAll(" ", "-")}.csv`;
    link.click();
    setTimeout(() => { URL.revokeObjectURL(link.href); }, 10_000);
  }

  forget(): void {
    this.reply = null;
    this.asked = "";
    byId("table-count").textContent = "";
    byId("rows-body").replaceChildren();
  }
}
