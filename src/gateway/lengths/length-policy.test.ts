import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import type { AnswerSink } from "../answer.js";
import { routeOf } from "../api/routes.js";
import type { GatewayRequest } from "../request.js";
import { RequestRecord } from "../usage/record.js";
import { LengthPolicy, type LengthRules } from "./length-policy.js";

const CHAT = "/v1/chat/completions";
const sink = {} as AnswerSink;

/** A policy before an upstream that gives answers of a test's lengths, unless the limit cuts them. */
function lengths(rules: LengthRules | undefined, earlier: readonly number[] = []) {
  const seen: [limit: string, isTruncated: boolean][] = [];
  const policy = new LengthPolicy({
    rulesOf: (name) => rules && { name, rules },
    maxTokensFieldOf: () => "max_tokens",
    earlierAnswers: () => earlier.map((outputTokens) => ({ subject: "a", name: "m", outputTokens })),
    onAnswer: (_, limit, isTruncated) => seen.push([limit, isTruncated]),
  });
  /** @returns the limit that the upstream got */
  const ask = async (length: number, body: object = {}, tenant = "a", isLimitAdded = false) => {
    const full = { model: "m", messages: [], ...body };
    const record = new RequestRecord();
    record.isLimitAdded = isLimitAdded;
    record.isBounded = isLimitAdded;
    const bytes = Buffer.from(JSON.stringify(full));
    const known = { path: CHAT, url: CHAT, route: routeOf(CHAT)!, headers: {}, asked: "m", isStream: false };
    const request = { ...known, body: full, bytes, record, caller: { tenant } } as unknown as GatewayRequest;
    let sent: number | undefined;
    await policy.handle(request, sink, async ({ bytes: written }) => {
      sent = (JSON.parse(written.toString()) as { max_tokens?: number }).max_tokens;
      const output = Math.min(length, sent ?? length);
      const usage = { fresh: 1, cacheRead: 0, cacheWrite: 0, output, reasoning: 0, isTruncated: output < length };
      record.attempts.push({ instance: "i", engine: "vllm", model: "m", startMs: 0, status: 200, usage });
      return { kind: "answered", status: 200 };
    });
    return { sent, isBounded: record.isBounded };
  };
  return { ask, seen };
}

test("a request keeps its bytes where the model has no rules", async () => {
  expect(await lengths(undefined).ask(10)).toEqual({ sent: undefined, isBounded: false });
});

test("the default is for requests that say nothing, the cap for all", async () => {
  const { ask, seen } = lengths({ default: 100, cap: 500 });
  expect(await ask(10)).toEqual({ sent: 100, isBounded: true });
  expect(await ask(10, { max_tokens: 300 })).toEqual({ sent: 300, isBounded: false });
  expect(await ask(800, { max_tokens: 900 })).toEqual({ sent: 500, isBounded: true });
  expect(seen).toEqual([
    ["policy", false],
    ["client", false],
    ["policy", true],
  ]);
});

test("an automatic limit needs a hundred answers, and cuts none like them", async () => {
  const rng = new TestRng(1);
  const { ask, seen } = lengths({ default: "auto" });
  const drawn = () => rng.int(50, 199);
  for (let i = 0; i < 100; i++) expect((await ask(drawn())).sent).toBeUndefined();
  for (let i = 0; i < 500; i++) {
    const { sent } = await ask(drawn());
    expect(sent).toBeGreaterThan(1.4 * 195);
    expect(sent).toBeLessThan(1.5 * 1.2 * 200 + 2);
  }
  expect(seen.filter(([, isTruncated]) => isTruncated)).toEqual([]);
  // Another key has no limit of its own yet, and gets that of all keys.
  expect((await ask(60, {}, "b")).sent).toBeGreaterThan(1.4 * 195);
});

test("answers that a client or a budget cuts do not make the automatic limit smaller", async () => {
  const { ask } = lengths({ default: "auto" });
  for (let i = 0; i < 200; i++) await ask(400, { max_tokens: 10 });
  for (let i = 0; i < 200; i++) await ask(400, { max_tokens: 10 }, "a", true);
  for (let i = 0; i < 100; i++) expect((await ask(400)).sent).toBeUndefined();
  expect((await ask(400)).sent).toBeGreaterThanOrEqual(600);
});

test("a limit that a budget adds is not the client's: the smallest limit holds", async () => {
  const { ask, seen } = lengths({ default: 100, cap: 500 });
  expect(await ask(800, { max_tokens: 5000 }, "a", true)).toEqual({ sent: 100, isBounded: true });
  expect(await ask(800, { max_tokens: 60 }, "a", true)).toEqual({ sent: 60, isBounded: true });
  expect(seen).toEqual([
    ["policy", true],
    ["policy", true],
  ]);
});

test("an automatic limit follows answers that become longer, so that they are cut for a while only", async () => {
  const { ask, seen } = lengths({ default: "auto" }, Array<number>(500).fill(100));
  const truncated: boolean[] = [];
  for (let i = 0; i < 300; i++) {
    await ask(400);
    truncated.push(seen.at(-1)![1]);
  }
  expect(truncated[0]).toBe(true);
  expect(truncated.slice(60)).not.toContain(true);
});
