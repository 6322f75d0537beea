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

const NUM_CHATS = 1000;

test("chats are searched as one types, also a thousand, and the place that is found is shown", SLOW, async () => {
  const filler = "Nothing of note happens here. ".repeat(130);
  const chats = Array.from({ length: NUM_CHATS }, (_, i) => ({
    id: `c${i}`,
    title: i === 7 ? "Of Herons" : `Chat ${i}`,
    updatedMs: i + 1,
    panes: [
      {
        model: "m",
        turns: [
          {
            role: "user",
            content: `Question ${i}`,
            ...(i === 9 ? { files: [{ name: "f", text: "a gray\nheron" }] } : {}),
          },
          {
            role: "assistant",
            content: i === 5 ? `${filler}\n\nA grey **heron** [stands].\n\n${filler}` : filler.slice(0, 3900),
          },
        ],
      },
    ],
  }));
  await using server = await serveAnswers();
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.evaluate(`localStorage.setItem("millrace-chats", ${JSON.stringify(JSON.stringify(chats))})`);
  await page.reload();
  const titles = page.locator(".history button.title");
  await expect.poll(() => titles.count()).toBe(NUM_CHATS);
  const search = page.getByRole("searchbox", { name: "Search chats" });
  await search.focus();
  await page.keyboard.type("HERON");
  const status = page.locator(".history").getByRole("status");
  await status.getByText("3 chats have these words.").waitFor();
  expect(await titles.allInnerTexts()).toEqual([
    "Chat 9\na gray heron",
    "Of Herons",
    expect.stringContaining("A grey **heron** [stands]. Nothing of note"),
  ]);
  expect(await page.locator(".history mark").allInnerTexts()).toEqual(["heron", "heron"]);
  expect(await seriousFindings(page)).toEqual([]);
  // The frame after a key has its result.
  const slowestMs = await page.evaluate(`(async () => {
    const field = document.getElementById("search-chats");
    let slowest = 0;
    for (const words of ["n", "no", "not", "note", "noted", "o", "heron", "happens here", "zzz"]) {
      const beginMs = performance.now();
      field.value = words;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      slowest = Math.max(slowest, performance.now() - beginMs);
    }
    return slowest;
  })()`);
  expect(slowestMs).toBeLessThan(1000);
  await search.fill("[stands]");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  const place = page.locator(".turn.assistant p", { hasText: "heron" });
  await expect.poll(() => page.evaluate(`[...(CSS.highlights.get("found") ?? [])].join()`)).toContain("[stands]");
  const box = (await place.boundingBox())!;
  expect(box.y).toBeGreaterThan(0);
  expect(box.y + box.height).toBeLessThan(page.viewportSize()!.height);
  await search.focus();
  await page.keyboard.press("Escape");
  await expect.poll(() => titles.count()).toBe(NUM_CHATS);
  await search.fill("nowhere at all");
  await status.getByText("No chat has these words.").waitFor();
  // On a phone, the list gives way to the place.
  await page.setViewportSize({ width: 390, height: 844 });
  await page.locator("#opens-history").click();
  await search.fill("[stands]");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await search.waitFor({ state: "hidden" });
  await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("opens-history");
  await expect.poll(async () => (await place.boundingBox())!.y).toBeGreaterThan(0);
  expect(faults).toEqual([]);
});
