import { expect, test } from "vitest";
import { FakeEngine } from "../../../test/helpers/fake-engine.js";
import { runRound, tokensToAsk } from "./engine-round.js";

const prompt = (length: number): Int32Array => new Int32Array(length).fill(65);

test("every sequence is greedy, has no stop tokens, and ends with the round", async () => {
  const engine = new FakeEngine();
  const spec = { prompts: [prompt(3), prompt(4)], genTokens: 5 };
  const sample = await runRound(engine, spec);
  expect(engine.submitted).toHaveLength(2);
  for (const { sampling } of engine.submitted) {
    expect(sampling).toMatchObject({ temperature: 0, stopTokenIds: [], numLogprobs: undefined });
    expect(sampling.maxTokens).toBe(tokensToAsk(engine.info, spec));
  }
  expect(engine.numLive).toBe(0);
  // The fake counts 1 ms of kernels a step: one step of prompts, four of decoding.
  expect(sample).toMatchObject({ prefillKernelMs: 1, decodeKernelMs: 4, numCachedTokens: 0 });
  expect(sample.prefillMs).toBeGreaterThan(0);
  expect(sample.decodeMs).toBeGreaterThan(0);
});

test("sequences request as many tokens as model and KV memory hold, and at least the measured number", () => {
  const { info } = new FakeEngine({ maxModelLen: 1024 });
  const spec = (batch: number, length: number) => ({
    prompts: Array.from({ length: batch }, () => prompt(length)),
    genTokens: 8,
  });
  expect(tokensToAsk(info, spec(1, 512))).toBe(512);
  // 256 blocks of 16 tokens for 8 sequences.
  expect(tokensToAsk(info, spec(8, 100))).toBe(412);
  expect(tokensToAsk(info, spec(8, 510))).toBe(8);
});

test("the engine's errors are passed on, and no request is left behind", async () => {
  const engine = new FakeEngine();
  const spec = { prompts: [prompt(8), prompt(0)], genTokens: 4 };
  await expect(runRound(engine, spec)).rejects.toMatchObject({ code: "empty_prompt" });
  expect(engine.numLive).toBe(0);
});

test("steps with several tokens do not count as plain decoding", async () => {
  const engine = new FakeEngine({ tokensPerStep: 2 });
  const spec = { prompts: [prompt(8), prompt(8)], genTokens: 5 };
  await expect(runRound(engine, spec)).rejects.toMatchObject({ code: "engine_failed" });
});
