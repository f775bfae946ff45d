// Elements. Strings of a tape reach the page as text only.

// The caller names the element's type: it is the one in page.html.
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters
export function byId<T extends HTMLElement>(id: string): T {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element "${id}"`);
  return element as T;
}

export function make<K extends keyof HTMLElementTagNameMap>(name: K, className = "", text = "",
  ...children: Node[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className !== "") element.className = className;
  if (text !== "") element.textContent = text;
  element.append(...children);
  return element;
}

/** Sets text that may be the same as before: equal text costs no layout, and other text no new node. */
export function setText(element: HTMLElement, text: string, title = ""): void {
  const { firstChild: node } = element;
  if (node instanceof Text && node === element.lastChild) {
    if (node.data !== text) node.data = text;
  } else if (element.textContent !== text) element.textContent = text;
  if (element.title !== title) element.title = title;
}

/** A square in the colour of a group. */
export function swatch(colour: number): HTMLElement {
  const element = make("span", "swatch");
  element.setAttribute("aria-hidden", "true");
  element.style.backgroundColor = `#${colour.toString(16).padStart(6, "0")}`;
  return element;
}

const variables = new Map<string, string>();

/** The value of a CSS variable of the page. */
export function css(name: string): string {
  let value = variables.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    variables.set(name, value);
  }
  return value;
}

const scheme = window.matchMedia("(prefers-color-scheme: dark)");

export function isDark(): boolean {
  return scheme.matches;
}

/** Calls back, with fresh variables, when the system changes between light and dark. */
export function onScheme(changed: () => void): void {
  scheme.addEventListener("change", () => {
    variables.clear();
    changed();
  });
}
