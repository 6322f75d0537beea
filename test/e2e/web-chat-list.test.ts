/** The list of chats of the app in a browser. */
import { expect, test } from "vitest";
import { openPage, seriousFindings, useBrowser } from "../helpers/browser.js";
import { serveAnswers, whole } from "../helpers/canned-answers.js";
import { ask } from "../helpers/web-chat.js";

const started = useBrowser();

const SLOW = { timeout: 60_000 };

test("a chat is renamed in its place in the list, and keeps its name when it goes on", SLOW, async () => {
  await using server = await serveAnswers(whole("One."), whole("Two."), whole("Three."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  const titles = page.locator(".history button.title");
  const field = page.getByRole("textbox", { name: "Name of the chat" });
  await ask(page, "First");
  await page.locator("#clear").click();
  await ask(page, "Second");
  const rename = page.getByRole("button", { name: "Rename First" });
  await rename.press("Enter");
  await expect.poll(() => field.inputValue()).toBe("First");
  expect(await seriousFindings(page)).toEqual([]);
  await page.keyboard.type("Given up");
  await page.keyboard.press("Escape");
  expect(await titles.allInnerTexts()).toEqual(["Second", "First"]);
  await rename.press("Enter");
  await field.fill("  ");
  await field.press("Enter");
  expect(await titles.allInnerTexts()).toEqual(["Second", "First"]);
  await rename.press("Enter");
  await field.fill("Of foxes");
  await field.press("Enter");
  await expect.poll(() => titles.allInnerTexts()).toEqual(["Second", "Of foxes"]);
  await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("Of foxes");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.title()).toBe("Of foxes – millrace");
  await ask(page, "Third");
  await expect.poll(() => titles.allInnerTexts()).toEqual(["Of foxes", "Second"]);
  await page.reload();
  await expect.poll(() => page.title()).toBe("Of foxes – millrace");
  expect(faults).toEqual([]);
});

test("names of chats and files are one line without marks that turn them, and have an end", SLOW, async () => {
  await using server = await serveAnswers(whole("One."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  const buffer = Buffer.from("All is well.");
  await page.setInputFiles("#files", { name: "an\u202Etxt.exe", mimeType: "text/plain", buffer });
  await page.getByRole("button", { name: "Remove antxt.exe" }).waitFor();
  await ask(page, "Turn \u202Earound");
  const titles = page.locator(".history button.title");
  expect(await titles.allInnerTexts()).toEqual(["Turn around"]);
  expect(await page.locator(".file summary").innerText()).toBe("antxt.exe");
  expect(await page.title()).toBe("Turn around – millrace");
  const turns = [{ role: "user", content: "x", files: [{ name: "b\u2067\nc", text: "" }] }];
  const hostile = {
    id: "h",
    title: `\u202E\u0000${"long ".repeat(1e5)}`,
    updatedMs: 5,
    panes: [{ model: "m", turns }],
  };
  await page.setInputFiles(".history input[type=file]", {
    name: "chats.json",
    mimeType: "application/json",
    buffer: Buffer.from(JSON.stringify(hostile)),
  });
  await titles.filter({ hasText: /^long / }).click();
  expect((await titles.last().innerText()).length).toBe(200);
  expect(await page.locator(".file summary").innerText()).toBe("b c");
  expect(faults).toEqual([]);
});
