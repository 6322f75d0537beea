/** Perplexity and divergence over a text: of real servers, and of some that lack something. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { startTestServer, type TestServer } from "../../test/helpers/server.js";
import { uniform } from "../core/random.js";
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
/** In front of the server; answers as it does, but for bodies with one of these fields. */
let proxy: Server;
let refused: readonly string[] = [];
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
  withTarget(url, async ({ texts }) => scoreText(await texts!(), TEXT, windows, () => {}, never));

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
  expect([kl.max, sameTop, perplexityRatio.value]).toEqual([expect.closeTo(0, 6), 1, expect.closeTo(1, 6)]);
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
}, 60_000);

test("another model diverges, is less sure of the text, and other windows are no pair", async () => {
  const [base, other] = [await scored(server.url), await scored(student.url)];
  const { kl, sameTop, sameTopInterval, perplexityRatio, rmsChange } = compareTexts(base, other);
  expect(kl.mean.low).toBeGreaterThan(0.01);
  expect(kl.max).toBeGreaterThanOrEqual(kl.mean.value);
  expect(sameTop).toBeGreaterThan(sameTopInterval[0]);
  expect(sameTop).toBeLessThan(1);
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
