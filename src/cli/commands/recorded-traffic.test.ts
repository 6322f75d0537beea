/** The path from a gateway's recorder to the commands that start from requests. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runMain } from "../../../test/helpers/run-main.js";
import { answerJson, startStandIn } from "../../../test/helpers/stand-in.js";
import { readEntries } from "../../bench/workload/entries.js";
import { type ProbedServer, sessionsOf } from "../../bench/workload/traffic.js";
import type { Entry } from "../../bench/workload/workload.js";
import { readPrompts } from "../../distill/prompts.js";
import { parseConfig } from "../../fleet/config/read-config.js";
import { Fleet } from "../../fleet/fleet.js";
import { askedBody } from "../../lab/speculation/asked.js";
import { readRequests } from "../../prompts/requests.js";
import { tasksOfFile } from "../../quality/tasks.js";

let folder: string;
/** The gateway's recorded requests. */
let file: string;

const SYSTEM = "You answer questions of our customers in one sentence, and promise nothing.";
const TOOL = { type: "function", function: { name: "find_order", parameters: { type: "object" } } };
const chat = (content: string, more: object = {}) => ({
  model: "m",
  messages: [
    { role: "system", content: SYSTEM },
    { role: "user", content },
  ],
  ...more,
});

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-recorded-"));
  const message = { role: "assistant", content: "It is on its way." };
  const engine = await startStandIn(
    answerJson({
      choices: [{ index: 0, message, finish_reason: "stop" }],
      usage: { prompt_tokens: 30, completion_tokens: 7, total_tokens: 37 },
    }),
  );
  const config = `
port: 0
data-folder: ${folder}
models: [{ name: m, engine: openai, attach: [{ url: "${engine.url}" }] }]
hooks: { recorder: {} }`;
  const fleet = await Fleet.start({
    config: parseConfig(config, "millrace.yaml", {}),
    machine: { cores: [[0]], splits: new Map(), millraceSeats: 1 },
    logger: pino({ level: "silent" }),
    logFolder: join(folder, "logs"),
  });
  await fleet.whenStarted();
  for (const body of [
    chat("Where is order 17?", { max_tokens: 50 }),
    chat("Where is order 18?", { tools: [TOOL], temperature: 0.5, store: true }),
  ]) {
    const init = { method: "POST", body: JSON.stringify(body) };
    await (await fetch(`${fleet.url}/v1/chat/completions`, init)).text();
  }
  await fleet.close();
  await engine.die();
  const [name, ...others] = readdirSync(join(folder, "traffic"));
  expect(others).toEqual([]);
  file = join(folder, "traffic", name!);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("prompts audit counts the requests and their answers", async () => {
  const { stdout, exitCode } = await runMain("prompts", "audit", file, "--json");
  expect(exitCode).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ numRequests: 2, totals: { output: 14 } });
});

function bodyOf(entry: Entry, server: ProbedServer): unknown {
  const workload = { kind: "entries", entries: [entry] } as const;
  return JSON.parse(sessionsOf({ workload, server, seed: 1 })(0).next("")!.body);
}

test("a replay sends them again at their times, with their tools and no longer answers", () => {
  const entries = readEntries(file, 100);
  expect(entries.map(({ outputTokens, atMs }) => [outputTokens, atMs! >= 0])).toEqual([
    [7, true],
    [7, true],
  ]);
  expect(entries[0]!.atMs).toBe(0);
  const server = {
    model: "other",
    hasCompletions: true,
    hasChat: true,
    tokenIds: [],
    ignoresEos: true,
    hasJsonMode: true,
    tokensPerWord: 1,
    promptOverhead: 0,
    chatOverhead: 0,
  };
  expect(bodyOf(entries[1]!, server)).toEqual({
    ...chat("Where is order 18?", { tools: [TOOL], temperature: 0.5 }),
    model: "other",
    max_tokens: 7,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect(bodyOf(entries[0]!, { ...server, hasChat: false })).toMatchObject({
    prompt: `system: ${SYSTEM}\nuser: Where is order 17?\nassistant:`,
  });
});

test("tunings of drafts read them, with the length of their answers", () => {
  const [first, second] = readRequests(file);
  expect([first!.answer, first!.outputTokens, second!.tools.length]).toEqual(["It is on its way.", 7, 1]);
  expect(askedBody(second!, 20)).toMatchObject({ tools: [TOOL], max_tokens: 20 });
});

test("teaching, evaluations and calibrations take the chats of texts alone", () => {
  const question = chat("Where is order 17?").messages;
  expect(readPrompts(file)).toMatchObject([{ messages: question, expected: "It is on its way.", line: 1 }]);
  const [task] = tasksOfFile(file, undefined, 10, true);
  expect(task).toMatchObject({
    name: "recorded:judge",
    chats: [{ messages: [...question, { role: "assistant", content: "It is on its way." }] }],
  });
});

test("a file without chats of texts alone is an error that says so", () => {
  const path = join(folder, "tools.jsonl");
  writeFileSync(path, JSON.stringify({ request: chat("a", { tools: [TOOL] }) }));
  expect(() => readPrompts(path)).toThrow(/expected prompts in .*, got none/);
  expect(() => tasksOfFile(path, undefined, 10, true)).toThrow(/expected chats in .*, got none/);
  writeFileSync(path, JSON.stringify({ request: { messages: "no" } }));
  expect(() => readEntries(path, 10)).toThrow(/line 1/);
});
