/** The pages of caches, alerts and routing, with real requests behind them; and what a viewer may not do there. */
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openPage, seriousFindings } from "../helpers/browser.js";
import { repositoryRoot } from "../helpers/fixtures.js";
import { makeKey, screenshots, useAdminKey, useWebFleet } from "../helpers/web-fleet.js";

const modelOf = (name: string, more: object) => ({
  name,
  model: join(repositoryRoot(), `models/${name}.gguf`),
  options: { threads: 1 },
  ...more,
});
const web = useWebFleet(() => ({
  operators: [{ name: "vera", role: "viewer", key: "k-viewer-k-viewer-k-viewer" }],
  alerts: {},
  cache: {},
  models: [
    modelOf("mill-base", { price: { input: 10, output: 20 }, "semantic-cache": { embeddings: "mill-base" } }),
    modelOf("mill-student", { price: { input: 1, output: 2 } }),
  ],
  routes: [
    {
      name: "chat",
      rules: [
        { when: { headers: { "x-tier": ["s3cret"] } }, to: "mill-base" },
        {
          to: [
            { model: "mill-student", weight: 3 },
            { model: "mill-base", weight: 1 },
          ],
        },
      ],
    },
  ],
  // Every answer of the small model is kept, unless it is audited.
  cascades: [{ name: "smart", small: "mill-student", large: "mill-base", "min-logprob": -100, audit: { share: 0.01 } }],
}));

const SLOW = { timeout: 90_000 };
/** A name as a hostile client would have it. */
const HOSTILE = "<img src=x onerror=alert(1)>";

async function ask(key: string, model: string, fields: object = {}): Promise<void> {
  const answer = await fetch(`${web.fleet.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "x-millrace-cache-tag": "doc:1" },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello!" }], max_tokens: 8, ...fields }),
  });
  expect([answer.status, await answer.text()]).toEqual([200, expect.anything()]);
}

async function useViewerKey(page: Page): Promise<void> {
  await page.getByLabel("Your key as an operator").fill("k-viewer-k-viewer-k-viewer");
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  await page.locator("#signed-in").waitFor();
}

const look = async (page: Page, name: string): Promise<void> => {
  await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: true });
  expect(await seriousFindings(page)).toEqual([]);
  await page.setViewportSize({ width: 400, height: 800 });
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
  await page.setViewportSize({ width: 1280, height: 800 });
};

test("caches: what equal requests save is shown, and a purge says how many answers went", SLOW, async () => {
  const key = await makeKey(web, { name: "asker" });
  for (let i = 0; i < 4; i++) await ask(key, "mill-base", { temperature: 0 });
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/caches`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const row = page.locator("section", { hasText: "Equal requests" }).locator("tbody tr", { hasText: "mill-base" });
  await row.waitFor();
  expect((await row.locator("td").allInnerTexts()).slice(0, 6)).toEqual(["mill-base", "75.0 %", "3", "0", "1", "0"]);
  await page.getByText("judges only: 300 more judged hits are needed").waitFor();
  await look(page, "caches");
  const said = page.getByRole("status");
  await page.getByLabel("With a tag that begins with").fill("other:");
  await page.getByRole("button", { name: "Purge" }).click();
  await said.getByText("There was no such answer.").waitFor();
  await page.getByLabel("Of the model").fill("mill-base");
  await page.getByLabel("With a tag that begins with").fill("doc:");
  await page.getByRole("button", { name: "Purge" }).click();
  await said.getByText("Purged: 1.").waitFor();
  await expect.poll(() => page.getByLabel("Of the model").inputValue()).toBe("");
  expect(faults).toEqual([]);
});

test("alerts: what lasts is shown, and is silenced with a reason, by the keyboard too", SLOW, async () => {
  const key = await makeKey(web, { name: HOSTILE, budgets: { day: { soft: "0.0000001" } } });
  await ask(key, "mill-base");
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/alerts`);
  const { page, faults } = watched;
  await useAdminKey(page);
  const now = page.locator("section", { has: page.getByRole("heading", { name: "Now" }) });
  const row = now.locator("tbody tr", { hasText: "soft_budget" });
  await row.waitFor();
  await look(page, "alerts");
  await row.getByRole("button", { name: /^Silence/ }).press("Enter");
  expect(await page.getByLabel("Metric").inputValue()).toBe("soft_budget");
  // The focus is where the reason is to be given.
  await expect.poll(() => page.evaluate("document.activeElement?.id")).toBe("silence-comment");
  await page.keyboard.type(`a load test ${HOSTILE}`);
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("Silenced.").waitFor();
  const silence = page.locator("tbody tr", { hasText: `a load test ${HOSTILE}` });
  await silence.filter({ hasText: "active" }).waitFor();
  await silence.getByRole("button", { name: /^End/ }).click();
  await silence.filter({ hasText: "ended" }).waitFor();
  // A silence of everything is not asked for.
  await page.getByLabel("Why").fill("no reason");
  await page.locator("form").getByRole("button", { name: "Silence" }).click();
  await page.getByRole("alert").getByText("Give a metric, a tenant, a key or a model").waitFor();
  expect(faults).toEqual([]);
});

test("routing: shares, kept answers, and a canary that is started and stopped", SLOW, async () => {
  const key = await makeKey(web, { name: "router" });
  for (let i = 0; i < 4; i++) await ask(key, "chat");
  await ask(key, "smart");
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/routing`);
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByText("mill-student 3 (75.0 %), mill-base 1 (25.0 %)").waitFor();
  await page.getByRole("row", { name: "headers x-tier mill-base 100.0 %" }).waitFor();
  expect(await page.locator("main").innerText()).not.toContain("s3cret");
  await page
    .locator("tbody tr", { hasText: "smart" })
    .getByText(/^(kept|audited|escalated) 1$/)
    .waitFor();
  await page.getByLabel("Model").fill("mill-student");
  await page.getByRole("button", { name: "Start a canary" }).click();
  await page.getByRole("alert").getByText("Give flags or weights").waitFor();
  await page.getByLabel("Flags").fill("--max-num-seqs 3");
  await page.getByRole("button", { name: "Start a canary" }).click();
  const state = page.locator("p", { hasText: "mill-student with --max-num-seqs 3" });
  await state.getByText(/starting|running with 50\.0 % of the requests/).waitFor();
  await look(page, "routing");
  await state.getByRole("button", { name: "Stop the canary of mill-student" }).click();
  await state.getByText("stopped: an operator stopped it").waitFor();
  expect(faults).toEqual([]);
});

test("a viewer reads all three, and sees which role the rest needs", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/caches`, { colorScheme: "dark" });
  const { page, faults } = watched;
  await useViewerKey(page);
  for (const [path, content] of Object.entries({ caches: "Kept answers", alerts: "Silences", routing: "chat" })) {
    await page.goto(`${web.fleet.url}/#/${path}`);
    await page.locator("main").getByText(content).first().waitFor();
    await page.getByText("needs the role operator").first().waitFor();
    expect(await page.locator("main").getByRole("button").count(), path).toBe(0);
    expect(await page.locator(".error").allInnerTexts(), path).toEqual([]);
    expect(await seriousFindings(page), path).toEqual([]);
  }
  expect(faults).toEqual([]);
});

test("in a narrow window, the navigation shows the page that is open, also one of the menu", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/spend`, { width: 400 });
  const { page, faults } = watched;
  const edgeOf = () => page.locator("nav [aria-current]").evaluate((link) => link.getBoundingClientRect().right);
  await expect.poll(edgeOf).toBeLessThanOrEqual(400);
  expect(await page.locator("nav [aria-current]").innerText()).toBe("Spend");
  await page.goto(`${web.fleet.url}/#/reports`);
  await page.locator("nav summary", { hasText: "Reports" }).waitFor();
  expect(faults).toEqual([]);
});
