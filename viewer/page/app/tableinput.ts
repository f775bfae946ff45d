// Keys of the table.

import type { TabInput } from "./input.ts";
import type { TableView } from "./tableview.ts";

export class TableInput implements TabInput {
  readonly tab = "table";

  constructor(private readonly table: TableView) {}

  /** What a key does here, if anything. */
  action(event: KeyboardEvent): (() => void) | undefined {
    const { table } = this;
    const target = event.target as HTMLElement;
    if (target !== table.table && target !== document.body) return undefined;
    const side = (by: number) => (): void => { table.table.closest("#table-scroll")?.scrollBy({ left: by }); };
    const actions: Record<string, () => void> = {
      ArrowUp: () => { table.step(-1); },
      ArrowDown: () => { table.step(1); },
      PageUp: () => { table.stepPages(-1); },
      PageDown: () => { table.stepPages(1); },
      Home: () => { table.go(0); },
      End: () => { table.go(Infinity); },
      ArrowLeft: side(-120),
      ArrowRight: side(120),
      Enter: () => { void table.pin(); },
      m: () => { void table.toMap(); },
    };
    return actions[event.key];
  }
}
