import assert from "node:assert/strict";
import { test } from "node:test";
import { colourOf, parseColour, type Rgb, THEMES } from "../engine/colours.ts";

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

for (const [name, theme] of Object.entries(THEMES)) {
  test(`every colour has a contrast of 3 to the ${name} background`, () => {
    const back = luminance(parseColour(theme.background));
    for (const colour of [...theme.groups, theme.other, theme.pending]) {
      const light = luminance(parseColour(colour));
      const contrast = (Math.max(light, back) + 0.05) / (Math.min(light, back) + 0.05);
      assert.ok(contrast >= 3, `${colour}: ${contrast.toFixed(2)}`);
    }
  });
}

test("a group's colour depends on its label alone, and categories differ", () => {
  assert.deepEqual(colourOf(THEMES.light, "model.layers.3", false), colourOf(THEMES.light, "model.layers.3", false));
  const categories = ["parameter", "gradient", "optimizer state", "activation", "temporary", "unknown"];
  assert.equal(new Set(categories.map((label) => colourOf(THEMES.dark, label, true).join())).size, categories.length);
});
