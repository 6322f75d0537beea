import type { Locator, Page } from "playwright-core";
import { expect, test } from "vitest";
import { openPage, useBrowser } from "../helpers/browser.js";
import { type Answer, begun, delta, serveAnswers, silent, whole } from "../helpers/canned-answers.js";
import { answerText, ask, lastTurn, press, settled } from "../helpers/web-chat.js";

const started = useBrowser();

const SLOW = { timeout: 60_000 };

test(
  "a question is kept when it is sent, and can be asked again where the page is closed before its answer",
  SLOW,
  async () => {
    await using server = await serveAnswers(silent, whole("One."), silent, whole("Two."));
    await using watched = await openPage(started.browser, server.url);
    const { page } = watched;
    const questions = page.locator(".turn.user .text");
    for (const [question, text] of [
      ["First", "One."],
      ["Second", "Two."],
    ] as const) {
      await page.locator("#model", { hasText: /^(?!$)/ }).waitFor();
      await page.fill("#input", question);
      await page.press("#input", "Enter");
      await page.locator("#stop").waitFor();
      await page.reload();
      await questions.last().getByText(question, { exact: true }).waitFor();
      await press(page, "Try again");
      expect(await answerText(page)).toBe(text);
    }
    expect(await questions.allInnerTexts()).toEqual(["First", "Second"]);
  },
);

test(
  "until the first words come, the answer's place says that they are awaited, without motion if so wished",
  SLOW,
  async () => {
    let begin = () => {};
    const late: Answer = (response) => {
      silent(response);
      begin = () => void response.end(`${delta({ content: "At last." }, "stop")}data: [DONE]\n\n`);
    };
    await using server = await serveAnswers(late);
    await using watched = await openPage(started.browser, server.url);
    const { page } = watched;
    const sign = lastTurn(page).getByRole("status");
    const motion = () => page.evaluate(`getComputedStyle(document.querySelector(".waiting"), "::after").animationName`);
    await page.fill("#input", "Go");
    await page.press("#input", "Enter");
    await sign.getByText("Waiting for the first words").waitFor();
    expect(await motion()).toBe("pulse");
    await page.emulateMedia({ reducedMotion: "reduce" });
    expect(await motion()).toBe("none");
    // The page shows the sign before the request is here.
    await expect.poll(() => server.requests.length).toBe(1);
    begin();
    await lastTurn(page).getByText("At last.").waitFor();
    expect(await sign.count()).toBe(0);
  },
);

test("texts are written from the side of their script, code from the left", SLOW, async () => {
  const answer = "שלום לך.\n\n```js\nconst a = 1; // שלום\n```\n\nIn English.\n\n- مرحبا\n";
  await using server = await serveAnswers(whole(answer));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  const isFromRight = (place: Locator) =>
    place.evaluate((element) => (element as unknown as { matches(of: string): boolean }).matches(":dir(rtl)"));
  await page.fill("#input", "מה שלומך?");
  expect(await isFromRight(page.locator("#input"))).toBe(true);
  await ask(page, "مرحبا");
  expect(await isFromRight(page.locator(".turn.user .text"))).toBe(true);
  expect(await isFromRight(page.locator(".history .title"))).toBe(true);
  const text = lastTurn(page);
  expect(await isFromRight(text.locator("p", { hasText: "שלום" }))).toBe(true);
  expect(await isFromRight(text.locator("p", { hasText: "In English" }))).toBe(false);
  expect(await isFromRight(text.locator("li"))).toBe(true);
  expect(await isFromRight(text.locator("pre"))).toBe(false);
  expect(faults).toEqual([]);
});

test("a message stays in its box, and an answer in its place, while the JSON Schema cannot be used", SLOW, async () => {
  await using server = await serveAnswers(whole("{}"), whole("[]"));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.locator("#model", { hasText: /^(?!$)/ }).waitFor();
  await page.getByLabel("Form of answers").selectOption("schema");
  await page.fill("#input", "Fill it in");
  await page.press("#input", "Enter");
  const error = page.locator(".composer").getByRole("alert");
  await error.getByText("The JSON Schema in the settings cannot be used: it is empty.").waitFor();
  expect(await page.inputValue("#input")).toBe("Fill it in");
  await page.getByLabel("JSON Schema", { exact: true }).fill('{"type": "object"}');
  await page.press("#input", "Enter");
  await settled(page);
  expect(await error.count()).toBe(0);
  await page.getByLabel("JSON Schema", { exact: true }).fill("{");
  await lastTurn(page).getByRole("button", { name: "Regenerate" }).click();
  await error.waitFor();
  expect(await lastTurn(page).locator(".json-tree").count()).toBe(1);
  expect(server.requests.map(({ response_format }) => response_format)).toMatchObject([
    { json_schema: { schema: { type: "object" } } },
  ]);
  expect(faults).toEqual([]);
});

test("the message box has the focus at first and after New chat, and its words outlive a reload", SLOW, async () => {
  await using server = await serveAnswers(whole("Yes."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  const hasFocus = () => expect.poll(() => page.evaluate("document.activeElement.id")).toBe("input");
  await hasFocus();
  await ask(page, "There?");
  await page.locator("#clear").click();
  await hasFocus();
  await page.keyboard.type("Half a thou");
  await page.reload();
  await hasFocus();
  await page.keyboard.type("ght");
  expect(await page.inputValue("#input")).toBe("Half a thought");
  await page.press("#input", "Enter");
  await page.locator("#stop").waitFor();
  await page.reload();
  expect(await page.inputValue("#input")).toBe("");
});

test("a conversation has its address: reloads, Back and bookmarks show it, and the title names it", SLOW, async () => {
  await using server = await serveAnswers(whole("One."), whole("Two."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  const questions = page.locator(".turn.user .text");
  const isShown = async (question: string) => {
    await expect.poll(() => questions.allInnerTexts()).toEqual([question]);
    await expect.poll(() => page.title()).toBe(`${question} – millrace`);
  };
  await expect.poll(() => page.title()).toBe("New chat – millrace");
  await ask(page, "First");
  await isShown("First");
  const bookmark = page.url();
  expect(bookmark).toMatch(/#\/chat\/[\w-]+$/);
  await page.reload();
  await isShown("First");
  await page.locator("#clear").click();
  await expect.poll(() => page.url()).toBe(`${server.url}#/`);
  await ask(page, "Second");
  await isShown("Second");
  await page.goBack();
  await isShown("First");
  await page.goForward();
  await isShown("Second");
  await page.getByRole("link", { name: "Requests" }).click();
  await expect.poll(() => page.title()).toBe("Requests – millrace");
  await page.getByRole("link", { name: "Chat" }).click();
  await isShown("Second");
  await page.goto(bookmark);
  await isShown("First");
  await page.goto(`${server.url}#/chat/gone`);
  await page.locator(".composer .error", { hasText: "That conversation is not here" }).waitFor();
  await isShown("First");
  expect(faults).toEqual([]);
});

test.each([
  ["by itself", ""],
  ["in a browser whose fields do not", "CSS.supports = () => false"],
])("the message box grows with its words to two fifths of the page, %s", SLOW, async (_, before) => {
  await using server = await serveAnswers();
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.addInitScript(before);
  await page.reload();
  if (before !== "") {
    await page.evaluate(`document.getElementById("input").style.setProperty("field-sizing", "fixed")`);
  }
  const height = async (lines: number) => {
    await page.fill("#input", Array(lines).fill("words").join("\n"));
    return () =>
      page.locator("#input").evaluate((field) => (field as unknown as { offsetHeight: number }).offsetHeight);
  };
  const two = await (await height(2))();
  await expect.poll(await height(1)).toBe(two);
  await expect.poll(await height(6)).toBeGreaterThan(2 * two);
  await expect.poll(await height(99)).toBe(0.4 * page.viewportSize()!.height);
  await expect.poll(await height(0)).toBe(two);
  expect(faults).toEqual([]);
});

test(
  "an edit that is given up leaves all as it was; one that is sent, the words that were in the box",
  SLOW,
  async () => {
    await using server = await serveAnswers(whole("One."), whole("Two."), whole("Three."));
    await using watched = await openPage(started.browser, server.url);
    const { page, faults } = watched;
    const texts = page.locator(".turn .text");
    const read = async () => (await texts.allInnerTexts()).map((text) => text.trim());
    await ask(page, "First");
    await ask(page, "Second");
    const address = page.url();
    await page.fill("#input", "Half a thought");
    const edit = page.getByRole("button", { name: "Edit", exact: true });
    const giveUps = [
      () => page.press("#input", "Escape"),
      () => page.locator(".composer").getByRole("button", { name: "Cancel" }).click(),
    ];
    for (const giveUp of giveUps) {
      await edit.nth(1).click();
      await expect.poll(() => page.inputValue("#input")).toBe("Second");
      await edit.first().click();
      await expect.poll(() => texts.count()).toBe(0);
      expect(page.url()).toBe(address);
      // An input method's Escape is its own.
      await page.locator("#input").dispatchEvent("keydown", { key: "Escape", isComposing: true });
      expect(await texts.count()).toBe(0);
      await giveUp();
      await expect.poll(read).toEqual(["First", "One.", "Second", "Two."]);
      await expect.poll(() => page.inputValue("#input")).toBe("Half a thought");
    }
    await edit.nth(1).click();
    await ask(page, "Third");
    expect(await read()).toEqual(["First", "One.", "Third", "Three."]);
    expect(await page.inputValue("#input")).toBe("Half a thought");
    expect(await page.getByRole("button", { name: "Cancel" }).count()).toBe(0);
    await edit.first().click();
    await page.locator("#clear").click();
    await expect.poll(() => page.inputValue("#input")).toBe("Half a thought");
    expect(faults).toEqual([]);
  },
);

test(
  "over plain HTTP from another machine, where browsers lack some of their parts, the chat works",
  SLOW,
  async () => {
    await using server = await serveAnswers(whole("Here.\n\n```\na  =\n1\n```"));
    await using watched = await openPage(started.browser, server.url);
    const { page, faults } = watched;
    await page.addInitScript("delete Crypto.prototype.randomUUID; delete Navigator.prototype.clipboard");
    await page.reload();
    await ask(page, "Where?");
    expect(await lastTurn(page).locator("p").first().innerText()).toBe("Here.");
    for (const [place, text] of ["a  =\n1", "Here.\n\n```\na  =\n1\n```"].entries()) {
      const button = lastTurn(page).getByRole("button", { name: "Copy" }).nth(place);
      await button.press("Enter");
      await lastTurn(page).getByRole("button", { name: "Copied" }).waitFor();
      expect(await page.evaluate("document.activeElement.textContent")).toBe("Copied");
      await page.locator("#input").press("Control+v");
      expect(await page.inputValue("#input")).toBe(text);
      await page.fill("#input", "");
      await button.getByText("Copy", { exact: true }).waitFor();
    }
    await page.evaluate("document.execCommand = () => false");
    await page.getByRole("button", { name: "Copy the request as curl" }).click();
    await page.getByRole("button", { name: "Not copied" }).waitFor();
    expect(faults).toEqual([]);
  },
);

test("a conversation is deleted once the visitor says so", SLOW, async () => {
  await using server = await serveAnswers(whole("Kept."));
  const questions: string[] = [];
  const confirms = (question: string) => questions.push(question) > 1;
  await using watched = await openPage(started.browser, server.url, { confirms });
  const { page } = watched;
  await ask(page, "Precious");
  const remove = page.getByRole("button", { name: "Delete Precious" });
  await remove.click();
  expect(await page.getByRole("button", { name: "Precious", exact: true }).count()).toBe(1);
  await remove.click();
  await expect.poll(() => page.locator(".history li").count()).toBe(0);
  expect(questions).toEqual(Array(2).fill('Delete the chat "Precious"? It cannot be brought back.'));
});

test("two tabs that go on with one conversation of the browser lose nothing", SLOW, async () => {
  let end = () => {};
  const held: Answer = (response) => {
    begun(response);
    end = () => void response.end('data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n');
  };
  await using server = await serveAnswers(whole("Yes."), held, whole("Second."));
  await using watched = await openPage(started.browser, server.url);
  const { page: first, faults } = watched;
  await ask(first, "Base");
  const second = await first.context().newPage();
  await second.goto(server.url);
  await second.getByRole("button", { name: "Base", exact: true }).click();
  await lastTurn(second).getByText("Yes.").waitFor();
  await first.fill("#input", "From the first");
  await first.press("#input", "Enter");
  await lastTurn(first).getByText("Half an").waitFor();
  // The other tab is told.
  const questions = (page: Page) => page.locator(".turn.user .text");
  await questions(second).filter({ hasText: "From the first" }).waitFor();
  await ask(second, "From the second");
  end();
  await first.locator(".composer .error", { hasText: "yours goes on beside it" }).waitFor();
  const titles = second.locator(".history .title");
  await expect.poll(() => titles.count()).toBe(2);
  // The one that changed last comes first.
  for (const [place, expected] of ["From the first", "From the second"].entries()) {
    await titles.nth(place).click();
    await expect.poll(() => questions(second).allInnerTexts()).toEqual(["Base", expected]);
  }
  expect(faults).toEqual([]);
});

test("files are dropped on the chat and pasted into the message; others are refused", SLOW, async () => {
  await using server = await serveAnswers(whole("Read."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  /** As the browser tells of files from outside. @returns whether the page has taken them */
  const bring = (selector: string, event: string, files: readonly (readonly [string, string])[], text = "") =>
    page.evaluate(
      `(() => {
        const data = new DataTransfer();
        for (const [name, content] of ${JSON.stringify(files)}) data.items.add(new File([content], name));
        if (${JSON.stringify(text)} !== "") data.setData("text/plain", ${JSON.stringify(text)});
        const options = { bubbles: true, cancelable: true, dataTransfer: data, clipboardData: data };
        const event = new (${JSON.stringify(event)} === "paste" ? ClipboardEvent : DragEvent)(${JSON.stringify(event)}, options);
        return !document.querySelector(${JSON.stringify(selector)}).dispatchEvent(event);
      })()`,
    );
  expect(await bring(".log", "dragover", [["a.txt", "A"]])).toBe(true);
  expect(
    await bring(".log", "drop", [
      ["a.txt", "A"],
      ["b.bin", "\0"],
    ]),
  ).toBe(true);
  await page.getByRole("button", { name: "Remove a.txt" }).waitFor();
  await page.locator(".composer").getByRole("alert").getByText("b.bin is neither text nor a picture").waitFor();
  expect(await bring("#input", "paste", [["c.txt", "C"]])).toBe(true);
  await page.getByRole("button", { name: "Remove c.txt" }).waitFor();
  // A table of an office program is pasted as its text, and words are dropped where they fall.
  expect(await bring("#input", "paste", [["d.png", "D"]], "d")).toBe(false);
  expect(await bring("#input", "drop", [], "words")).toBe(false);
  await ask(page, "Read");
  expect(server.requests[0]!.messages[0]!.content).toBe("File a.txt:\n```\nA\n```\n\nFile c.txt:\n```\nC\n```\n\nRead");
  expect(faults).toEqual([]);
});

test("where the browser has no more room, the page says once how many chats are gone", SLOW, async () => {
  await using server = await serveAnswers(whole("One."), whole("Two."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  const chatOf = (i: number) => ({
    id: `old ${i}`,
    title: `${i}`,
    updatedMs: i,
    settings: {},
    panes: [{ model: "m", turns: [{ role: "user", content: "x".repeat(9000) }] }],
  });
  const chats = JSON.stringify(JSON.stringify([1, 2, 3].map(chatOf)));
  await page.evaluate(`{
    localStorage.setItem("millrace-chats", ${chats});
    let filled = "";
    for (let size = 1 << 22; size > 50; ) {
      try {
        localStorage.setItem("filled", filled + "x".repeat(size));
        filled += "x".repeat(size);
      } catch {
        size /= 2;
      }
    }
  }`);
  await page.reload();
  await page.locator("#model", { hasText: /^(?!$)/ }).waitFor();
  await ask(page, "First");
  const note = page.locator("#dropped");
  await note.getByText("the oldest chat is no longer kept").waitFor();
  await note.getByRole("button", { name: "OK" }).click();
  expect(await note.count()).toBe(0);
  await ask(page, "Second");
  expect(await note.count()).toBe(0);
});
