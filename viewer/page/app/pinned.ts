// The panel of the pinned group, block or hole.

import type { Info } from "../engine/protocol.ts";
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
        void this.copy(copy, copyText(info));
      });
      bar.append(copy);
    }
    bar.append(close);
    this.panel.replaceChildren(bar, ...describe(info, false));
    this.panel.hidden = false;
    this.view.light(info.group);
  }

  /** Where the clipboard is closed (a sandbox), the text is selected for the user to copy. */
  private async copy(button: HTMLButtonElement, text: string): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const field = make("textarea", "copy");
      field.value = text;
      field.readOnly = true;
      field.setAttribute("aria-label", "Text to copy");
      this.panel.querySelector("textarea")?.remove();
      this.panel.append(field);
      field.select();
      button.textContent = "Selected: press Ctrl+C";
    }
  }

  clear(): void {
    this.panel.hidden = true;
    this.panel.replaceChildren();
    if (this.view.lit !== null) this.view.light(null);
  }
}
