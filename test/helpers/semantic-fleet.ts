/** A gateway with a semantic cache, before stand-ins that answer with numbers and make vectors of words. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { expect } from "vitest";
import { parseConfig } from "../../src/fleet/config/read-config.js";
import { Fleet } from "../../src/fleet/fleet.js";
import type { Json } from "./json.js";
import { answerJson, type Behaviour, beginStream, sse, startStandIn } from "./stand-in.js";

type StandIn = Awaited<ReturnType<typeof startStandIn>>;

const folders: string[] = [];
const ends: (() => Promise<unknown>)[] = [];
/** For `afterEach`. */
export async function endSemanticFleets(): Promise<void> {
  for (const end of ends.splice(0).reverse()) await end();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

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
export function talker(answerOf: (question: string) => string): Behaviour {
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

export const numbersIn = (question: string) => `It is ${question.match(/\d+/g)?.join(" and ") ?? "unknown"}.`;

interface Options {
  /** Further keys of the cache, as YAML. */
  readonly keys?: string;
  /** Asks the model that answers as a paid API that has chats alone. */
  readonly translatesResponses?: boolean;
  /** Further lines of the file. */
  readonly more?: string;
  readonly folder?: string;
  readonly answerOf?: (question: string) => string;
  readonly standIns?: readonly [StandIn, StandIn];
}

export function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-semantic-"));
  folders.push(folder);
  return folder;
}

export async function startSemanticFleet({
  keys = "",
  translatesResponses = false,
  more = "",
  folder = newFolder(),
  answerOf = numbersIn,
  standIns,
}: Options = {}) {
  const [m, e] = standIns ?? [await startStandIn(talker(answerOf)), await startStandIn(encoder)];
  const textWith = (keys: string) => `
port: 0
data-folder: ${folder}
admin-key: admin
isolate-api-keys: false
api-keys: [{ tenant: a, key: ka }, { tenant: b, key: kb }]
${more}
models:
  - name: m
    engine: openai
    attach: [{ url: "${m.url}"${translatesResponses ? ", probe: false" : ""} }]
    cache: { enabled: false, version: one }
    ${translatesResponses ? "provider: { responses: translate }" : ""}
    semantic-cache: { embeddings: e, embed-timeout: 5s, ${keys} }
  - name: e
    engine: openai
    attach: [{ url: "${e.url}" }]
    cache: { enabled: false, version: one }
`;
  const configWith = (keys: string) => parseConfig(textWith(keys), "millrace.yaml", {});
  const machine = { cores: [[0]], splits: new Map(), millraceSeats: 1 };
  const fleet = await Fleet.start({
    config: configWith(keys),
    machine,
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
    reload: (keys: string) => fleet.reload(configWith(keys), machine),
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
export async function earn(
  { ask, until }: Awaited<ReturnType<typeof startSemanticFleet>>,
  num: number,
  from = 1000,
): Promise<void> {
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

type Until = Awaited<ReturnType<typeof startSemanticFleet>>["until"];
const numberStored = async (until: Until) => (await until(() => true).catch(() => undefined))?.counts.stored ?? 0;
