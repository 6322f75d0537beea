/**
 * The chat of the app in a browser: what it shows, and how answers that end early, break off or do not fit are no dead
 * ends.
 */
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { openPage, useBrowser } from "../helpers/browser.js";
import {
  type Answer,
  begun,
  CONTEXT,
  delta,
  endless,
  events,
  refusal,
  serveAnswers,
  whole,
} from "../helpers/canned-answers.js";
import { startTestServer } from "../helpers/server.js";
import { answerText, ask, facts, lastTurn, offers, press, settled } from "../helpers/web-chat.js";

const started = useBrowser();

const SLOW = { timeout: 60_000 };

test("markdown, code and tables are shown as such; code is copied", SLOW, async () => {
  const text = "# Title\n\nSome *words*.\n\n```js\nconst a = 1;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n";
  await using server = await serveAnswers(whole(text));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await ask(page, "Show me");
  const answer = lastTurn(page);
  expect(await answer.locator("h1").innerText()).toBe("Title");
  expect(await answer.locator("td").allInnerTexts()).toEqual(["1", "2"]);
  await answer.locator(".hljs-keyword").waitFor();
  await answer.getByRole("button", { name: "Copy" }).first().click();
  expect(await page.evaluate("navigator.clipboard.readText()")).toBe("const a = 1;");
  expect(faults).toEqual([]);
});

/** OWASP's filter evasions and some of markdown's own. */
const ATTACKS = [
  "<script>alert(1)</script>",
  "<img src=x onerror=alert(1)>",
  "<svg/onload=alert(1)>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<a href='javascript:alert(1)'>x</a>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt&colon;alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "![x](http://192.0.2.1/track.png)",
  '![x](x" onerror="alert(1))',
  "<style>*{background:url(http://192.0.2.1/)}</style>",
  "<div style='background:url(http://192.0.2.1/)'>x</div>",
  "<form action=http://192.0.2.1/><input name=q><button>Go</button></form>",
  "```html\n<script>alert(1)</script>\n```",
  '```"><img/src=x/onerror=alert(1)>\ncode\n```',
  "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '<a href="http://example.com" onclick=alert(1)>x</a>',
  "<object data=javascript:alert(1)></object><embed src=javascript:alert(1)>",
  "<meta http-equiv=refresh content='0;url=http://192.0.2.1/'><base href=http://192.0.2.1/>",
];

test("hostile answers are shown as text and run nothing", SLOW, async () => {
  const all = ATTACKS.join("\n\n");
  await using server = await serveAnswers(
    events(delta({ reasoning: all, content: all }), delta({}, "stop")),
    whole(all),
  );
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await ask(page, all);
  await lastTurn(page).locator(".reasoning summary").click();
  const forbidden =
    ".turn :is(script, img, svg, iframe, style, form, input, object, embed, meta, base, math, [style], [onclick], [onerror])";
  expect(await page.locator(forbidden).count()).toBe(0);
  const links = await page.locator(".turn a").evaluateAll((all) => all.map((one) => (one as { href: string }).href));
  expect(links.every((href) => /^https?:/.test(href))).toBe(true);
  expect(await lastTurn(page).innerText()).toContain("<script>alert(1)</script>");
  await page.waitForTimeout(200);
  expect(faults).toEqual([]);
});

test("the watch over pages notices a breach of their policy, and a request elsewhere", SLOW, async () => {
  await using server = await serveAnswers();
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.evaluate(`document.body.setAttribute("style", "color: red")`);
  await page.evaluate(`document.body.innerHTML = "<b>x</b>"`).catch(() => {});
  await page.evaluate(`fetch("http://127.0.0.1:9/").catch(() => {})`);
  await expect.poll(() => faults.length).toBeGreaterThanOrEqual(2);
  expect(await page.locator("b").count()).toBe(0);
});

test("the app works under a path of a proxy", SLOW, async () => {
  await using server = await serveAnswers(whole("Here."));
  await using watched = await openPage(started.browser, `${server.url}sub/`);
  const { page, faults } = watched;
  await ask(page, "Where?");
  expect(await answerText(page)).toBe("Here.");
  expect(faults).toEqual([]);
});

test("an answer that is cut off at the limit says so and can be continued", SLOW, async () => {
  await using server = await serveAnswers(whole("Once upon", "length"), whole(" a time."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await ask(page, "A story");
  expect(await facts(page)).toContain("cut at the limit");
  await press(page, "Continue");
  expect(await answerText(page)).toBe("Once upon a time.");
  expect(await offers(page)).toEqual(["Regenerate", "Copy"]);
  expect(server.requests[1]).toMatchObject({
    messages: [
      { role: "user", content: "A story" },
      { role: "assistant", content: "Once upon" },
    ],
    continue_final_message: true,
    add_generation_prompt: false,
  });
  expect(faults).toEqual([]);
});

test.each([
  ["ends without its last event", (response: ServerResponse) => response.end()],
  ["is cut", (response: ServerResponse) => response.destroy()],
])("a stream that %s is reported as broken", SLOW, async (_, breakOff) => {
  let end = () => {};
  const broken: Answer = (response) => {
    begun(response);
    end = () => breakOff(response);
  };
  await using server = await serveAnswers(broken, whole(" answer."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  await page.locator("#model", { hasText: /^(?!$)/ }).waitFor();
  await page.fill("#input", "Go");
  await page.press("#input", "Enter");
  // A browser drops what it has not yet shown of a connection that is cut.
  await lastTurn(page).getByText("Half an").waitFor();
  end();
  await settled(page);
  expect(await facts(page)).toContain("the connection broke: the answer is not whole");
  await press(page, "Continue");
  expect(await answerText(page)).toBe("Half an answer.");
  expect(await facts(page)).not.toContain("broke");
});

test("a busy server can be asked again; another question drops the unanswered one", SLOW, async () => {
  const busy = refusal(429, "queue_full");
  await using server = await serveAnswers(busy, busy, whole("There."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  await ask(page, "First");
  expect([await facts(page), await offers(page)]).toEqual(["expected less, got queue_full", ["Try again"]]);
  await press(page, "Try again");
  await ask(page, "Second");
  expect(server.requests.map(({ messages }) => messages.map(({ content }) => content))).toEqual([
    ["First"],
    ["First"],
    ["Second"],
  ]);
});

test("an answer is stopped by a key, and again at will; a question is edited", SLOW, async () => {
  await using server = await serveAnswers(endless, whole("Better."), whole("Third."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.fill("#input", "Go");
  await page.press("#input", "Enter");
  await lastTurn(page).getByText("On and on").waitFor();
  await page.press("#input", "Escape");
  await page.locator("#send").waitFor();
  expect(await facts(page)).toContain("stopped");
  await press(page, "Regenerate");
  expect(await answerText(page)).toBe("Better.");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await expect.poll(() => page.inputValue("#input")).toBe("Go");
  await expect.poll(() => page.locator(".turn").count()).toBe(0);
  await ask(page, "Come");
  expect(server.requests[2]!.messages).toEqual([{ role: "user", content: "Come" }]);
  expect(faults).toEqual([]);
});

test("an edited question keeps its files", SLOW, async () => {
  await using server = await serveAnswers(whole("Read."), whole("Read again."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  const buffer = Buffer.from("All is well.");
  await page.setInputFiles("#files", { name: "notes.txt", mimeType: "text/plain", buffer });
  await page.getByRole("button", { name: "Remove notes.txt" }).waitFor();
  await ask(page, "Read it");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  await page.getByRole("button", { name: "Remove notes.txt" }).waitFor();
  await ask(page, "Sum it up");
  expect(server.requests[1]!.messages).toEqual([
    { role: "user", content: "File notes.txt:\n```\nAll is well.\n```\n\nSum it up" },
  ]);
});

test("further sampling settings are sent where they are set; what a server refuses is shown", SLOW, async () => {
  await using server = await serveAnswers(whole("One."), refusal(400, "unsupported_parameter"));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await ask(page, "Plain");
  await page.locator(".settings summary", { hasText: "More" }).press("Enter");
  await page.getByLabel("Top k").fill("40");
  await page.getByLabel("Min p").fill("0.05");
  await page.getByLabel("Frequency penalty").fill("0.5");
  await page.getByLabel("Presence penalty").fill("-0.5");
  await page.getByLabel("Repetition penalty").fill("1.1");
  await page.getByLabel("Stop strings, one a line").fill("END\n\\n\\n\n");
  await ask(page, "Set");
  const fields = {
    top_k: 40,
    min_p: 0.05,
    frequency_penalty: 0.5,
    presence_penalty: -0.5,
    repetition_penalty: 1.1,
    stop: ["END", "\n\n"],
  };
  expect(Object.keys(server.requests[0]!).filter((name) => name in fields)).toEqual([]);
  expect(server.requests[1]).toMatchObject(fields);
  expect(await facts(page)).toBe("expected less, got unsupported_parameter");
  expect(faults).toEqual([]);
});

test("an answer that is cut can be continued after a reload", SLOW, async () => {
  await using server = await serveAnswers(whole("Once upon", "length"), whole(" a time."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  await ask(page, "A story");
  await page.reload();
  await page.getByRole("button", { name: "A story", exact: true }).click();
  await lastTurn(page).getByText("cut at the limit").waitFor();
  expect(await facts(page)).toContain("first token after");
  await press(page, "Continue");
  expect(await answerText(page)).toBe("Once upon a time.");
});

test("an answer stays as far as it has come where another conversation is opened, and is continued", SLOW, async () => {
  await using server = await serveAnswers(whole("Whole."), endless, whole(" it goes."));
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  await ask(page, "First");
  await page.getByRole("button", { name: "New chat" }).first().click();
  await expect.poll(() => page.locator(".turn").count()).toBe(0);
  await page.fill("#input", "Second");
  await page.press("#input", "Enter");
  await lastTurn(page).getByText("On and on").waitFor();
  await page.getByRole("button", { name: "First", exact: true }).click();
  await lastTurn(page).getByText("Whole.").waitFor();
  await page.getByRole("button", { name: "Second", exact: true }).click();
  await lastTurn(page).getByText("On and on").waitFor();
  expect(await facts(page)).toContain("stopped");
  await press(page, "Continue");
  expect(await answerText(page)).toBe("On and on it goes.");
});

test("with a full context the visitor sees and chooses the turns that are dropped", SLOW, async () => {
  const full = refusal(400, "context_length_exceeded");
  await using server = await serveAnswers(whole("A1"), whole("A2"), full, whole("A3", "length", CONTEXT), full);
  await using watched = await openPage(started.browser, server.url);
  const { page } = watched;
  for (const question of ["Q1", "Q2", "Q3"]) await ask(page, question);
  expect(await facts(page)).toBe(`This conversation is longer than the model's context of ${CONTEXT} tokens.`);
  expect(await lastTurn(page).locator(".drop label").allInnerTexts()).toEqual([
    "You: Q1",
    "Model: A1",
    "You: Q2",
    "Model: A2",
  ]);
  await lastTurn(page).getByLabel("You: Q2").check();
  await press(page, "Drop them and try again");
  const sent = server.requests[3]!.messages.map(({ content }) => content);
  expect(sent).toEqual(["A2", "Q3"]);
  await expect.poll(() => page.locator(".dropped").count()).toBe(3);
  expect(await facts(page)).toContain("cut: the model's context is full");
  await press(page, "New chat");
  await expect.poll(() => page.locator(".turn").count()).toBe(0);
  await ask(page, "too long by itself");
  expect(server.requests[4]!.messages).toHaveLength(1);
  expect(await facts(page)).toContain("This message is longer");
  await press(page, "Edit the message");
  await expect.poll(() => page.inputValue("#input")).toBe("too long by itself");
});

test("settings are sent; reasoning, tool calls, trees and probabilities are shown", SLOW, async () => {
  const logprobs = { content: [{ token: "{}", logprob: -0.1, top_logprobs: [{ token: "[]", logprob: -3 }] }] };
  const call = { index: 0, function: { name: "look_up", arguments: '{"city"' } };
  const rest = { index: 0, function: { arguments: ': "Bern"}' } };
  await using server = await serveAnswers(
    events(
      delta({ reasoning: "Let me see." }),
      delta({ content: '{"a": [1, {"b": "x"}]}' }, null, { logprobs }),
      delta({ tool_calls: [call] }),
      delta({ tool_calls: [rest] }, "tool_calls"),
    ),
  );
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await page.getByLabel("System prompt").fill("Be brief.");
  await page.getByLabel("Temperature").fill("0.5");
  await page.getByLabel("Form of answers").selectOption("json");
  await page.getByLabel("Probabilities of tokens").check();
  await page.setInputFiles("#files", {
    name: "notes.txt",
    mimeType: "text/plain",
    buffer: Buffer.from("All is well."),
  });
  await ask(page, "Go");
  expect(server.requests[0]).toMatchObject({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "File notes.txt:\n```\nAll is well.\n```\n\nGo" },
    ],
    temperature: 0.5,
    response_format: { type: "json_object" },
    logprobs: true,
  });
  const answer = lastTurn(page);
  expect(await answer.locator(".json-tree").first().innerText()).toContain('b "x"');
  expect(await answer.locator(".tool-call summary").innerText()).toBe("Calls look_up");
  await answer.locator(".tool-call summary").click();
  expect(await answer.locator(".tool-call pre").innerText()).toBe('{"city": "Bern"}');
  await answer.locator(".tokens summary").click();
  await answer.locator(".token").click();
  expect(await answer.locator(".alternatives").innerText()).toContain("5.0 %");
  expect(faults).toEqual([]);
});

test("conversations are kept over a reload, exported and imported; two models answer side by side", SLOW, async () => {
  await using server = await serveAnswers(whole("Kept."), whole("Left."), whole("Right."));
  await using watched = await openPage(started.browser, server.url);
  const { page, faults } = watched;
  await ask(page, "Remember this");
  await page.reload();
  await page.getByRole("button", { name: "Remember this", exact: true }).click();
  expect(await answerText(page)).toBe("Kept.");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export" }).click();
  const file = await (await download).path();
  await page.getByRole("button", { name: "Delete Remember this" }).click();
  await expect.poll(() => page.locator(".history li").count()).toBe(0);
  await page.setInputFiles(".history input[type=file]", file);
  await page.getByRole("button", { name: "Remember this", exact: true }).waitFor();
  await page.getByLabel("Two models side by side").check();
  await ask(page, "Both of you");
  await page.locator(".turn.assistant .facts", { hasText: "tokens" }).nth(1).waitFor();
  expect(server.requests.slice(1).map(({ model }) => model)).toEqual(["canned", "second"]);
  expect(await page.locator(".turn.assistant .text").allInnerTexts()).toEqual(["Left.", "Right."]);
  // This server knows no prices.
  expect((await page.locator(".turn.assistant .facts").allInnerTexts()).join()).not.toContain("$");
  expect(faults).toEqual([]);
});

test("with the bundled model and a small context the page completes a conversation", { timeout: 120_000 }, async () => {
  await using server = await startTestServer(["--threads", "1", "--max-model-len", "96"]);
  await using watched = await openPage(started.browser, `${server.url}/`);
  const { page, faults } = watched;
  await ask(page, "Hello!");
  expect(await facts(page)).toContain("first token after");
  await ask(page, "Tell me a short story about a fox and a river.");
  expect(await facts(page)).toContain("cut: the model's context is full");
  const before = await answerText(page);
  await press(page, "Drop them and continue");
  const after = await answerText(page);
  expect(after.startsWith(before)).toBe(true);
  expect(after.length).toBeGreaterThan(before.length);
  await page.goto(`${server.url}/#/dashboard`);
  await page.locator(".tile", { hasText: "Running" }).waitFor();
  await page.locator("canvas").first().waitFor();
  expect(faults).toEqual([]);
});
