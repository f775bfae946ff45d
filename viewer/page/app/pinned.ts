// The panel of the pinned group, block or hole.

import type { Info } from "../engine/protocol.ts";
import { copyOut } from "./copy.ts";
import { copyText, describe } from "./describe.ts";
import { byId, make } from "./dom.ts";
import type { View } from "./view.ts";

export class Pinned {
  private readonly panel = byId("pinned");

  constructor(private readonly view: View) {}

  /** Its group is lit everywhere. */
  show(info: Info): void {
    const close = make("button", "quiet", "Clear");
    close.title = "Clear (Esc)";
    close.addEventListener("click", () => {
      this.clear();
    });
    const bar = make("div", "bar", "", make("h2", "", "Pinned"));
    if (info.label !== "") {
      const copy = make("button", "quiet", info.block === null ? "Copy label" : "Copy stack");
      copy.addEventListener("click", () => {
        void copyOut(copy, this.panel, copyText(info));
      });
      bar.append(copy);
    }
    bar.append(close);
    this.panel.replaceChildren(bar, ...describe(info, false));
    this.panel.hidden = false;
    this.view.light(info.group);
  }

  clear(): void {
    this.panel.hidden = true;
    this.panel.replaceChildren();
    if (this.view.lit !== null) this.view.light(null);
  }
}
