import fc from "fast-check";
import { expect, test } from "vitest";
import { SCENARIOS } from "./scenarios.js";
import { type ProbedServer, sessionsOf } from "./traffic.js";
import type { Workload } from "./workload.js";

const FACTS: ProbedServer = {
  model: "m",
  hasCompletions: true,
  hasChat: true,
  tokenIds: [11, 12, 13, 14, 15, 16],
  ignoresEos: true,
  hasJsonMode: true,
  tokensPerWord: 1.5,
  promptOverhead: 1,
  chatOverhead: 9,
};
const TEXT_ONLY = { ...FACTS, tokenIds: [] };

function bodies(workload: Workload, server: ProbedServer, seed: number, session: number, answers = ["", "one", "two"]) {
  const { next } = sessionsOf({ workload, server, seed })(session);
  return answers.flatMap((answer) => {
    const turn = next(answer);
    return turn === undefined ? [] : [{ ...turn, body: JSON.parse(turn.body) }];
  });
}

const RANDOM: Workload = { kind: "random", promptTokens: 40, sharedTokens: 10, outputTokens: 7 };

test("random prompts have the requested length minus the server's overhead, and begin with the shared part", () => {
  const [first] = bodies(RANDOM, FACTS, 1, 0);
  const [second] = bodies(RANDOM, FACTS, 1, 1);
  const [otherRun] = bodies(RANDOM, FACTS, 2, 0);
  expect(first).toMatchObject({
    path: "/v1/completions",
    numTokensAsked: 7,
    body: { model: "m", max_tokens: 7, ignore_eos: true, stream: true, stream_options: { include_usage: true } },
  });
  expect(first!.body.prompt).toHaveLength(39);
  expect(second!.body.prompt.slice(0, 10)).toEqual(first!.body.prompt.slice(0, 10));
  expect(second!.body.prompt).not.toEqual(first!.body.prompt);
  expect(otherRun!.body.prompt.slice(0, 10)).not.toEqual(first!.body.prompt.slice(0, 10));
});

test("a server without token ids gets words with the same number of tokens; a server without completions gets a chat", () => {
  const workload: Workload = { kind: "random", promptTokens: 31, sharedTokens: 0, outputTokens: 7 };
  expect(bodies(workload, TEXT_ONLY, 1, 0)[0]!.body.prompt.split(" ")).toHaveLength(20);
  const chatOnly = { ...TEXT_ONLY, hasCompletions: false, ignoresEos: false };
  const [turn] = bodies(workload, chatOnly, 1, 0);
  expect(turn).toMatchObject({ path: "/v1/chat/completions", numTokensAsked: undefined });
  expect(turn!.body).not.toHaveProperty("ignore_eos");
  expect(turn!.body.messages[0].content.split(" ")).toHaveLength(15);
});

test("lengths cover the whole range", () => {
  const workload: Workload = { kind: "random", promptTokens: { min: 8, max: 512 }, sharedTokens: 0, outputTokens: 1 };
  const lengths = Array.from({ length: 300 }, (_, i) => bodies(workload, FACTS, 1, i)[0]!.body.prompt.length + 1);
  expect(Math.min(...lengths)).toBeLessThan(12);
  expect(Math.max(...lengths)).toBeGreaterThan(400);
  const numShort = lengths.filter((length) => length < 64).length;
  expect(numShort).toBeGreaterThan(110);
  expect(numShort).toBeLessThan(190);
});

test("a conversation's history grows by its answers, after a shared system prompt", () => {
  const workload: Workload = {
    kind: "conversation",
    systemTokens: 30,
    turnTokens: 60,
    numTurns: 2,
    outputTokens: 9,
    isFixed: false,
    format: "json",
  };
  const turns = bodies(workload, FACTS, 1, 0);
  expect(turns).toHaveLength(2);
  const [first, second] = turns.map((turn) => turn.body.messages);
  expect(second.slice(0, 2)).toEqual(first);
  expect(second.slice(2).map(({ role }: { role: string }) => role)).toEqual(["assistant", "user"]);
  expect(second[2].content).toBe("one");
  expect(JSON.parse(second[3].content)).toMatchObject({ tool: "search" });
  expect(turns[0]!.body).toMatchObject({ response_format: { type: "json_object" }, max_tokens: 9 });
  const [other] = bodies(workload, { ...FACTS, hasChat: false, hasJsonMode: false }, 1, 5);
  expect(other!.body.prompt).toContain(first[0].content);
  expect(other!.body.prompt).toMatch(/\nassistant:$/);
});

test("questions are about one of a few documents", () => {
  const workload: Workload = { kind: "documents", numDocuments: 3, documentTokens: 90, outputTokens: 9 };
  const seen = Array.from({ length: 40 }, (_, i) => bodies(workload, FACTS, 1, i)[0]!.body.messages);
  expect(new Set(seen.map(([system]) => system.content)).size).toBe(3);
  expect(new Set(seen.map(([, user]) => user.content)).size).toBeGreaterThan(20);
});

test("entries are sent unchanged; a trace's pieces are shared by id", () => {
  const messages = [{ role: "user", content: "hi" }] as const;
  const trace = (pieces: number[]) => ({ promptTokens: 1030, pieces, outputTokens: 4 });
  const entries = [
    { prompt: "say", outputTokens: 3, apiKey: "mine" },
    { messages, outputTokens: 2 },
    trace([7, 8]),
    trace([7, 9]),
  ];
  const made = entries.map((_, i) => bodies({ kind: "entries", entries }, { ...FACTS, promptOverhead: 0 }, 1, i)[0]!);
  expect(made[0]).toMatchObject({ body: { prompt: "say", max_tokens: 3 }, numTokensAsked: undefined });
  expect(made[0]!.headers).toEqual({ authorization: "Bearer mine" });
  expect(made[1]!.headers).toBeUndefined();
  expect(made[1]).toMatchObject({ path: "/v1/chat/completions", body: { messages, max_tokens: 2 } });
  const [a, b] = [made[2]!.body.prompt, made[3]!.body.prompt];
  expect(a).toHaveLength(1030);
  expect(made[2]!.numTokensAsked).toBe(4);
  expect(a.slice(0, 512)).toEqual(b.slice(0, 512));
  expect(a.slice(512, 1024)).not.toEqual(b.slice(512, 1024));
});

test("every scenario's requests depend only on server, seed and session, and sessions differ", () => {
  const workloads = SCENARIOS.flatMap((scenario) => scenario.workloads.map(({ workload }) => workload));
  const sessions = Array.from({ length: 20 }, (_, i) => i);
  fc.assert(
    fc.property(fc.constantFrom(...workloads), fc.boolean(), fc.nat(1000), (workload, isText, seed) => {
      const server = isText ? TEXT_ONLY : FACTS;
      const asked = sessions.map((session) => bodies(workload, server, seed, session)[0]);
      expect(bodies(workload, server, seed, 7)[0]).toEqual(asked[7]);
      // Two sessions may ask the same question about the same document.
      expect(new Set(asked.map((each) => JSON.stringify(each))).size).toBeGreaterThan(16);
    }),
    { numRuns: 20 },
  );
});
