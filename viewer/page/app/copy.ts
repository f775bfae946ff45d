// Text to the clipboard. Where it is closed (a sandbox), the text is selected for the user to copy.

import { make } from "./dom.ts";

export async function copyOut(button: HTMLButtonElement, holder: HTMLElement, text: string, done = "Copied"):
Promise<void> {
  holder.querySelector("textarea")?.remove();
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = done;
  } catch {
    const field = make("textarea", "copy");
    field.value = text;
    field.readOnly = true;
    field.setAttribute("aria-label", "Text to copy");
    holder.append(field);
    field.select();
    button.textContent = "Selected: press Ctrl+C";
  }
}
