// A tooltip that follows a cursor.

export interface Place {
  x: number;
  y: number;
}

/** A surface with a cursor on it, in CSS pixels from its corner. */
export interface Surface {
  readonly root: HTMLElement;
  cursor: Place | null;
}

export class Float {
  private busy = false;
  private again = false;

  constructor(
    private readonly tip: HTMLElement,
    private readonly surface: Surface,
    private readonly content: () => Promise<HTMLElement[] | null>,
  ) {}

  /** Shows what is under the cursor. Questions do not queue: while one is open, only the newest is kept. */
  async hover(): Promise<void> {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    do {
      this.again = false;
      const parts = this.surface.cursor === null ? null : await this.content();
      if (parts === null) this.hide();
      else this.show(parts);
    } while (this.again as boolean);
    this.busy = false;
  }

  private show(parts: HTMLElement[]): void {
    const { tip, surface: { root, cursor } } = this;
    if (cursor === null) return;
    tip.replaceChildren(...parts);
    tip.hidden = false;
    const { clientWidth: width } = root;
    const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
    const isRight = cursor.x + 16 + wide <= width;
    const left = isRight ? cursor.x + 16 : Math.max(0, cursor.x - 16 - wide);
    const below = window.innerHeight - root.getBoundingClientRect().top - high - 8;
    tip.style.left = `${Math.max(0, Math.min(left, width - wide))}px`;
    tip.style.top = `${Math.max(-40, Math.min(cursor.y + 12, below))}px`;
  }

  hide(): void {
    this.tip.hidden = true;
  }
}
