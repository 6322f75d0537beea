/**
 * Pages in headless Chromium, watched: a page that logs an error, breaks its own policy or asks another host for
 * anything fails its test.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, beforeEach, type TestContext } from "vitest";

const PATHS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Undefined: none is installed, and tests that need one are skipped. */
export const chromiumPath = PATHS.find((path) => path !== undefined && existsSync(path));

/**
 * For `beforeEach`: a checkout without a browser runs the other tests; .ci/run installs Chromium, so that these run
 * there.
 */
export function skipWithoutBrowser(context: TestContext): void {
  if (chromiumPath === undefined) context.skip("needs chromium");
}

export const launchBrowser = (): Promise<Browser> =>
  chromium.launch({
    executablePath: chromiumPath!,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });

/**
 * One browser for all tests of the file that calls it, which are skipped where none is installed.
 * @returns filled before the first test
 */
export function useBrowser(): { readonly browser: Browser } {
  const started: { browser?: Browser } = {};
  beforeAll(async () => {
    if (chromiumPath !== undefined) started.browser = await launchBrowser();
  });
  afterAll(() => started.browser?.close());
  beforeEach(skipWithoutBrowser);
  return started as { readonly browser: Browser };
}

interface WatchedPage extends AsyncDisposable {
  readonly page: Page;
  /** What the page did that it must not. */
  readonly faults: readonly string[];
}

interface PageOptions {
  readonly width?: number;
  readonly height?: number;
  readonly colorScheme?: "light" | "dark";
  /** The visitor's answer to a question of the page; the standard is yes. */
  confirms?(question: string): boolean;
}

const REFUSALS = /Failed to load resource: (the server responded with a status of|net::ERR_)/;

/** @example await using watched = await openPage(browser, server.url); await watched.page.fill("#input", "Hello"); */
export async function openPage(browser: Browser, url: string, options: PageOptions = {}): Promise<WatchedPage> {
  const { width = 1280, height = 800, colorScheme = "light", confirms = () => true } = options;
  // A test's certificate is signed by nobody.
  const trust = { bypassCSP: false, ignoreHTTPSErrors: true };
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, ...trust });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const faults: string[] = [];
  page.on("console", (message) => {
    const text = message.text();
    if (message.type() === "error" && !REFUSALS.test(text)) faults.push(`console: ${text}`);
  });
  page.on("pageerror", (error) => faults.push(`exception: ${error.message}`));
  page.on("request", (request) => {
    if (new URL(request.url()).host !== new URL(url).host && !/^(data|blob):/.test(request.url())) {
      faults.push(`foreign request: ${request.url()}`);
    }
  });
  page.on("dialog", (dialog) => {
    if (dialog.type() === "alert") faults.push(`alert: ${dialog.message()}`);
    void (confirms(dialog.message()) ? dialog.accept() : dialog.dismiss());
  });
  await page.goto(url);
  return { page, faults, [Symbol.asyncDispose]: () => context.close() };
}

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Findings that keep people out, as "rule: element". */
export async function seriousFindings(page: Page): Promise<readonly string[]> {
  // The page's policy forbids scripts of others; the browser's own connection may.
  await page.evaluate(axe);
  return await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: {
        run(): Promise<{
          violations: { id: string; impact: string; nodes: { html: string; failureSummary: string }[] }[];
        }>;
      };
    };
    const { violations } = await axe.run();
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return serious.flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
    );
  });
}
