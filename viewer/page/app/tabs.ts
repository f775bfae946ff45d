// The views as tabs. A new view needs a tab and a panel in page.html and a name in `TABS`.

import type { Tab, View } from "./view.ts";

export class Tabs {
  private readonly tabs = [...document.querySelectorAll<HTMLButtonElement>("[role=tab]")];

  constructor(private readonly view: View) {
    this.tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => {
        view.selectTab(tab.dataset.tab as Tab);
      });
      tab.addEventListener("keydown", (event) => {
        const { length } = view.tabs;
        const to = { ArrowRight: place + 1, ArrowLeft: place + length - 1, Home: 0, End: length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = this.tabs[to % length]!;
        next.focus();
        view.selectTab(next.dataset.tab as Tab);
      });
    });
  }

  show(): void {
    for (const tab of this.tabs) {
      const name = tab.dataset.tab as Tab;
      tab.title = `${tab.textContent} (${this.view.tabs.indexOf(name) + 1})`;
      const isShown = tab.dataset.tab === this.view.tab;
      tab.hidden = !this.view.tabs.includes(tab.dataset.tab as Tab);
      tab.setAttribute("aria-selected", String(isShown));
      tab.tabIndex = isShown ? 0 : -1;
      if (isShown) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
      document.getElementById(tab.getAttribute("aria-controls") ?? "")!.hidden = !isShown;
    }
    // A part of the page for some tabs names them.
    for (const element of document.querySelectorAll<HTMLElement>("[data-only]")) {
      element.hidden = !element.dataset.only!.split(" ").includes(this.view.tab);
    }
  }
}
