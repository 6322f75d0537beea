/** One gateway with one model, and one browser, for all tests of a file: starting them takes longer than the tests. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { chromiumPath, launchBrowser, skipWithoutBrowser } from "./browser.js";
import { repositoryRoot } from "./fixtures.js";
import { FleetProcess } from "./fleet-process.js";

export const screenshots = join(repositoryRoot(), "build/screenshots");

interface WebFleet {
  readonly browser: Browser;
  readonly fleet: FleetProcess;
}

/**
 * Starts both before the tests of the file that calls it, and ends them after those.
 *
 * @param more of the gateway's configuration, for its data folder
 * @returns filled before the first test
 */
export function useWebFleet(more: (dataFolder: string) => object = () => ({})): WebFleet {
  const started: { browser?: Browser; fleet?: FleetProcess } = {};
  let dataFolder: string | undefined;
  beforeAll(async () => {
    if (chromiumPath === undefined) return;
    mkdirSync(screenshots, { recursive: true });
    started.browser = await launchBrowser();
    dataFolder = mkdtempSync(join(tmpdir(), "millrace-web-"));
    started.fleet = await FleetProcess.start({
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
      ...more(dataFolder),
    });
  }, 120_000);
  afterAll(async () => {
    await started.browser?.close();
    await started.fleet?.[Symbol.asyncDispose]();
    if (dataFolder !== undefined) rmSync(dataFolder, { recursive: true });
  });
  beforeEach(skipWithoutBrowser);
  return started as WebFleet;
}

export async function useAdminKey(page: Page): Promise<void> {
  await page.getByLabel("Your key as an operator").fill("fleet-admin");
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  // The page is then made anew, without what was typed into it before.
  await page.locator("#signed-in").waitFor();
}

export async function useClientKey(page: Page, key: string): Promise<void> {
  await page.locator("#key").fill(key);
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  await page.locator("#signed-in-client").waitFor();
}

/** Opens the menu of sign-ins first. */
export async function signOut(page: Page, as: "operator" | "client"): Promise<void> {
  await page.locator(".who summary").click();
  await page.getByRole("button", { name: `Sign out as ${as}` }).click();
}

/** Opens the menu of further pages first. */
export async function openMorePage(page: Page, name: string): Promise<void> {
  await page.locator("nav summary").click();
  await page.getByRole("link", { name }).click();
}

/** A key as an administrator's program makes it. */
export async function makeKey({ fleet }: WebFleet, fields: object): Promise<string> {
  const response = await fetch(`${fleet.url}/admin/keys`, {
    method: "POST",
    headers: { authorization: "Bearer fleet-admin" },
    body: JSON.stringify(fields),
  });
  return ((await response.json()) as { key: string }).key;
}

/** Of the dashboard. */
export const tileOf = (page: Page, name: string) =>
  page.locator(".tile", { has: page.getByText(name, { exact: true }) }).locator("dd");
export const chartOf = (page: Page, title: string) =>
  page.locator("figure", { has: page.locator("strong").getByText(title, { exact: true }) });
