// Writes a page of a made-up training: node build/write.mjs OUT [RECORDS]. For looking at the page without a tape.

import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { elements, pageData } from "./pagedata.ts";
import { training } from "./training.ts";

const [out = "page.html", records = "400000"] = argv.slice(2);
const { header, first, rest } = elements(pageData(training(Number(records))));
const page = readFileSync("dist/page.html", "utf8").replace("<!--title-->", "synthetic")
  .replace("<!--header-->", () => header).replace("<!--first-->", () => first).replace("<!--rest-->", () => rest);
writeFileSync(out, page);
