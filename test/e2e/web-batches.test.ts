/** The page of batches: a file uploaded, its batch followed, looked into, downloaded and cancelled, by each who may. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { openPage, seriousFindings } from "../helpers/browser.js";
import { makeKey, screenshots, useAdminKey, useClientKey, useWebFleet } from "../helpers/web-fleet.js";

const web = useWebFleet();
const SLOW = { timeout: 90_000 };
const HOSTILE = "<img src=x onerror=alert(1)>\u202Elnosj.jsonl";

const line = (id: string, more: object = {}): string => {
  const body = { messages: [{ role: "user", content: "Hello!" }], max_tokens: 4, ...more };
  return JSON.stringify({ custom_id: id, method: "POST", url: "/v1/chat/completions", body });
};
const choose = (page: Page, name: string, lines: readonly string[]) =>
  page.setInputFiles("#batch-file", { name, mimeType: "application/jsonl", buffer: Buffer.from(lines.join("\n")) });
const make = (page: Page) => page.getByRole("button", { name: "Make a batch", exact: true }).click();
/** Of the client's own batches, the newest. */
const newest = (page: Page) => page.locator(".table").first().locator("tbody tr").first();

test("a file is uploaded, its batch is followed to its end, looked into and downloaded", SLOW, async () => {
  const key = await makeKey(web, { name: "batcher" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/batches`);
  const { page, faults } = watched;
  await useClientKey(page, key);
  await page.getByText("No batches.").waitFor();
  await page.getByText("No files.").waitFor();
  await page.screenshot({ path: join(screenshots, "batches-none.png") });
  await page.selectOption("#batch-endpoint", "/v1/embeddings");
  await choose(page, HOSTILE, [line("<b>first</b>"), line("wrong", { temperature: 9 })]);
  // The first line says what the file is for.
  await expect.poll(() => page.inputValue("#batch-endpoint")).toBe("/v1/chat/completions");
  await make(page);
  await newest(page).filter({ hasText: "completed" }).waitFor();
  await newest(page).getByText("2 of 2, 1 failed").waitFor();
  await newest(page).getByRole("button", { name: /^Look/ }).last().click();
  const wrong = "wrong 400 temperature: expected a number in [0, 2], got 9";
  await page.getByRole("row", { name: wrong, exact: true }).waitFor();
  await newest(page).getByRole("button", { name: /^Look/ }).first().click();
  await page.getByRole("row", { name: /^<b>first<\/b> 200/ }).waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    newest(page)
      .getByRole("link", { name: /^Download Output/ })
      .click(),
  ]);
  expect(download.suggestedFilename()).toMatch(/^batch_[0-9a-f]+-output\.jsonl$/);
  expect(JSON.parse(readFileSync(await download.path(), "utf8"))).toMatchObject({
    custom_id: "<b>first</b>",
    response: { status_code: 200 },
  });

  // The same file once more, and then no more.
  const file = page.locator("tr", { hasText: "<img src=x onerror=alert(1)>lnosj.jsonl" });
  await file.getByRole("button", { name: /^Make a batch/ }).click();
  await expect.poll(() => page.locator(".table").first().locator("tbody > tr:has(code)").count()).toBe(2);
  await file.getByRole("button", { name: /^Delete/ }).click();
  await file.waitFor({ state: "detached" });
  expect(faults).toEqual([]);
});

test("what is wrong with a file is said before and after it is sent", SLOW, async () => {
  const key = await makeKey(web, { name: "mistaken" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/batches`, { width: 400, height: 800 });
  const { page, faults } = watched;
  await useClientKey(page, key);
  await page.locator("#batch-file").waitFor();
  const alert = page.getByRole("alert");
  await choose(page, "a.txt", ["Hello"]);
  await alert.getByText("Line 1 is no JSON object").waitFor();
  await choose(page, "b.jsonl", [line("a").replace("/v1/chat/completions", "/v1/elsewhere")]);
  await alert.getByText("The first line is for /v1/elsewhere").waitFor();
  await choose(page, "c.jsonl", [line("a"), line("a")]);
  await alert.waitFor({ state: "detached" });
  await make(page);
  await newest(page).filter({ hasText: "failed" }).waitFor();
  await newest(page).getByRole("button", { name: /^Why/ }).click();
  const reason = page.getByText('line 2: expected each custom_id once, got "a" again');
  await reason.waitFor();
  // The reason is in view, wherever the table is scrolled to.
  const { x, width } = (await reason.boundingBox())!;
  expect([x >= 0, x + width <= 400]).toEqual([true, true]);
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
  expect(faults).toEqual([]);
});

test("an operator sees the batches of all tenants, without an API key, and cancels one", SLOW, async () => {
  const key = await makeKey(web, { name: "long" });
  const headers = { authorization: `Bearer ${key}` };
  const form = new FormData();
  form.set("purpose", "batch");
  const lines = Array.from({ length: 2000 }, (_, i) => line(`${i}`, { max_tokens: 32 }));
  form.set("file", new Blob([lines.join("\n")]), "long.jsonl");
  const stored = await fetch(`${web.fleet.url}/v1/files`, { method: "POST", headers, body: form });
  const { id: fileId } = (await stored.json()) as { id: string };
  const asked = { input_file_id: fileId, endpoint: "/v1/chat/completions", completion_window: "24h" };
  await fetch(`${web.fleet.url}/v1/batches`, { method: "POST", headers, body: JSON.stringify(asked) });

  await using watched = await openPage(web.browser, `${web.fleet.url}/#/keys`);
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByRole("link", { name: "Batches" }).click();
  await page.getByText("Batches and files belong to API keys").waitFor();
  expect(await page.locator("#key-form").count()).toBe(0);
  const row = page.locator("tbody tr", { hasText: "in progress" });
  await row.locator("progress").waitFor();
  expect(await row.innerText()).toContain("of 2,000");
  await row.getByRole("button", { name: /^Cancel/ }).click();
  await page.locator("tbody tr").first().filter({ hasText: "cancelled" }).waitFor();
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByRole("button", { name: "Sign in with an API key" }).click();
  await useClientKey(page, key);
  await newest(page).filter({ hasText: "cancelled" }).waitFor();
  expect(faults).toEqual([]);
});

test("pages of parts that the gateway has not say what turns them on", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/caches`);
  const { page, faults } = watched;
  await useAdminKey(page);
  await page.getByText("add cache: {} to the configuration").waitFor();
  await page.getByText("it needs semantic-cache of a model in the gateway's file").waitFor();
  await page.goto(`${web.fleet.url}/#/alerts`);
  await page.getByText("it needs ledger: {} and alerts in the gateway's file").waitFor();
  await page.goto(`${web.fleet.url}/#/routing`);
  await page.getByText("routes: in the file makes one").waitFor();
  await page.getByText("cascades: in the file makes one").waitFor();
  await page.getByText("No canary since the gateway started").waitFor();
  expect(faults).toEqual([]);
});
