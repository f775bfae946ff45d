// Builds dist/page.html: one template with its style and scripts inlined, and their hashes in the policy.
//   node build.mjs           writes it
//   node build.mjs --check   fails if the committed file differs
//   node build.mjs --test    bundles the tests into build/test
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

/** Bytes that the page without data may have. */
const SIZE_MAX = 250_000;

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const shared = { bundle: true, write: false, target: "es2022", charset: "utf8", logLevel: "warning" };

function bundle(entry, options) {
  const built = esbuild.buildSync({ ...shared, entryPoints: [at(entry)], minify: true, ...options });
  return built.outputFiles[0].text.trim();
}

/** Script text that no parser of HTML takes for the end of its element or for a comment. */
function inlined(text) {
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error("the bundle has text that would end its element");
  return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

function page() {
  const style = inlined(bundle("page/page.css", {}));
  const worker = inlined(bundle("page/engine/worker.ts", { format: "iife" }));
  const script = inlined(bundle("page/app/main.ts", { format: "iife" }));
  const policy = `default-src 'none'; script-src ${hash(worker)} ${hash(script)}; style-src ${hash(style)}; worker-src blob:; `
    + "img-src data: blob:; base-uri 'none'; form-action 'none'";
  const csp = `<meta http-equiv="Content-Security-Policy" content="${policy}">`;
  const parts = { csp, style, worker, script };
  return readFileSync(at("page/page.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
}

function buildTests() {
  const entryPoints = readdirSync(at("page/test")).filter((name) => name.endsWith(".test.ts"))
    .map((name) => at(`page/test/${name}`));
  esbuild.buildSync({ ...shared, write: true, entryPoints, outdir: at("build/test"), platform: "node", format: "esm",
    outExtension: { ".js": ".mjs" }, sourcemap: "inline" });
}

if (process.argv.includes("--test")) buildTests();
else {
  const built = page();
  const size = Buffer.byteLength(built);
  if (size > SIZE_MAX) throw new Error(`dist/page.html has ${size} bytes, at most ${SIZE_MAX}`);
  if (process.argv.includes("--check")) {
    if (readFileSync(at("dist/page.html"), "utf8") !== built) {
      throw new Error("dist/page.html is not what `npm run build` makes of the sources: run it and commit the file");
    }
  } else {
    mkdirSync(at("dist"), { recursive: true });
    writeFileSync(at("dist/page.html"), built);
  }
  console.log(`dist/page.html: ${size} bytes`);
}
