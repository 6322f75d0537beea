/**
 * The semantic cache in a whole fleet: configuration, vectors of a model of the fleet, shadow, service, reports and the
 * administrator's page.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, type Behaviour, beginStream, sse, startStandIn } from "../../../test/helpers/stand-in.js";
import { parseConfig } from "../config/read-config.js";
import { Fleet } from "../fleet.js";

type StandIn = Awaited<ReturnType<typeof startStandIn>>;

const folders: string[] = [];
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Words to places of a vector: texts with the same words are near. */
function vectorOf(text: string): number[] {
  const vector = new Array<number>(64).fill(0.01);
  for (const word of text.toLowerCase().match(/\w+/g) ?? []) {
    let hash = 7;
    for (const letter of word) hash = (hash * 31 + letter.charCodeAt(0)) % 64;
    vector[hash]! += 1;
  }
  return vector;
}

const encoder: Behaviour = ({ path, body }, outgoing) => {
  if (path === "/v1/models") return answerJson({ data: [{ id: "e" }] })({} as never, outgoing);
  const data = (body.input as string[]).map((text, index) => ({ index, embedding: vectorOf(text) }));
  answerJson({ data, usage: { prompt_tokens: 1, total_tokens: 1 } })({} as never, outgoing);
};

/** Answers with the numbers of the question, so that equal questions have equal answers. */
function talker(answerOf: (question: string) => string): Behaviour {
  return ({ path, body }, outgoing) => {
    if (path === "/v1/models") return answerJson({ data: [{ id: "m" }] })({} as never, outgoing);
    const messages = body.messages as { content: string }[];
    const text = answerOf(messages.at(-1)!.content);
    const head = { id: "chatcmpl-0123456789abcdef", created: 1_700_000_000, model: "m" };
    if (body.stream !== true) {
      const choices = [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }];
      const usage = { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 };
      return answerJson({ ...head, object: "chat.completion", choices, usage })({} as never, outgoing);
    }
    beginStream(outgoing);
    for (const content of text) outgoing.write(sse({ ...head, choices: [{ index: 0, delta: { content } }] }));
    outgoing.write(sse({ ...head, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }));
    outgoing.end(sse("[DONE]"));
  };
}

const numbersIn = (question: string) => `It is ${question.match(/\d+/g)?.join(" and ") ?? "unknown"}.`;

interface Options {
  readonly keys?: string;
  readonly folder?: string;
  readonly answerOf?: (question: string) => string;
  readonly standIns?: readonly [StandIn, StandIn];
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-semantic-"));
  folders.push(folder);
  return folder;
}

async function start({ keys = "", folder = newFolder(), answerOf = numbersIn, standIns }: Options = {}) {
  const [m, e] = standIns ?? [await startStandIn(talker(answerOf)), await startStandIn(encoder)];
  const text = `
port: 0
data-folder: ${folder}
admin-key: admin
isolate-api-keys: false
api-keys: [{ tenant: a, key: ka }, { tenant: b, key: kb }]
models:
  - name: m
    engine: openai
    attach: [{ url: "${m.url}" }]
    cache: { enabled: false, version: one }
    semantic-cache: { embeddings: e, embed-timeout: 5s, ${keys} }
  - name: e
    engine: openai
    attach: [{ url: "${e.url}" }]
    cache: { enabled: false, version: one }
`;
  const fleet = await Fleet.start({
    config: parseConfig(text, "millrace.yaml", {}),
    machine: { cores: [[0]], splits: new Map(), millraceSeats: 1 },
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
  });
  ends.push(
    () => m.die(),
    () => e.die(),
  );
  let isClosed = false;
  const close = async () => {
    if (!isClosed) await fleet.close();
    isClosed = true;
  };
  ends.push(close);
  await fleet.whenStarted();
  const ask = async (content: string, { key = "ka", fields = {}, headers = {} }: Asked = {}) => {
    const response = await fetch(`${fleet.url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: "m", messages: [{ role: "user", content }], ...fields }),
    });
    return {
      status: response.status,
      text: await response.text(),
      header: (name: string) => response.headers.get(name),
    };
  };
  const admin = async (path: string, method = "GET"): Promise<Json> =>
    await (await fetch(`${fleet.url}/admin/${path}`, { method, headers: { authorization: "Bearer admin" } })).json();
  const status = async () => (await admin("semantic-cache")).data[0] as Json;
  const until = async (fits: (now: Awaited<ReturnType<typeof status>>) => boolean) => {
    for (let i = 0; i < 400; i++) {
      const now = await status();
      if (now !== undefined && fits(now)) return now;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect.fail(JSON.stringify(await status()));
  };
  return {
    fleet,
    ask,
    admin,
    status,
    until,
    close,
    standIns: [m, e] as const,
    numAsked: () => m.received.filter(({ path }) => path !== "/v1/models").length,
  };
}

interface Asked {
  readonly key?: string;
  readonly fields?: object;
  readonly headers?: Record<string, string>;
}

/** Asks `num` questions and a paraphrase of each, so that each paraphrase is judged. */
async function earn({ ask, until }: Awaited<ReturnType<typeof start>>, num: number, from = 1000): Promise<void> {
  const before = (await until(() => true).catch(() => undefined))?.trust.judged ?? 0;
  for (let i = from; i < from + num; i += 50) {
    const numbers = Array.from({ length: Math.min(50, from + num - i) }, (_, j) => i + j);
    const stored = await numberStored(until);
    await Promise.all(numbers.map((n) => ask(`What is the root of ${n}?`)));
    await until(({ counts }) => counts.stored >= stored + numbers.length);
    await Promise.all(numbers.map((n) => ask(`Can you tell me what the root of ${n} is?`)));
    await until(({ trust }) => trust.judged >= before + (i - from) + numbers.length);
  }
}

type Until = Awaited<ReturnType<typeof start>>["until"];
const numberStored = async (until: Until) => (await until(() => true).catch(() => undefined))?.counts.stored ?? 0;

test("in shadow mode nothing is served, however often hits were right, and what would have been served is counted", async () => {
  const running = await start();
  await running.ask("What is the root of 9?");
  await running.until(({ counts }) => counts.stored === 1);
  const second = await running.ask("Could you tell me what the root of 9 is?");
  expect([second.status, second.header("x-millrace-cache"), running.numAsked()]).toEqual([200, null, 2]);
  const now = await running.until(({ trust }) => trust.judged === 1);
  expect(now).toMatchObject({
    model: "m",
    state: "shadow",
    entries: 1,
    counts: { agreed: 1, served: 0, judged_same: 1 },
  });
  await running.ask("What is the root of 16?");
  expect((await running.until(({ counts }) => counts.stored === 2)).counts.objections).toMatchObject({
    quantities: 1,
    content: 1,
  });
});

test("hits are served once 300 judged ones have met the bound, streamed as streams, to their tenant only; a report purges", async () => {
  const running = await start({ keys: "mode: serve, audit-rate: 0.01" });
  const { ask, fleet, until, numAsked } = running;
  await earn(running, 300);
  expect((await running.status()).trust).toMatchObject({ judged: 300, wrong: 0, is_earned: true });
  const before = numAsked();
  let hit = await ask("What's the root of 1005?");
  // One in a hundred is an audit.
  while (hit.header("x-millrace-cache") === null) hit = await ask("What's the root of 1005?");
  expect(hit.header("x-millrace-cache")).toBe("hit");
  expect(hit.header("x-millrace-cache-kind")).toBe("semantic");
  expect(Number(hit.header("x-millrace-cache-similarity"))).toBeGreaterThan(0.8);
  expect(JSON.parse(hit.text)).toMatchObject({ choices: [{ message: { content: "It is 1005." } }] });
  expect(JSON.parse(hit.text).id).not.toBe("chatcmpl-0123456789abcdef");
  expect(numAsked()).toBeLessThan(before + 3);

  // Everything but the question is the namespace.
  for (const fields of [
    { temperature: 0.5 },
    { max_tokens: 7 },
    { stream: true },
    { response_format: { type: "text" } },
  ]) {
    expect((await ask("What's the root of 1006?", { fields })).header("x-millrace-cache")).toBeNull();
  }
  expect((await ask("What's the root of 1006?", { key: "kb" })).header("x-millrace-cache")).toBeNull();
  expect(
    (await ask("What's the root of 1006?", { headers: { "cache-control": "no-store" } })).header("x-millrace-cache"),
  ).toBeNull();

  await until(({ entries }) => entries >= 305);
  let streamed = await ask("What's the root of 1006?", { fields: { stream: true } });
  streamed = await ask("Tell me the root of 1006.", { fields: { stream: true } });
  while (streamed.header("x-millrace-cache") === null)
    streamed = await ask("Tell me the root of 1006.", { fields: { stream: true } });
  expect(streamed.header("content-type")).toMatch(/event-stream/);
  expect(streamed.text).toMatch(/^data: .*\n\ndata: [\s\S]*\[DONE\]\n\n$/);

  const id = hit.header("x-millrace-cache-id")!;
  const report = (key: string) =>
    fetch(`${fleet.url}/v1/cache/${id}/wrong`, { method: "POST", headers: { authorization: `Bearer ${key}` } });
  expect((await report("nobody")).status).toBe(401);
  expect((await report("kb")).status).toBe(404);
  expect(await (await report("ka")).json()).toEqual({ id, purged: true });
  expect((await report("ka")).status).toBe(404);
  expect((await ask("Tell me the root of 1005.")).header("x-millrace-cache")).toBeNull();
  expect((await running.status()).counts.reported).toBe(1);
}, 180_000);

test("the trust, the answers and the end of both outlast the process; audits that fail end the service until it is reset", async () => {
  const folder = newFolder();
  const first = await start({ folder, keys: "mode: serve, audit-rate: 1" });
  await earn(first, 300);
  await first.close();
  let isChanged = false;
  for (const standIn of first.standIns)
    if (standIn === first.standIns[0]) standIn.behave = talker((question) => (isChanged ? "No." : numbersIn(question)));
  const second = await start({ folder, keys: "mode: serve, audit-rate: 1", standIns: first.standIns });
  await second.ask("What is the root of 2000?");
  expect(await second.until(({ entries }) => entries === 301)).toMatchObject({
    state: "serve",
    trust: { judged: 300 },
  });
  isChanged = true;
  // Every hit is an audit, and each finds another answer.
  for (let n = 1000; n < 1005; n++) await second.ask(`What's the root of ${n}?`);
  const broken = await second.until(({ state }) => state === "disabled");
  expect(broken.trust.audited_wrong).toBeGreaterThan(0);
  await second.close();
  const third = await start({ folder, keys: "mode: serve", standIns: first.standIns });
  await third.ask("Hello?");
  expect((await third.until(() => true)).state).toBe("disabled");
  expect(await third.admin("semantic-cache/m/reset", "POST")).toEqual({ model: "m", state: "shadow" });
  expect((await third.status()).trust).toMatchObject({ judged: 0, is_disabled: false });
}, 180_000);

test("where the vectors cannot be had, requests pass as if there were no cache", async () => {
  const running = await start();
  running.standIns[1].behave = answerJson({ error: { message: "broken" } }, 500);
  for (let i = 0; i < 3; i++) expect((await running.ask("What is the root of 9?")).status).toBe(200);
  expect(await running.until(({ counts }) => counts.failures === 3)).toMatchObject({ entries: 0 });
});
