/**
 * The page of models against a local hub: searched, measured, pulled with a break, loaded, asked, unloaded and removed;
 * and a server without an administrator.
 */
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { chromiumPath, launchBrowser, openPage, seriousFindings, skipWithoutBrowser } from "../helpers/browser.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { type HubServer, startHubServer } from "../helpers/hub-server.js";
import { startTestServer } from "../helpers/server.js";

let browser: Browser;
let hub: HubServer;
let fleet: FleetProcess;
const root = repositoryRoot();
const screenshots = join(root, "build/screenshots");
const NAME = "hf:acme/tales-GGUF:tales-Q8_0.gguf";

beforeAll(async () => {
  if (chromiumPath === undefined) return;
  mkdirSync(screenshots, { recursive: true });
  browser = await launchBrowser();
  const tales = readFileSync(join(root, "models/mill-student.gguf"));
  hub = await startHubServer({ "acme/tales-GGUF": { files: { "tales-Q8_0.gguf": tales } } });
  vi.stubEnv("HF_ENDPOINT", hub.endpoint);
  fleet = await FleetProcess.start({
    models: [{ name: "mill-base", model: join(root, "models/mill-base.gguf"), args: ["--threads", "1"] }],
  });
}, 60_000);
afterAll(async () => {
  vi.unstubAllEnvs();
  await browser?.close();
  await fleet?.[Symbol.asyncDispose]();
  await hub?.close();
});
beforeEach(skipWithoutBrowser);

const SLOW = { timeout: 120_000 };

const useAdminKey = async (page: Page): Promise<void> => {
  await page.getByLabel("Your key as an operator").fill("fleet-admin");
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  // The page is then made anew, without what was typed into it before.
  await page.locator("#signed-in").waitFor();
};

test("a model is found, measured, pulled, loaded, asked, unloaded and removed", SLOW, async () => {
  await using watched = await openPage(browser, `${fleet.url}/#/models`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const onDisk = page.locator("section", { has: page.getByRole("heading", { name: "On disk" }) }).first();
  const row = onDisk.locator("tbody tr", { hasText: NAME }).filter({ hasNot: page.locator("progress") });
  await onDisk.locator("tr", { hasText: "mill-base" }).filter({ hasText: "in use, bundled" }).waitFor();
  expect(await page.getByRole("button", { name: "Remove: mill-base" }).count()).toBe(0);

  await page.getByLabel("Words of the name").fill("tales");
  await page.getByRole("button", { name: "Search" }).click();
  await page.locator("tr", { hasText: "acme/tales-GGUF" }).getByRole("button", { name: "Models" }).click();
  const variant = page.locator("tr", { hasText: "tales-Q8_0" }).filter({ hasText: "Pull" });
  await variant.getByRole("button", { name: "Work out" }).click();
  await variant.locator("span[title*=weights]").waitFor();
  expect(await variant.locator("span[title*=weights]").innerText()).toMatch(/^[\d.]+ MiB$/);

  hub.faults.push({ kind: "stall", afterBytes: 1_000_000 });
  await variant.getByRole("button", { name: "Pull" }).click();
  const download = page.locator("tr", { has: page.getByLabel(`Progress of ${NAME}`) });
  await download.filter({ hasText: "977 KiB of" }).waitFor();
  expect(
    await download.locator("progress").evaluate((bar) => (bar as unknown as { position: number }).position),
  ).toBeGreaterThan(0);
  expect(await seriousFindings(page)).toEqual([]);
  await page.screenshot({ path: join(screenshots, "models-pull.png"), fullPage: true });
  await download.getByRole("button", { name: "Cancel" }).click();
  await download.filter({ hasText: "cancelled" }).waitFor();
  await onDisk.getByRole("button", { name: /^Go on: hf:acme/ }).click();
  await page.locator(".state.done").waitFor();
  expect(hub.requests.filter(({ range }) => range === "bytes=1000000-")).toHaveLength(1);
  expect(await page.locator("progress").first().getAttribute("aria-label")).toBe(`Progress of ${NAME}`);

  await row.getByRole("button", { name: `Load: ${NAME}` }).click();
  await page.locator("tr", { hasText: "acme/tales-GGUF-0" }).filter({ hasText: "ready" }).waitFor();
  await row.filter({ hasText: "in use" }).waitFor();
  const answer = await fetch(`${fleet.url}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ model: "acme/tales-GGUF", prompt: "Once", max_tokens: 4 }),
  });
  expect(answer.status).toBe(200);
  expect(await page.getByRole("button", { name: `Remove: ${NAME}` }).count()).toBe(0);

  await page.getByRole("button", { name: "Unload" }).click();
  await page.locator("tr", { hasText: "acme/tales-GGUF-0" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: `Remove: ${NAME}` }).click();
  await row.waitFor({ state: "detached" });
  expect(faults).toEqual([]);
});

test("a refusal stays to be read, and a phone has room for all of it", SLOW, async () => {
  await using watched = await openPage(browser, `${fleet.url}/#/models`, { width: 360, height: 740 });
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByLabel("Words of the name").fill("tales");
  await page.getByRole("button", { name: "Search" }).click();
  await page.locator("tr", { hasText: "acme/tales-GGUF" }).getByRole("button", { name: "Models" }).click();
  hub.faults.push({ kind: "status", status: 404 });
  await page.getByRole("button", { name: "Work out" }).click();
  await page.getByRole("alert").filter({ hasText: "check the name" }).waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
  await page.screenshot({ path: join(screenshots, "models-phone.png"), fullPage: true });
  expect(faults).toEqual([]);
});

test("a server without an administrator says how it gets one", SLOW, async () => {
  await using server = await startTestServer(["--threads", "1"]);
  await using watched = await openPage(browser, `${server.url}/#/models`);
  const { page, faults } = watched;
  await page.getByText("start the server with --admin-key").waitFor();
  expect(await page.locator("#key-form").count()).toBe(0);
  expect(faults).toEqual([]);
});
