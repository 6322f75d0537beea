/**
 * Measures how soon the web app takes input: in real Chromium, each time with an empty cache, from the navigation's
 * start until a typed letter appears in the message field. Prints a Markdown table.
 *
 *   node scripts/measure-first-load.js [--loads 20] [--json FILE]
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { machineInfo } from "../dist/src/bench/results/machine.js";
import { startServer } from "./engine-process.js";

const { values: args } = parseArgs({
  options: { loads: { type: "string", default: "20" }, json: { type: "string" } },
});
const model = fileURLToPath(new URL("../models/mill-base.gguf", import.meta.url));
const { url, child } = await startServer("serve", "--model", model, "--log-level", "warn");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

async function load() {
  const context = await browser.newContext();
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send("Network.enable");
  let numBytes = 0;
  session.on("Network.loadingFinished", ({ encodedDataLength }) => {
    numBytes += encodedDataLength;
  });
  await page.addInitScript(() => {
    addEventListener("input", (event) => {
      if (event.target.id === "input") window.firstInputMs ??= performance.now();
    });
  });
  const navigated = page.goto(url);
  await page.locator("#input:enabled").pressSequentially("a");
  await navigated;
  const inputMs = await page.evaluate(() => window.firstInputMs);
  const paintMs = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  await page.waitForLoadState("networkidle");
  await context.close();
  return { inputMs, paintMs, numBytes };
}

const loads = [];
// The first load starts the browser's own parts, and does not count.
for (let i = 0; i <= Number(args.loads); i++) {
  const one = await load();
  if (i > 0) loads.push(one);
}
await browser.close();
child.kill("SIGTERM");

const figures = (key) => {
  const sorted = loads.map((one) => one[key]).sort((a, b) => a - b);
  return [sorted[Math.floor(sorted.length / 2)], sorted[0], sorted.at(-1)].map((value) => Math.round(value));
};
process.stdout.write(`| ${loads.length} loads | median | least | most |\n| --- | --- | --- | --- |\n`);
for (const [name, key] of [
  ["a typed letter stands in the field, ms", "inputMs"],
  ["first paint, ms", "paintMs"],
  ["bytes over the network", "numBytes"],
]) {
  process.stdout.write(`| ${name} | ${figures(key).join(" | ")} |\n`);
}
if (args.json !== undefined) {
  writeFileSync(args.json, `${JSON.stringify({ date: new Date().toISOString(), machine: machineInfo(), loads })}\n`);
}
