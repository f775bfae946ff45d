// The scroll of a table of which only the visible rows are in the document. The table stays in view (sticky) and its
// body is moved, so that rows which are not there yet leave the old ones in place.

export const ROW_PX = 28;
/** The first line, and the last one with the sums. */
const HEAD_PX = 30;
/** Browsers limit an element's height; more rows than this are scrolled faster than the wheel. */
const HEIGHT_MAX = 16_000_000;
/** The largest height of the view (page.css). */
const VIEW_MAX = 960;
/** Rows above and below the visible ones. */
const SPARE = 20;

export class TableScroll {
  private rows = 0;
  private hasSums = false;

  constructor(
    readonly root: HTMLElement,
    private readonly sizer: HTMLElement,
    private readonly pane: HTMLElement,
    private readonly body: HTMLElement,
  ) {}

  /** The pixels that all lines have. */
  private get full(): number {
    return HEAD_PX + this.rows * ROW_PX + (this.hasSums ? HEAD_PX : 0);
  }

  private get view(): number {
    return this.root.clientHeight;
  }

  /** Pixels of rows for a pixel of the scroll bar. */
  private get scale(): number {
    const most = Math.min(this.full, HEIGHT_MAX);
    return most <= this.view ? 1 : Math.max(1, (this.full - this.view) / (most - this.view));
  }

  resize(rows: number, hasSums: boolean): void {
    this.rows = rows;
    this.hasSums = hasSums;
    this.sizer.style.height = `${Math.min(this.full, HEIGHT_MAX)}px`;
    this.pane.style.height = `${Math.min(this.view, this.full)}px`;
  }

  /** The rows to have: the visible ones, and some around them. */
  wanted(): { first: number; count: number } {
    const first = Math.max(0, Math.floor((this.root.scrollTop * this.scale) / ROW_PX) - SPARE);
    return { first, count: Math.ceil(VIEW_MAX / ROW_PX) + 2 * SPARE };
  }

  /** Rows of a page. */
  get page(): number {
    return Math.max(1, Math.floor((this.view - HEAD_PX - (this.hasSums ? HEAD_PX : 0)) / ROW_PX));
  }

  /** Whether the rows from `first` to before `end` are enough. */
  covers(first: number, end: number): boolean {
    const top = Math.floor((this.root.scrollTop * this.scale) / ROW_PX);
    return first <= top && (end >= this.rows || end > top + this.page + 1);
  }

  /** Moves the body, whose first row is `first` of `shown`. */
  place(first: number, shown: number): void {
    const top = this.root.scrollTop * this.scale;
    const end = (first + shown) * ROW_PX;
    // Rows of another place are on their way: those that are there fill the pane.
    const isThere = first * ROW_PX <= top && end > top;
    const from = isThere ? first * ROW_PX - top : 0;
    this.body.style.transform = `translateY(${Math.round(from)}px)`;
  }

  /** Scrolls so that a row is visible. */
  show(row: number): void {
    const top = (this.root.scrollTop * this.scale) / ROW_PX;
    const to = row < top ? row : row + 1 > top + this.page ? row + 1 - this.page : null;
    if (to !== null) this.root.scrollTop = Math.ceil((to * ROW_PX) / this.scale);
  }

  toTop(): void {
    this.root.scrollTop = 0;
  }
}
