// The field and buttons that set the moment of the views of one moment.

import { byId } from "./dom.ts";
import type { View } from "./view.ts";

export class MomentField {
  private readonly field = byId<HTMLInputElement>("moment");

  constructor(private readonly view: View) {
    this.field.addEventListener("change", () => {
      if (this.field.value !== "") view.setMoment(Number(this.field.value));
    });
    byId("before").addEventListener("click", () => { view.setMoment(view.at - 1); });
    byId("after").addEventListener("click", () => { view.setMoment(view.at + 1); });
    byId("at-peak").addEventListener("click", () => { view.setMoment(null); });
  }

  update(): void {
    const { view, field } = this;
    byId("moment-field").hidden = !view.isOfMoment;
    field.max = String(view.data.moments - 1);
    if (document.activeElement !== field) field.value = String(view.at);
  }
}
