/** The whole card, because the hub and people read it. */
import { expect, test } from "vitest";
import { packageVersion } from "../core/package-root.js";
import type { Comparison } from "../quality/compare.js";
import { type Candidate, cardOf } from "./card.js";

const CANDIDATE: Candidate = {
  method: "Q4_K_M",
  path: "m.gguf",
  numBytes: 4_016_000,
  weightBytes: 3_900_000,
  bitsPerWeight: 5.2,
};
const FACTS = {
  model: "org/mill",
  calibration: undefined,
  evals: undefined,
  layout: "GGUF",
  rounding: "nearest",
  date: "2026-11-28",
} as const;
const SHA = "ab".repeat(32);

test("data, gate and figures are on it, each in a row; names cannot break the table", () => {
  const overall = {
    task: "all",
    numItems: 800,
    numLost: 10,
    numWon: 4,
    before: 0.9,
    after: 0.8925,
    drop: 0.0075,
    interval: [-0.002, 0.0181] as const,
    p: 0.1,
    meanScoreBefore: 0.9,
    meanScoreAfter: 0.9,
  };
  const quality: Comparison = {
    tasks: [],
    overall,
    maxDrop: 0.02,
    verdict: "passes",
    isSequential: false,
    numUnpaired: 0,
  };
  const loss = {
    numTokens: 4088,
    meanKl: 0.00277,
    p99Kl: 0.1,
    maxKl: 1,
    sameTop: 0.97,
    referencePerplexity: 2.671,
    testedPerplexity: 2.677,
  };
  const card = cardOf(
    { ...CANDIDATE, loss, quality, scaled: { scaling: "awq", numMoved: 20, numInputs: 24 } },
    {
      ...FACTS,
      rounding: "gptq",
      calibration: { name: "mi|ne.jsonl", sha256: SHA, numTokens: 32_000 },
      evals: { name: "questions.jsonl", sha256: SHA },
    },
  );
  expect(card).toBe(`---
base_model: "org/mill"
tags: [quantized]
---

# org/mill, quantised

| | |
| --- | --- |
| method | Q4_K_M, layout GGUF |
| rounding | GPTQ's |
| scales of inputs | AWQ: moved into the weights for 20 of 24 inputs of layers |
| size | 4016000 bytes, 5.20 bits a weight |
| calibrated with | mi ne.jsonl (SHA-256 ${SHA}), 32000 tokens |
| perplexity on held-out text | 2.677 (original: 2.671) |
| KL divergence | 0.00277 nats, over 4088 tokens |
| same likeliest token | 97.0 % |
| gate | a drop of less than 2.0 points with 95 % confidence, on questions.jsonl (SHA-256 ${SHA}) |
| answers | passes: a drop of 0.8 points (-0.2 to 1.8) over 800 items, 90.0 % right before and 89.3 % after |
| made | 2026-11-28, by millrace ${packageVersion()} |

Written by \`millrace quantize\`.
`);
});

test("what was not given is said to be missing", () => {
  const card = cardOf(CANDIDATE, FACTS);
  for (const row of [
    "| calibrated with | nothing: every column counted alike |",
    "| loss | not measured |",
    "| gate | none: answers were not judged |",
  ])
    expect(card).toContain(row);
  const withMatrix = cardOf(CANDIDATE, {
    ...FACTS,
    calibration: { name: "i.gguf", sha256: SHA, numTokens: undefined },
  });
  expect(withMatrix).toContain(`| calibrated with | i.gguf (SHA-256 ${SHA}), an importance matrix |`);
});
