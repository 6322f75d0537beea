/**
 * Conversations that a gateway keeps, in real browsers: two of one client, one of another, a kill of the gateway, and
 * what it does not take.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { chromiumPath, launchBrowser, openPage, seriousFindings, skipWithoutBrowser } from "../helpers/browser.js";
import { silent, whole } from "../helpers/canned-answers.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { freePort } from "../helpers/free-port.js";
import { answerJson, startStandIn } from "../helpers/stand-in.js";
import { signOut } from "../helpers/web-fleet.js";
import { startWholeGateway } from "../helpers/whole-gateway.js";

let browser: Browser;
let engine: Awaited<ReturnType<typeof startStandIn>>;
let answer = whole("Fine.");
const folder = mkdtempSync(join(tmpdir(), "millrace-web-conversations-"));
const closing: (() => unknown)[] = [];

beforeAll(async () => {
  if (chromiumPath === undefined) return;
  browser = await launchBrowser();
  engine = await startStandIn((received, outgoing) =>
    received.body.stream === true ? answer(outgoing) : answerJson({ data: [] })(received, outgoing),
  );
}, 60_000);
afterAll(async () => {
  await browser?.close();
  await engine?.die();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(skipWithoutBrowser);
afterEach(async () => {
  answer = whole("Fine.");
  for (const close of closing.splice(0).reverse()) await close();
});

const SLOW = { timeout: 120_000 };
const KEYS = `
admin-key: k-boss
api-keys: [{ tenant: search, key: sk-one }, { tenant: search, key: sk-two }]`;

async function startGateway(conversations: string): Promise<string> {
  const own = mkdtempSync(join(folder, "gateway-"));
  const fleet = await startWholeGateway(own, engine.url, `${KEYS}\n${conversations}`);
  closing.push(() => fleet.close());
  return `${fleet.url}/`;
}

async function visit(url: string, key: string): Promise<Page> {
  const watched = await openPage(browser, url);
  closing.push(() => watched[Symbol.asyncDispose]());
  await signIn(watched.page, key);
  return watched.page;
}

async function signIn(page: Page, key: string): Promise<void> {
  await page.getByLabel("API key", { exact: true }).fill(key);
  await page.locator("#key-form").getByRole("button", { name: "Sign in" }).click();
  await page.locator("#signed-in-client").waitFor();
}

const titles = (page: Page) => page.locator(".history .title");
const entry = (page: Page, title: string) => titles(page).filter({ hasText: title });
const questions = (page: Page) => page.locator(".turn.user .text");

async function ask(page: Page, text: string): Promise<void> {
  await page.locator("#model", { hasText: /^[em]$/ }).waitFor();
  const answered = page.locator(".turn.assistant .facts", { hasText: "first token" });
  const before = await answered.count();
  await page.fill("#input", text);
  await page.press("#input", "Enter");
  await answered.nth(before).waitFor();
  await page.locator("#send").waitFor();
}

const inStorage = (page: Page) => page.evaluate(`localStorage.getItem("millrace-chats") ?? "[]"`) as Promise<string>;

test(
  "two browsers with one key have one conversation, another key none, and a kill -9 loses nothing",
  SLOW,
  async () => {
    const config = {
      port: await freePort(),
      "data-folder": mkdtempSync(join(folder, "killed-")),
      "api-keys": [
        { tenant: "search", key: "sk-one" },
        { tenant: "search", key: "sk-two" },
      ],
      conversations: {},
      models: [{ name: "m", engine: "openai", attach: [{ url: engine.url }] }],
    };
    await using gateway = await FleetProcess.start(config);
    const url = `${gateway.url}/`;
    const first = await visit(url, "sk-one");
    await first.locator("#place", { hasText: "Kept on this server" }).waitFor();
    await ask(first, "What is a fox?");
    await entry(first, "What is a fox?").waitFor();
    expect(await inStorage(first)).toBe("[]");
    const second = await visit(url, "sk-one");
    await entry(second, "What is a fox?").click();
    await questions(second).filter({ hasText: "What is a fox?" }).waitFor();
    await ask(second, "And a river?");
    const stranger = await visit(url, "sk-two");
    await stranger.locator("#place", { hasText: "Kept on this server" }).waitFor();
    await ask(stranger, "Who is there?");
    await entry(stranger, "Who is there?").waitFor();
    expect(await titles(stranger).allInnerTexts()).toEqual(["Who is there?"]);
    process.kill(gateway.pid, "SIGKILL");
    await using again = await FleetProcess.start(config);
    expect(`${again.url}/`).toBe(url);
    await first.reload();
    await signIn(first, "sk-one");
    await entry(first, "What is a fox?").click();
    await questions(first).filter({ hasText: "And a river?" }).waitFor();
    expect(await titles(first).allInnerTexts()).toEqual(["What is a fox?"]);
    // The session ended with the gateway; what is on the page does not.
    await second.locator("#input").fill("Still there?");
    await second.press("#input", "Enter");
    await signIn(second, "sk-one");
    await questions(second).filter({ hasText: "Still there?" }).waitFor();
    await questions(second).filter({ hasText: "And a river?" }).waitFor();
    await ask(second, "And now?");
    await expect.poll(() => inStorage(second)).toBe("[]");
    const search = first.getByRole("searchbox", { name: "Search chats" });
    await search.fill("a river");
    await first.locator(".history mark", { hasText: "a river" }).waitFor();
    await signOut(first, "client");
    await first.locator("#place", { hasText: "Kept in this browser" }).waitFor();
    expect(await titles(first).count()).toBe(0);
    expect(await questions(first).count()).toBe(0);
    expect(await search.inputValue()).toBe("");
  },
);

test("two tabs that go on with one conversation lose nothing", SLOW, async () => {
  const url = await startGateway("conversations: {}");
  const first = await visit(url, "sk-one");
  await ask(first, "Base");
  await entry(first, "Base").waitFor();
  const second = await visit(url, "sk-one");
  await entry(second, "Base").click();
  await questions(second).filter({ hasText: "Base" }).waitFor();
  await ask(second, "From the second");
  await ask(first, "From the first");
  await first.locator(".composer .error", { hasText: "yours goes on beside it" }).waitFor();
  await expect.poll(() => titles(first).count()).toBe(2);
  await ask(first, "Again from the first");
  await second.reload();
  await expect.poll(() => titles(second).count()).toBe(2);
  const shown = async () => (await questions(second).allInnerTexts()).map((text) => text.trim()).join("; ");
  // The one that changed last comes first. The page shows the former one until the other has come from the server.
  for (const [place, expected] of ["Base; From the first; Again from the first", "Base; From the second"].entries()) {
    await titles(second).nth(place).click();
    await expect.poll(shown).toBe(expected);
  }
});

test("a question is on the server before its answer comes", SLOW, async () => {
  const url = await startGateway("conversations: {}");
  const page = await visit(url, "sk-one");
  await page.locator("#model", { hasText: /^[em]$/ }).waitFor();
  answer = silent;
  await page.fill("#input", "Are you there?");
  await page.press("#input", "Enter");
  await entry(page, "Are you there?").waitFor();
  answer = whole("I am.");
  await page.reload();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.locator(".turn.assistant .text", { hasText: "I am." }).waitFor();
  expect(await inStorage(page)).toBe("[]");
});

test(
  "conversations of the browser are moved when asked, and what the server does not take stays there",
  SLOW,
  async () => {
    const url = await startGateway("conversations: { bytes-each: 2KiB }");
    const watched = await openPage(browser, url);
    closing.push(() => watched[Symbol.asyncDispose]());
    const { page, faults } = watched;
    const chat = (id: string, title: string, content: string) => ({
      id,
      title,
      updatedMs: 5,
      settings: {},
      panes: [{ model: "m", turns: [{ role: "user", content }] }],
    });
    const own = [chat("own id!", "Small", "hello"), chat("b", "Large", "x".repeat(5000))];
    await page.evaluate(`localStorage.setItem("millrace-chats", ${JSON.stringify(JSON.stringify(own))})`);
    await page.reload();
    await signIn(page, "sk-one");
    await entry(page, "Small (in this browser)").waitFor();
    expect(await seriousFindings(page)).toEqual([]);
    await page.getByRole("button", { name: "Move the 2 of this browser to the server" }).click();
    await page.locator(".composer .error", { hasText: "did not keep 1 of them" }).waitFor();
    expect(await titles(page).allInnerTexts()).toEqual(expect.arrayContaining(["Small", "Large (in this browser)"]));
    expect(JSON.parse(await inStorage(page))).toMatchObject([{ id: "b" }]);
    await page.getByRole("button", { name: "Not now" }).click();
    await page.locator("#move").waitFor({ state: "detached" });
    await entry(page, "Small").click();
    await questions(page).filter({ hasText: "hello" }).waitFor();
    await page.getByRole("button", { name: "New chat" }).click();
    await ask(page, "y".repeat(3000));
    await page.locator(".composer .error", { hasText: "it is in this browser" }).waitFor();
    await page.locator("#move").waitFor();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name: "Export" }).click(),
    ]);
    const exported = JSON.parse(await readStream(await download.createReadStream())) as { readonly title: string }[];
    expect(exported.map(({ title }) => title.slice(0, 5)).sort()).toEqual(["Large", "Small", "yyyyy"]);
    await page.getByRole("button", { name: "Delete Small" }).click();
    await entry(page, "Small").waitFor({ state: "detached" });
    await page.setInputFiles(".history input[type=file]", {
      name: "chats.json",
      mimeType: "application/json",
      buffer: Buffer.from(JSON.stringify([chat("c", "Brought in", "hello")])),
    });
    await entry(page, "Brought in").waitFor();
    const answer = await fetch(`${url}v1/chats`, { headers: { authorization: "Bearer sk-one" } });
    expect(((await answer.json()) as { readonly data: object[] }).data).toMatchObject([
      { id: "c", title: "Brought in" },
    ]);
    expect(faults).toEqual([]);
  },
);

async function readStream(stream: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}
