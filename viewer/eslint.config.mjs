import eslint from "@eslint/js";
import tseslint from "typescript-eslint";

// Of what enters the page only `textContent` may make DOM nodes, and nothing may reach for code, markup or a network.
const unsafe = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe"];
const globals = ["eval", "fetch", "XMLHttpRequest", "WebSocket", "localStorage", "sessionStorage", "indexedDB"];

export default tseslint.config(
  { ignores: ["build/**", "dist/**", "node_modules/**"] },
  eslint.configs.recommended,
  {
    files: ["page/**/*.ts"],
    extends: [...tseslint.configs.strictTypeChecked, ...tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "max-lines": ["error", 600],
      "max-len": ["error", { code: 120 }],
      "no-restricted-properties": ["error", ...unsafe.map((property) => ({ property })), { object: "document",
        property: "write" }],
      "no-restricted-globals": ["error", ...globals],
      // Typed arrays are read at places that the loops around them bound.
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    files: ["page/test/**/*.ts"],
    rules: { "@typescript-eslint/no-floating-promises": "off" },
  },
  { files: ["*.mjs"], languageOptions: { globals: { process: "readonly", console: "readonly", Buffer: "readonly", URL: "readonly" } } },
);
