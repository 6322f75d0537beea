/** Pictures in the chat: for models that see them, and at an engine that sees none. */
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { writing } from "../helpers/ask.js";
import { openPage, seriousFindings, useBrowser } from "../helpers/browser.js";
import { serveAnswers, whole } from "../helpers/canned-answers.js";
import { startFakeServer } from "../helpers/fake-server.js";
import { answerText, ask, lastTurn, press } from "../helpers/web-chat.js";

const started = useBrowser();

const SLOW = { timeout: 60_000 };

/** One red pixel. */
const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==",
  "base64",
);
const attachPixel = (page: Page) => page.setInputFiles("#files", { name: "pixel.png", mimeType: "", buffer: PNG });
const pixel = (page: Page) => page.locator(".turn.user").getByRole("img", { name: "pixel.png" });
const isDrawn = (page: Page) => page.evaluate(`document.querySelector(".turn.user img").naturalWidth === 1`);

test("a picture is sent as a part of the message, shown, and kept", SLOW, async () => {
  await using server = await serveAnswers(whole("Red."), whole("Still red."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await attachPixel(page);
  await page.getByRole("button", { name: "Remove pixel.png" }).waitFor();
  await ask(page, "Which colour?");
  const url = `data:image/png;base64,${PNG.toString("base64")}`;
  const content = [
    { type: "text", text: "Which colour?" },
    { type: "image_url", image_url: { url } },
  ];
  expect(server.requests[0]!.messages).toEqual([{ role: "user", content }]);
  await page.reload();
  await pixel(page).waitFor();
  await expect.poll(() => isDrawn(page)).toBe(true);
  await press(page, "Regenerate");
  expect(await answerText(page)).toBe("Still red.");
  expect(server.requests[1]!.messages).toEqual([{ role: "user", content }]);
  expect(await seriousFindings(page)).toEqual([]);
  expect(faults).toEqual([]);
});

test("an engine that sees no pictures says so, and the question can be asked without it", SLOW, async () => {
  const { server } = await startFakeServer(writing("Fine."));
  try {
    await using watched = await openPage(started.browser, `${server.url}/`);
    const { page } = watched;
    await attachPixel(page);
    await page.getByRole("button", { name: "Remove pixel.png" }).waitFor();
    await ask(page, "Which colour?");
    await lastTurn(page).locator(".facts.error", { hasText: "this server takes no images" }).waitFor();
    await press(page, "Edit the message");
    await page.getByRole("button", { name: "Remove pixel.png" }).click();
    await page.press("#input", "Enter");
    await lastTurn(page).getByText("Fine.").waitFor();
    expect(await pixel(page).count()).toBe(0);
  } finally {
    await server.close();
  }
});
