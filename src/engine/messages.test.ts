import { expect, test } from "vitest";
import type { StepOutput } from "./engine-core.js";
import { packOutputs, unpackOutputs } from "./messages.js";

test("outputs survive packing, with and without log-probabilities", () => {
  const logprob = { tokenId: 5, logprob: -0.5, rank: 1, top: [{ tokenId: 5, logprob: -0.5 }] };
  const outputs: StepOutput[] = [
    { requestId: 1, output: { tokenIds: [7], numCachedTokens: 0, queueMs: 0.25 } },
    {
      requestId: 2,
      output: { tokenIds: [0], numCachedTokens: 16, queueMs: 0.25, finishReason: "stop", stopTokenId: 0 },
    },
    {
      requestId: 3,
      output: { tokenIds: [5], logprobs: [logprob], numCachedTokens: 32, queueMs: 0.25, finishReason: "length" },
    },
    {
      requestId: 4,
      output: {
        tokenIds: [],
        promptLogprobs: [null, logprob, { ...logprob, logprob: Number.NEGATIVE_INFINITY, rank: 9 }],
        numCachedTokens: 0,
        queueMs: 0.25,
        finishReason: "length",
      },
    },
  ];
  expect(unpackOutputs(packOutputs(outputs))).toEqual(outputs);
  expect(unpackOutputs(packOutputs([]))).toEqual([]);
});
