import { expect, test } from "vitest";
import { FakeEngine } from "../../test/helpers/fake-engine.js";
import { headStart, runRound } from "./engine-round.js";

const prompt = (length: number): Int32Array => new Int32Array(length).fill(65);

test("every sequence is greedy, has no stop tokens, and is gone when the round is over", async () => {
  const engine = new FakeEngine();
  const spec = { prompts: [prompt(3), prompt(4)], genTokens: 5, maxNumBatchedTokens: 16 };
  const sample = await runRound(engine, spec);
  expect(engine.submitted).toHaveLength(2);
  for (const { sampling } of engine.submitted) {
    expect(sampling).toMatchObject({ temperature: 0, stopTokenIds: [], numLogprobs: undefined });
    expect(sampling.maxTokens).toBe(5 + headStart(spec));
  }
  expect(engine.numLive).toBe(0);
  // The fake counts 1 ms of kernels a step: one step of prompts, four of decoding.
  expect(sample).toMatchObject({ prefillKernelMs: 1, decodeKernelMs: 4, numCachedTokens: 0 });
  expect(sample.prefillMs).toBeGreaterThan(0);
  expect(sample.decodeMs).toBeGreaterThan(0);
});

test("the head start covers the steps that prefill the other prompts", () => {
  expect(headStart({ prompts: [prompt(512)], genTokens: 2, maxNumBatchedTokens: 512 })).toBe(0);
  // 8 × 512 tokens at 504 a step.
  const prompts = Array.from({ length: 8 }, () => prompt(512));
  expect(headStart({ prompts, genTokens: 2, maxNumBatchedTokens: 512 })).toBe(9 + 8);
});

test("what the engine refuses comes out as it is, and nothing stays behind", async () => {
  const engine = new FakeEngine();
  const spec = { prompts: [prompt(8), prompt(0)], genTokens: 4, maxNumBatchedTokens: 16 };
  await expect(runRound(engine, spec)).rejects.toMatchObject({ code: "empty_prompt" });
  expect(engine.numLive).toBe(0);
});

test("steps that give several tokens are not taken for plain decoding", async () => {
  const engine = new FakeEngine({ tokensPerStep: 2 });
  const spec = { prompts: [prompt(8), prompt(8)], genTokens: 5, maxNumBatchedTokens: 16 };
  await expect(runRound(engine, spec)).rejects.toMatchObject({ code: "engine_failed" });
});
