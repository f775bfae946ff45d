// What a person sees on the page of a comparison, as numbers and texts.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const box = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom };
  };
  const color = (element, property) => getComputedStyle(element)[property];
  const tip = document.getElementById("tip");
  return {
    window_px: innerWidth,
    page_px: document.documentElement.scrollWidth,
    title: document.title,
    summary: document.getElementById("summary").textContent,
    chart: box(document.querySelector("svg")),
    rows: all("#table tbody tr").map((row) => ({
      cells: [...row.cells].slice(1).map((cell) => cell.textContent),
      box: box(row),
      key: color(row.querySelector(".key"), "backgroundColor"),
      is_pressed: row.querySelector("button").getAttribute("aria-pressed") === "true",
    })),
    axis: all("line.grid").map((line) => ({ y: line.y1.baseVal.value, text: line.nextElementSibling.textContent })),
    labels: all("svg text").map((text) => ({ ...box(text), fill: color(text, "fill") })),
    lines: all("path.run").map((line) => ({
      top: line.getBBox().y,
      stroke: color(line, "stroke"),
      is_shown: color(line, "display") !== "none",
      opacity: +color(line, "opacity"),
    })),
    live_top: Math.min(...all("path.live").map((area) => area.getBBox().y)),
    tip: color(tip, "display") === "none" ? null : { ...box(tip), lines: [...tip.children].map((d) => d.textContent) },
    holders: all("#holders table").map((table) => ({
      title: table.previousElementSibling.closest("h2")?.textContent ?? "",
      rows: [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) =>
        (cell.querySelector("summary") ?? cell).textContent)),
      is_marked_up: table.querySelector("b") !== null,
    })),
    back: color(document.body, "backgroundColor"),
    ink: color(document.body, "color"),
    dim: color(document.getElementById("summary"), "color"),
  };
})()
