/** The dashboard over a kill: what its hour has of it. The server keeps the load every ten seconds. */
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { openPage } from "../helpers/browser.js";
import { chartOf, makeKey, screenshots, tileOf, useAdminKey, useWebFleet } from "../helpers/web-fleet.js";

const web = useWebFleet();

const SLOW = { timeout: 90_000 };

const chat = (key: string, maxTokens: number): Promise<Response> =>
  fetch(`${web.fleet.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify({ messages: [{ role: "user", content: "Tell me a story." }], max_tokens: maxTokens }),
  });

/** Of the last hour, the most tokens of answers in a second. */
async function mostKept(): Promise<number> {
  const answer = await fetch(`${web.fleet.url}/watch/history`);
  const { loads } = (await answer.json()) as { loads: readonly { readonly tokens_out_per_s?: number }[] };
  return Math.max(0, ...loads.map(({ tokens_out_per_s = 0 }) => tokens_out_per_s));
}

test("the dashboard marks where an instance was killed", SLOW, async () => {
  const key = await makeKey(web, { name: "killer" });
  await using watched = await openPage(web.browser, `${web.fleet.url}/#/dashboard`);
  const { page, faults } = watched;
  // At once: the week has its first figures at a full quarter of an hour.
  await page.getByLabel("Week").check();
  await page.getByText("no figures of that time yet").waitFor();
  await vi.waitFor(
    async () => {
      await chat(key, 400);
      expect(await mostKept()).toBeGreaterThan(10);
    },
    { timeout: 60_000, interval: 0 },
  );
  await page.goto(`${web.fleet.url}/#/models`);
  await useAdminKey(page);
  await page.locator(".state.ready").waitFor();
  const [instance] = await web.fleet.instances();
  process.kill(instance!.pid, "SIGKILL");
  await page
    .locator("tr", { hasText: instance!.id })
    .filter({ hasText: "ready" })
    .getByText("2", { exact: true })
    .waitFor();
  await page.goto(`${web.fleet.url}/#/dashboard`);
  await tileOf(page, "Running").waitFor();
  await page.getByLabel("Hour").check();
  await chartOf(page, "Tokens").locator("canvas").waitFor();
  await chartOf(page, "Tokens").locator(".mark-restart").waitFor({ state: "attached" });
  await page.getByRole("cell", { name: `${instance!.id} starts again, start 2` }).waitFor();
  await page.screenshot({ path: join(screenshots, "dashboard-hour.png") });
  expect(faults).toEqual([]);
});
