/** Pages of one model's server, without a gateway. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { openPage, useBrowser } from "../helpers/browser.js";
import { startTestServer } from "../helpers/server.js";
import { writeReports } from "../helpers/web-reports.js";

const SLOW = { timeout: 90_000 };
const folder = mkdtempSync(join(tmpdir(), "millrace-one-server-"));
const started = useBrowser();
afterAll(() => rmSync(folder, { recursive: true }));

test("one model's server lists its administrator's reports, and opens them", SLOW, async () => {
  const reports = join(folder, "reports");
  writeReports(reports);
  const flags = ["--threads", "1", "--admin-key", "boss", "--reports", reports];
  await using server = await startTestServer(flags);
  await using watched = await openPage(started.browser, `${server.url}/`);
  const { page, faults } = watched;
  await page.getByRole("link", { name: "Reports" }).click();
  await page.getByLabel("The administrator's key").fill("boss");
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  await page.getByLabel("Compare before.json").check();
  await page.getByLabel("Compare after.json").check();
  const row = page.getByRole("region", { name: "Comparison" }).locator("tbody tr");
  await row.waitFor();
  expect(await row.locator("td").allInnerTexts()).toContain("2 ×");
  const [opened] = await Promise.all([
    page.context().waitForEvent("page"),
    page.getByRole("link", { name: "Open after.json" }).click(),
  ]);
  await opened.getByText("Kept").waitFor();
  expect(await opened.title()).not.toBe("ran");
  expect(faults).toEqual([]);
});

test("one model's server shows its requests too", SLOW, async () => {
  await using server = await startTestServer(["--threads", "1"]);
  const answer = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    body: JSON.stringify({ prompt: "Once", max_tokens: 8, temperature: 0 }),
  });
  expect(answer.status).toBe(200);
  await using watched = await openPage(started.browser, `${server.url}/#/requests`);
  const { page, faults } = watched;
  const row = page.locator("tbody tr").first();
  await row.waitFor();
  expect((await row.locator("td").allInnerTexts()).slice(1, 3)).toEqual(["mill-base", "answered"]);
  expect(await row.locator("svg.parts").getAttribute("aria-label")).toMatch(/prompt .*queue .*prefill .*decode/);
  expect(faults).toEqual([]);
});
