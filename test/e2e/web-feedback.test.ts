/** Words of visitors on answers, in a real browser, as the gateway takes and keeps them. */
import type { Page } from "playwright-core";
import { afterEach, expect, test } from "vitest";
import { openPage, seriousFindings, useBrowser } from "../helpers/browser.js";
import { earn, endSemanticFleets, startSemanticFleet } from "../helpers/semantic-fleet.js";
import { ask, lastTurn } from "../helpers/web-chat.js";

const started = useBrowser();
afterEach(endSemanticFleets);

async function signIn(page: Page): Promise<void> {
  await page.getByLabel("API key", { exact: true }).fill("ka");
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  await page.locator("#signed-in-client").waitFor();
}

const thumb = (page: Page, name: string) => lastTurn(page).getByRole("button", { name, exact: true });
const pressed = (page: Page) =>
  Promise.all(["Good answer", "Bad answer"].map((name) => thumb(page, name).getAttribute("aria-pressed")));

test("an answer is rated and corrected, and a kept answer to another question is dropped", {
  timeout: 180_000,
}, async () => {
  const gateway = await startSemanticFleet({
    keys: "mode: serve, audit-rate: 0.01",
    more: "conversations: {}\nledger: {}\nquality: { sample: 100% }",
  });
  await earn(gateway, 300);
  await using watched = await openPage(started.browser, `${gateway.fleet.url}/`);
  const { page, faults } = watched;
  await signIn(page);

  await ask(page, "What is the root of 9?");
  expect(await pressed(page)).toEqual(["false", "false"]);
  expect(await lastTurn(page).getByRole("button", { name: "Wrong answer" }).count()).toBe(0);
  await thumb(page, "Bad answer").click();
  await lastTurn(page).getByLabel("The right answer, if you like").fill("Three.");
  await lastTurn(page).getByRole("button", { name: "Send correction" }).click();
  await lastTurn(page).getByRole("button", { name: "Sent", exact: true }).waitFor();
  expect(await pressed(page)).toEqual(["false", "true"]);
  const sampled = async () => (await gateway.admin("quality/samples?limit=1")).data[0].feedback;
  await expect.poll(sampled).toEqual({ score: -1, correction: "Three.", comment: null });
  expect(await seriousFindings(page)).toEqual([]);
  await page.reload();
  await thumb(page, "Bad answer").waitFor();
  expect(await pressed(page)).toEqual(["false", "true"]);
  await thumb(page, "Good answer").click();
  await expect.poll(sampled).toEqual({ score: 1, correction: null, comment: null });

  // One in a hundred hits is an audit, which is generated.
  const wrong = lastTurn(page).getByRole("button", { name: "Wrong answer" });
  for (const words of ["Tell me the root of 9.", "What's the root of 9?", "Can you tell me what the root of 9 is?"]) {
    await page.locator(".history").getByRole("button", { name: "New chat" }).click();
    await ask(page, words);
    if ((await wrong.count()) > 0) break;
  }
  await wrong.click();
  await lastTurn(page).getByRole("button", { name: "Reported as wrong" }).waitFor();
  await expect.poll(async () => (await gateway.status()).counts.reported).toBe(1);
  await thumb(page, "Bad answer").click();
  await lastTurn(page).getByLabel("The right answer, if you like").waitFor();
  expect(await page.locator(".composer .error").count()).toBe(0);
  expect(await seriousFindings(page)).toEqual([]);
  expect(faults).toEqual([]);
});

test("where the server takes no words on answers there are no thumbs", { timeout: 60_000 }, async () => {
  const gateway = await startSemanticFleet();
  await using watched = await openPage(started.browser, `${gateway.fleet.url}/`);
  await signIn(watched.page);
  await ask(watched.page, "What is the root of 9?");
  await lastTurn(watched.page).getByRole("button", { name: "Regenerate" }).waitFor();
  expect(await watched.page.locator(".feedback").count()).toBe(0);
});
