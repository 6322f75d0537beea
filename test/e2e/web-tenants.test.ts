/** The dashboard of a gateway with tenants: an operator sees and chooses them, and nobody else learns of them. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { chromiumPath, launchBrowser, openPage, seriousFindings, skipWithoutBrowser } from "../helpers/browser.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";

let browser: Browser;
let fleet: FleetProcess;
let dataFolder: string | undefined;
const screenshots = join(repositoryRoot(), "build/screenshots");

beforeAll(async () => {
  if (chromiumPath === undefined) return;
  mkdirSync(screenshots, { recursive: true });
  browser = await launchBrowser();
  dataFolder = mkdtempSync(join(tmpdir(), "millrace-web-"));
  fleet = await FleetProcess.start({
    "data-folder": dataFolder,
    "managed-keys": true,
    ledger: {},
    models: [
      {
        name: "mill-base",
        model: join(repositoryRoot(), "models/mill-base.gguf"),
        price: { input: 1, output: 2 },
        // The other core is the browser's.
        options: { threads: 1 },
      },
    ],
  });
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await fleet?.[Symbol.asyncDispose]();
  if (dataFolder !== undefined) rmSync(dataFolder, { recursive: true });
});
beforeEach(skipWithoutBrowser);

const SLOW = { timeout: 90_000 };

test("an operator sees the figures of tenants, chooses one, and nobody else learns of them", SLOW, async () => {
  const admin = (path: string, body: object) =>
    fetch(`${fleet.url}/admin/${path}`, {
      method: "POST",
      headers: { authorization: "Bearer fleet-admin" },
      body: JSON.stringify(body),
    });
  await admin("orgs", { id: "acme" });
  const { key } = (await (await admin("keys", { org: "acme", name: "watched" })).json()) as { key: string };
  const ask = async () => {
    const body = { messages: [{ role: "user", content: "Tell me a story." }], max_tokens: 60, stream: true };
    const headers = { authorization: `Bearer ${key}` };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    await (await fetch(`${fleet.url}/v1/chat/completions`, init)).arrayBuffer();
  };
  await using watched = await openPage(browser, `${fleet.url}/#/dashboard`);
  const { page, faults } = watched;
  const choice = page.getByLabel("Figures of");
  const tile = (name: string) => page.locator(".tile", { hasText: name }).locator("dd");
  const asks = (path: string, query: string) =>
    page.waitForRequest((request) => request.url().includes(`${path}?`) && request.url().includes(query));
  await choice.waitFor();
  let isOver = false;
  const load = (async () => {
    while (!isOver) await ask();
  })();
  try {
    await page.getByRole("button", { name: "Sign in for tenants" }).click();
    await page.getByLabel("Your key as an operator").fill("fleet-admin");
    await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
    const row = page.getByRole("region", { name: "Tenants now" }).locator("tbody tr", { hasText: "org:acme" });
    await row.waitFor();
    // The server looks every ten seconds, and so does the page.
    const figures = async () => (await row.locator("td").allInnerTexts()).slice(1);
    await expect.poll(async () => (await figures()).filter((text) => /[1-9]/.test(text)).length, SLOW).toBe(5);
    expect(await seriousFindings(page)).toEqual([]);
    await page.screenshot({ path: join(screenshots, "dashboard-tenants.png"), fullPage: true });
    const query = "tenant=org%3Aacme";
    await Promise.all([asks("watch/live", query), row.getByRole("button", { name: "org:acme" }).click()]);
    expect(await choice.inputValue()).toBe(query);
    for (const name of ["Answers", "Requests", "TTFT p95", "TPOT p95", "Cost"])
      await expect.poll(() => tile(name).first().innerText(), SLOW).toMatch(/^[\d.,e-]*[1-9]/);
    expect(await page.locator(".binding").count()).toBe(0);
    await Promise.all([asks("watch/history", query), page.getByLabel("Hour").check()]);
    await page.locator("figure", { hasText: "Cost" }).locator("canvas").waitFor();
    await page.screenshot({ path: join(screenshots, "dashboard-tenant.png") });
    await page.setViewportSize({ width: 360, height: 740 });
    await Promise.all([asks("watch/live", ""), choice.selectOption("")]);
    await row.waitFor();
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    for (const headers of [{}, { authorization: `Bearer ${key}` }]) {
      const past = await fetch(`${fleet.url}/watch/history?${query}`, { headers });
      expect([past.status, await past.text()]).toEqual([401, expect.not.stringContaining("acme")]);
      const series = await (await fetch(`${fleet.url}/watch/series`, { headers })).text();
      expect(series).not.toContain("tenant");
    }
  } finally {
    isOver = true;
    await load;
  }
  expect(faults).toEqual([]);
});
