/**
 * Figures of a gateway by choice: an operator sees the tenants and chooses one, nobody else learns of them, and what
 * comes late does not stand under another choice.
 */
import { join } from "node:path";
import type { Route } from "playwright-core";
import { expect, test } from "vitest";
import { openPage, seriousFindings } from "../helpers/browser.js";
import { makeKey, screenshots, useAdminKey, useWebFleet } from "../helpers/web-fleet.js";

const web = useWebFleet();

const SLOW = { timeout: 90_000 };

test("an operator sees the figures of tenants, chooses one, and nobody else learns of them", SLOW, async () => {
  await fetch(`${web.fleet.url}/admin/orgs`, {
    method: "POST",
    headers: { authorization: "Bearer fleet-admin" },
    body: JSON.stringify({ id: "acme" }),
  });
  const key = await makeKey(web, { org: "acme", name: "watched" });
  const ask = async () => {
    const body = { messages: [{ role: "user", content: "Tell me a story." }], max_tokens: 60, stream: true };
    const headers = { authorization: `Bearer ${key}` };
    const init = { method: "POST", headers, body: JSON.stringify(body) };
    await (await fetch(`${web.fleet.url}/v1/chat/completions`, init)).arrayBuffer();
  };
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/dashboard`);
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
    await useAdminKey(page);
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
      const past = await fetch(`${web.fleet.url}/watch/history?${query}`, { headers });
      expect([past.status, await past.text()]).toEqual([401, expect.not.stringContaining("acme")]);
      const series = await (await fetch(`${web.fleet.url}/watch/series`, { headers })).text();
      expect(series).not.toContain("tenant");
    }
  } finally {
    isOver = true;
    await load;
  }
  expect(faults).toEqual([]);
});

test("spend of a time that comes late does not stand under another one", SLOW, async () => {
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/spend`);
  const { page } = watched;
  await useAdminKey(page);
  let hold: (route: Route) => void = () => {};
  const held = new Promise<Route>((resolve) => {
    hold = resolve;
  });
  const rowOf = (model: string) => ({ model, requests: 1, fresh: 1, cache_read: 0, cache_write: 0, output: 1 });
  const answer = (route: Route, model: string) =>
    route.fulfill({ json: { data: [{ ...rowOf(model), cost: "1", saved: "0", saved_by: "" }] } });
  const yearAgo = new Date(Date.now() - 365 * 86_400_000).toISOString().slice(0, 4);
  await page.route("**/admin/ledger/spend?*", (route) =>
    route.request().url().includes(`from=${yearAgo}`) ? hold(route) : answer(route, "of the day"),
  );
  const table = page.locator("table").first();
  await page.selectOption("#period", "last year");
  const late = await held;
  await page.selectOption("#period", "last day");
  await table.getByText("of the day").waitFor();
  const came = page.waitForResponse(late.request().url());
  await answer(late, "of the year");
  await (await came).finished();
  // What the page makes of it is shown by then.
  await page.evaluate("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
  expect(await table.innerText()).not.toContain("of the year");
});
