/** Perplexity and divergence over a text: of real servers, and of servers that lack a feature. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { startTestServer, type TestServer } from "../../test/helpers/server.js";
import { uniform } from "../core/random.js";
import type { TextModel } from "../quality/harness/text-model.js";
import { type EvalTarget, openServerTarget } from "./eval-target.js";
import { coarseKl, compareTexts, perplexityOf, type ScoredWindow, scoreText } from "./text-divergence.js";

const TEXT = Array.from({ length: 12 }, (_, day) => `On day ${day} the fox went to the river and came home late.`).join(
  "\n",
);
const WINDOWS = { size: 32, count: 6 };
const never = new AbortController().signal;
const start = (name: string): Promise<TestServer> =>
  startTestServer(["--model", join(repositoryRoot(), "models", name), "--threads", "1", "--max-model-len", "256"]);

let server: TestServer;
let student: TestServer;
/** A proxy in front of the server; it refuses bodies with a field of `refused`. */
let proxy: Server;
let refused: readonly string[] = [];
/** Fields to remove from bodies, as a server does that does not know them. */
let dropped: readonly string[] = [];
let proxyUrl: string;
beforeAll(async () => {
  [server, student] = await Promise.all([start("mill-base.gguf"), start("mill-student.gguf")]);
  proxy = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += chunk;
    if (refused.some((field) => text.includes(`"${field}"`))) {
      response.writeHead(400, { "content-type": "application/json" }).end('{"error":{"message":"unknown field"}}');
      return;
    }
    if (dropped.length > 0 && text !== "") {
      const fields = Object.entries(JSON.parse(text) as object).filter(([name]) => !dropped.includes(name));
      text = JSON.stringify(Object.fromEntries(fields));
    }
    const init = text === "" ? {} : { method: "POST", body: text, headers: { "content-type": "application/json" } };
    const answer = await fetch(server.url + request.url, init);
    response.writeHead(answer.status, { "content-type": "application/json" }).end(await answer.text());
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  proxyUrl = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
}, 60_000);
afterAll(async () => {
  proxy.close();
  await Promise.all([server.stop(), student.stop()]);
});

async function withTarget<T>(url: string, use: (target: EvalTarget) => Promise<T>): Promise<T> {
  const target = await openServerTarget({ url }, { temperature: 0, maxTokens: 1, seed: 0, concurrency: 2 }, never);
  try {
    return await use(target);
  } finally {
    await target.close();
  }
}

const scored = (url: string, windows = WINDOWS): Promise<ScoredWindow[]> =>
  withTarget(url, async ({ texts }) => [...(await scoreText(await texts!(), TEXT, windows, () => {}, never)).windows]);

test("the perplexity is that of the log-likelihoods, and a model does not diverge from itself", async () => {
  const own = await scored(server.url);
  expect(own.map(({ ids }) => ids.length)).toEqual([32, 32, 32, 32, 32, 32]);
  const sum = await withTarget(server.url, async ({ texts }) => {
    const { model } = await texts!();
    const each = own.map(({ ids }) => model.score([model.prefixId, ...ids], 1, never));
    return (await Promise.all(each)).reduce((total, { logprob }) => total + logprob, 0);
  });
  const perplexity = perplexityOf(own);
  expect(perplexity.value).toBeCloseTo(Math.exp(-sum / 192), 6);
  expect(perplexity.low).toBeLessThan(perplexity.value);
  const { kl, sameTop, perplexityRatio } = compareTexts(own, await scored(server.url));
  expect([kl.max, sameTop.value, perplexityRatio.value]).toEqual([expect.closeTo(0, 6), 1, expect.closeTo(1, 6)]);
}, 60_000);

test("a server without prompt_logprobs is asked by echo, and one without either is refused", async () => {
  const whole = await scored(proxyUrl);
  refused = ["prompt_logprobs"];
  const echoed = await scored(proxyUrl);
  expect(echoed.map(({ ids }) => ids)).toEqual(whole.map(({ ids }) => ids));
  const { kl, perplexityRatio, restShare } = compareTexts(whole, echoed);
  expect([kl.max, perplexityRatio.value]).toEqual([expect.closeTo(0, 6), expect.closeTo(1, 6)]);
  expect(restShare).toBeLessThan(0.2);
  refused = ["prompt_logprobs", "echo"];
  await expect(scored(proxyUrl)).rejects.toMatchObject({
    code: "endpoint_failed",
    message: expect.stringContaining("log-probabilities of a prompt's tokens"),
  });
  refused = [];
  dropped = ["prompt_logprobs", "return_tokens_as_token_ids"];
  await expect(scored(proxyUrl)).rejects.toMatchObject({
    code: "endpoint_failed",
    message: expect.stringContaining("ids of the likeliest tokens"),
    hint: expect.stringContaining("--text-file prompt_logprobs"),
  });
  dropped = [];
}, 60_000);

test("another model diverges, is less sure of the text, and other windows are no pair", async () => {
  const [base, other] = [await scored(server.url), await scored(student.url)];
  const { kl, sameTop, perplexityRatio, rmsChange } = compareTexts(base, other);
  expect(kl.mean.low).toBeGreaterThan(0.01);
  expect(kl.max).toBeGreaterThanOrEqual(kl.mean.value);
  expect(sameTop.value).toBeGreaterThan(sameTop.low!);
  expect(sameTop.value).toBeLessThan(1);
  expect(perplexityRatio.value).toBeCloseTo(perplexityOf(other).value / perplexityOf(base).value, 9);
  expect(rmsChange).toBeGreaterThan(0);
  const others = await scored(server.url, { size: 31, count: 6 });
  const swapped = base.map((window) => ({ ...window, ids: window.ids.toReversed() }));
  expect(() => compareTexts(base, swapped)).toThrow(/got others from token \d+ on/);
  expect(() => compareTexts(base, others)).toThrow(
    /same tokens of the text from both models, got 192 and 186, in windows/,
  );
}, 60_000);

test("the divergence of what servers tell is at most the whole one, and equal where they tell all", () => {
  const random = uniform(1);
  const distribution = (): number[] => {
    const weights = Array.from({ length: 40 }, () => Math.exp(6 * random()));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return weights.map((weight) => Math.log(weight / sum));
  };
  const likeliest = (all: readonly number[], count: number) => {
    const order = [...all.keys()].sort((a, b) => all[b]! - all[a]!);
    return { logprob: all[0]!, known: Object.fromEntries([...order.slice(0, count), 0].map((id) => [id, all[id]!])) };
  };
  for (let i = 0; i < 200; i++) {
    const [p, q] = [distribution(), distribution()];
    const whole = p.reduce((sum, logprob, id) => sum + Math.exp(logprob) * (logprob - q[id]!), 0);
    const coarse = coarseKl(likeliest(p, 20), likeliest(q, 20));
    expect(coarse.kl).toBeGreaterThan(0);
    expect(coarse.kl).toBeLessThanOrEqual(whole);
    expect(coarse.rest).toBeGreaterThan(0);
    expect(coarseKl(likeliest(p, 40), likeliest(q, 40)).kl).toBeCloseTo(whole, 9);
  }
});

/** Every token is a character; the last one of each window has another log-probability. */
function characters(maxLength: number, rare: number): Parameters<typeof scoreText>[0] {
  const model: TextModel = {
    maxLength,
    prefixId: 0,
    encode: async (text) => [...text].map((each) => each.charCodeAt(0)),
    score: () => Promise.reject(new TypeError("not asked")),
    continue: () => Promise.reject(new TypeError("not asked")),
    predict: async (ids) =>
      ids.slice(1).map((id, place) => {
        const logprob = place === ids.length - 2 ? rare : -0.1;
        return { logprob, known: { [id]: logprob, 1: -3 } };
      }),
  };
  return { model, concurrency: 1 };
}

test("a text is scored up to the count, in windows that fit the context, and the rest is told", async () => {
  const score = (maxLength: number, size: number, count = 3) =>
    scoreText(characters(maxLength, -0.1), "x".repeat(50), { size, count }, () => {}, never);
  const { windows, numTokens } = await score(12, 10);
  expect([windows.map(({ ids }) => ids.length), numTokens]).toEqual([[10, 10, 10], 50]);
  await expect(score(12, 11)).rejects.toMatchObject({ code: "invalid_option", hint: "give --window 10 or less" });
  await expect(score(2, 2)).rejects.toMatchObject({ hint: "give a model with a longer context" });
});

test("infinite log-probabilities are kept as numbers, and the share of same tokens has its interval by windows", async () => {
  const score = async (rare: number) =>
    (await scoreText(characters(12, rare), "abcdefghij".repeat(3), { size: 10, count: 3 }, () => {}, never)).windows;
  const [before, after] = [await score(-0.1), await score(Number.NEGATIVE_INFINITY)];
  expect(after[0]!.predictions.at(-1)).toMatchObject({ logprob: -9999 });
  expect(JSON.stringify(after)).not.toContain("null");
  for (const { kl, sameTop } of [compareTexts(before, after), compareTexts(after, before)]) {
    expect([kl.max, kl.mean.value].every(Number.isFinite)).toBe(true);
    // One of ten in each window: the windows do not differ.
    expect(sameTop).toEqual({ value: 0.9, low: expect.closeTo(0.9), high: expect.closeTo(0.9), numMembers: 30 });
  }
  const impossible = { logprob: -1, known: { 1: Number.NEGATIVE_INFINITY } };
  expect(coarseKl(impossible, before[0]!.predictions[0]!).kl).toBe(0);
  const uneven = before.map((window, index) => (index === 0 ? after[0]! : window));
  const { value, low, high } = compareTexts(before, uneven).sameTop;
  expect([value, low! > 0.8, high]).toEqual([expect.closeTo(29 / 30), true, 1]);
});
