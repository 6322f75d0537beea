/** The chat page in a browser: answers that end early, break off or do not fit are no dead ends. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, test } from "vitest";
import { createApp } from "../../src/serve/app.js";
import { type BrowserPage, chromiumPath, openPage } from "../helpers/chromium.js";
import { fakeAppOptions } from "../helpers/fake-server.js";
import { startTestServer } from "../helpers/server.js";

interface ChatRequest {
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly continue_final_message?: boolean;
}

type Answer = (response: ServerResponse) => void;

const SSE = { "content-type": "text/event-stream" };
const CONTEXT = 40;

const chunk = (content: string, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ delta: { content }, finish_reason: finish }] })}\n\n`;
const usage = (total: number): string =>
  `data: ${JSON.stringify({ choices: [], usage: { completion_tokens: 2, total_tokens: total } })}\n\n`;

const whole =
  (text: string, finish = "stop", total = 9): Answer =>
  (response) =>
    response.writeHead(200, SSE).end(`${chunk(text)}${chunk("", finish)}${usage(total)}data: [DONE]\n\n`);
const cutOff: Answer = (response) => response.writeHead(200, SSE).end(chunk("Half an"));
const reset: Answer = (response) => {
  response.writeHead(200, SSE).write(chunk("Half an"), () => setTimeout(() => response.destroy(), 50));
};
const refusal =
  (status: number, code: string): Answer =>
  (response) =>
    response.writeHead(status).end(JSON.stringify({ error: { message: `expected less, got ${code}`, code } }));

interface PageServer extends AsyncDisposable {
  readonly url: string;
  readonly requests: ChatRequest[];
}

/** The page as the server sends it, with its headers, before answers that are to go wrong in their turn. */
async function serveAnswers(...answers: Answer[]): Promise<PageServer> {
  const app = createApp(fakeAppOptions().options);
  const requests: ChatRequest[] = [];
  const server = createServer(async (request, response) => {
    if (request.url === "/") {
      const page = await app.request("/");
      response.writeHead(200, Object.fromEntries(page.headers)).end(await page.text());
    } else if (request.url === "/v1/models") {
      response.end(JSON.stringify({ data: [{ id: "canned", max_model_len: CONTEXT }] }));
    } else {
      let body = "";
      for await (const piece of request) body += piece;
      requests.push(JSON.parse(body) as ChatRequest);
      answers.shift()?.(response);
    }
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    requests,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const TURN = `[...document.querySelectorAll(".assistant")].at(-1)`;
const facts = (page: BrowserPage): Promise<string> => page.evaluate(`${TURN}.querySelector(".facts").innerText`);
const answerText = (page: BrowserPage): Promise<string> => page.evaluate(`${TURN}.querySelector("p").innerText`);
const offers = (page: BrowserPage): Promise<string[]> =>
  page.evaluate(`[...${TURN}.querySelectorAll("button")].map((button) => button.textContent)`);
const IDLE = `document.querySelector("#stop").hidden`;

async function ask(page: BrowserPage, text: string): Promise<void> {
  await page.until(`document.querySelector("#model")?.textContent !== "connecting …"`);
  await page.evaluate(`document.querySelector("#input").value = ${JSON.stringify(text)}`);
  await page.evaluate(`document.querySelector("#form").requestSubmit()`);
  await page.until(IDLE);
}

async function press(page: BrowserPage, label: string): Promise<void> {
  await page.evaluate(`[...${TURN}.querySelectorAll("button")].find((one) => one.textContent === "${label}").click()`);
  await page.until(IDLE);
}

beforeEach((context) => {
  if (chromiumPath === undefined) context.skip("needs chromium");
});

test("an answer that is cut off at the limit says so and can be continued", { timeout: 60_000 }, async () => {
  await using server = await serveAnswers(whole("Once upon", "length"), whole(" a time."));
  await using page = await openPage(server.url);
  await ask(page, "A story");
  expect(await facts(page)).toContain("cut at the limit");
  await press(page, "Continue");
  expect(await answerText(page)).toBe("Once upon a time.");
  expect(await offers(page)).toEqual([]);
  expect(server.requests[1]).toMatchObject({
    messages: [
      { role: "user", content: "A story" },
      { role: "assistant", content: "Once upon" },
    ],
    continue_final_message: true,
    add_generation_prompt: false,
  });
});

test.each([
  ["ends without its last event", cutOff],
  ["is cut", reset],
])("a stream that %s is reported as broken", { timeout: 60_000 }, async (_, broken) => {
  await using server = await serveAnswers(broken, whole(" answer."));
  await using page = await openPage(server.url);
  await ask(page, "Go");
  expect(await facts(page)).toContain("the connection broke: the answer is not whole");
  await press(page, "Continue");
  expect(await answerText(page)).toBe("Half an answer.");
  expect(await facts(page)).not.toContain("broke");
});

test("a busy server can be asked again; another question drops the unanswered one", {
  timeout: 60_000,
}, async () => {
  const busy = refusal(429, "queue_full");
  await using server = await serveAnswers(busy, busy, whole("There."));
  await using page = await openPage(server.url);
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

test("with a full context the oldest turns are dropped, or a new chat begins", {
  timeout: 60_000,
}, async () => {
  const full = refusal(400, "context_length_exceeded");
  await using server = await serveAnswers(whole("A1"), whole("A2"), full, whole("A3", "length", CONTEXT), full);
  await using page = await openPage(server.url);
  for (const question of ["Q1", "Q2", "Q3"]) await ask(page, question);
  expect(await facts(page)).toBe(`This conversation is longer than the model's context of ${CONTEXT} tokens.`);
  await press(page, "Forget the oldest turns and try again");
  const sent = server.requests[3]!.messages.map(({ content }) => content);
  expect(sent).toEqual(["Q2", "A2", "Q3"]);
  expect(await page.evaluate(`document.querySelectorAll(".forgotten").length`)).toBe(2);
  expect(await facts(page)).toContain("cut: the model's context is full");
  expect(await offers(page)).toEqual(["Forget the oldest turns and continue", "New chat"]);
  await page.evaluate(`[...${TURN}.querySelectorAll("button")].at(-1).click()`);
  expect(await page.evaluate(`document.querySelectorAll(".turn").length`)).toBe(0);
  await ask(page, "too long by itself");
  expect(server.requests[4]!.messages).toHaveLength(1);
  expect(await facts(page)).toContain("This message is longer");
  await press(page, "Edit the message");
  expect(await page.evaluate(`document.querySelector("#input").value`)).toBe("too long by itself");
});

test("with the bundled model and a small context the page completes a conversation", {
  timeout: 120_000,
}, async () => {
  await using server = await startTestServer(["--threads", "1", "--max-model-len", "96"]);
  await using page = await openPage(`${server.url}/`);
  await ask(page, "Hello!");
  expect(await offers(page)).toEqual([]);
  await ask(page, "Tell me a short story about a fox and a river.");
  expect(await facts(page)).toContain("cut: the model's context is full");
  const before = await answerText(page);
  await press(page, "Forget the oldest turns and continue");
  const after = await answerText(page);
  expect(after.startsWith(before)).toBe(true);
  expect(after.length).toBeGreaterThan(before.length);
});
