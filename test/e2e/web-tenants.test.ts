/** The dashboard of a gateway with tenants: an operator sees and chooses them, and nobody else learns of them. */
import { join } from "node:path";
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
