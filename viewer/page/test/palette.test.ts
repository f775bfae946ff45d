import assert from "node:assert/strict";
import { test } from "node:test";
import { coloursOf, hash, parseColour, placesOf, type Rgb, THEMES } from "../engine/colours.ts";
import vectors from "./colours.json";

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

test("a group keeps its label's colour, neighbours differ, and categories have fixed hues", () => {
  const alone = coloursOf(THEMES.light, ["model.layers.3"], false)[0];
  assert.deepEqual(coloursOf(THEMES.light, ["model.layers.3", "model.layers.4"], false)[0], alone);
  const many = coloursOf(THEMES.light, Array.from({ length: 24 }, (_, at) => `file.py:${at}`), false);
  assert.equal(new Set(many.map((colour) => colour.join())).size, 24);
  const categories = ["parameter", "gradient", "optimizer state", "activation", "temporary", "unknown"];
  assert.equal(new Set(coloursOf(THEMES.dark, categories, true).map(String)).size, categories.length);
  assert.deepEqual(coloursOf(THEMES.dark, ["gradient"], true)[0], coloursOf(THEMES.dark, categories, true)[1]);
});

test("the vectors that pictures are tested with hold", () => {
  assert.deepEqual({ light: THEMES.light.groups, dark: THEMES.dark.groups }, vectors.tones);
  for (const { text, hash: expected } of vectors.hashes) assert.equal(hash(text), expected, text);
  for (const { name, labels, is_category, places } of vectors.groups) {
    assert.deepEqual(placesOf(THEMES.light.groups.length, labels, is_category), places, name);
  }
});
