/**
 * Every field of SamplingParams reaches the sampler: the engine chooses what the reference sampler chooses from the
 * engine's own logits, and something else without the field.
 */
import { afterAll, expect, test } from "vitest";
import { runAlone } from "../../../test/helpers/engine-requests.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { chooseToken, logprobsOf } from "../../../test/reference/sample.js";
import { sampleRowOf } from "../../../test/reference/sample-row.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api/options.js";
import { GREEDY_SAMPLING, type SamplingParams } from "../api/request.js";
import { NO_SPECULATION } from "../api/speculative-config.js";
import { EngineCore } from "../engine-core.js";

const modelPath = fixture("models/stories260k.gguf");
const backend = createCpuBackend({ isa: "portable", numThreads: 1 });
const core = await EngineCore.create(
  openModel(modelPath),
  {
    ...DEFAULT_ENGINE_OPTIONS,
    modelPath,
    numThreads: 1,
    kvCacheMemoryBytes: 2 ** 24,
    speculative: NO_SPECULATION,
  },
  backend,
);
afterAll(async () => {
  await core.close();
  backend.destroy();
});

const PROMPT = [1, 403, 407, 261, 378, 403, 407, 261];
const DEFAULTS: SamplingParams = { ...GREEDY_SAMPLING, maxTokens: 24 };
const HOT = { temperature: 1.3, seed: 0x1_2345_6789n };

/**
 * What shows each field at work: by type, none can be forgotten. The first greedy tokens after the prompt are used
 * below.
 */
const greedy = (await generate(DEFAULTS)).tokenIds;
const CASES: { readonly [Field in keyof Required<SamplingParams>]: Partial<SamplingParams> } = {
  temperature: HOT,
  topK: { ...HOT, topK: 2 },
  topP: { ...HOT, topP: 0.3 },
  minP: { ...HOT, minP: 0.3 },
  presencePenalty: { presencePenalty: 12, logitBias: [[300, 15]] },
  frequencyPenalty: { frequencyPenalty: 6, logitBias: [[300, 15]] },
  repetitionPenalty: { repetitionPenalty: 1.9 },
  penaltyWindow: { repetitionPenalty: 1.9, presencePenalty: 3, penaltyWindow: 3 },
  dry: {
    dry: { multiplier: 6, base: 1.75, allowedLength: 1, window: 20, breakers: [{ heads: [greedy[2]!], tail: [] }] },
    logitBias: [[300, 9]],
  },
  topNSigma: { ...HOT, topNSigma: 0.7 },
  typicalP: { ...HOT, typicalP: 0.2 },
  xtc: { ...HOT, xtc: { probability: 0.5, threshold: 0.05 } },
  dynamicTemperature: { ...HOT, dynamicTemperature: { range: 1.2, exponent: 0.7 } },
  seed: { ...HOT, seed: 0xfedc_ba98_7654_3210n },
  maxTokens: { maxTokens: 5 },
  minTokens: { stopTokenIds: [greedy[3]!], minTokens: 12 },
  stopTokenIds: { stopTokenIds: [greedy[5]!] },
  logitBias: {
    logitBias: [
      [greedy[0]!, -9],
      [300, 30],
    ],
  },
  allowedTokenIds: { allowedTokenIds: [300, 301, 302, 303] },
  badWords: { badWords: [[greedy[0]!, greedy[1]!], [greedy[4]!]] },
  thought: { thought: { maxTokens: 3, closeId: 300 } },
  numLogprobs: { numLogprobs: 3 },
  numPromptLogprobs: { numPromptLogprobs: 2 },
};

async function generate(sampling: SamplingParams) {
  return await runAlone(core, { promptIds: Int32Array.from(PROMPT), sampling });
}

/** Of each position of a text: the engine's own. */
async function logitsOf(tokens: readonly number[]): Promise<Float64Array[]> {
  const all: Float64Array[] = [];
  await core.textLogits(tokens, (logits) => all.push(Float64Array.from(logits)));
  return all;
}

/** What the reference sampler generates, each token from the engine's logits after those before it. */
async function expected(sampling: SamplingParams): Promise<number[]> {
  const output: number[] = [];
  while (output.length < sampling.maxTokens) {
    output.push(
      chooseToken(
        (await logitsOf([...PROMPT, ...output])).at(-1)!,
        sampleRowOf(sampling, PROMPT, output, core.info.vocabSize),
      ),
    );
    if (sampling.stopTokenIds.includes(output.at(-1)!)) break;
  }
  return output;
}

test.each(Object.keys(CASES) as (keyof SamplingParams)[])("%s", async (field) => {
  const sampling = { ...DEFAULTS, ...CASES[field] };
  const completion = await generate(sampling);
  expect(completion.tokenIds).toEqual(await expected(sampling));
  const without = { ...sampling, [field]: DEFAULTS[field] };
  expect(await generate(without)).not.toEqual(completion);
});

/** What the samplers do where the likeliest token is taken otherwise, and the numbers that they have two of. */
test.each<[string, Partial<SamplingParams>]>([
  ["typical sampling at temperature 0", { typicalP: 0.1 }],
  ["XTC at temperature 0", { xtc: { probability: 0.6, threshold: 0.1 } }],
  ["XTC behind top-p at temperature 0", { xtc: { probability: 1, threshold: 0.02 }, topP: 0.9 }],
  ["a dynamic temperature around 0", { dynamicTemperature: { range: 2, exponent: 1 } }],
  ["a higher threshold", { ...HOT, xtc: { probability: 0.5, threshold: 0.3 } }],
  ["a rarer exclusion", { ...HOT, xtc: { probability: 0.2, threshold: 0.05 } }],
  ["another exponent", { ...HOT, dynamicTemperature: { range: 1.2, exponent: 0.1 } }],
  ["a penalty window that ends within the prompt", { repetitionPenalty: 1.9, frequencyPenalty: 2, penaltyWindow: 12 }],
  ["a penalty window of nothing", { repetitionPenalty: 1.9, penaltyWindow: 0 }],
  [
    "everything at once",
    {
      ...HOT,
      typicalP: 0.9,
      topNSigma: 1.5,
      minP: 0.001,
      topP: 0.99,
      topK: 100,
      xtc: { probability: 0.5, threshold: 0.05 },
      dynamicTemperature: { range: 0.5, exponent: 1 },
      dry: { multiplier: 0.8, base: 1.75, allowedLength: 2, breakers: [] },
      repetitionPenalty: 1.1,
      penaltyWindow: 8,
    },
  ],
])("%s is the reference's", async (_, fields) => {
  const sampling = { ...DEFAULTS, ...fields };
  const { tokenIds } = await generate(sampling);
  expect(tokenIds).toEqual(await expected(sampling));
  expect(tokenIds).toHaveLength(DEFAULTS.maxTokens);
  if (sampling.penaltyWindow !== 0) expect(tokenIds).not.toEqual(greedy);
  else expect(tokenIds).toEqual(greedy);
});

test("log-probabilities are those of the logits before any other parameter", async () => {
  const sampling = { ...DEFAULTS, ...HOT, frequencyPenalty: 0.5, topK: 5, numLogprobs: 3, numPromptLogprobs: 2 };
  const { tokenIds, logprobs, promptLogprobs } = await generate(sampling);
  const tokens = [...PROMPT, ...tokenIds];
  const logits = await logitsOf(tokens);
  const scored = [...promptLogprobs!, ...logprobs];
  expect(scored).toHaveLength(tokens.length);
  expect(scored[0]).toBeNull();
  for (let i = 1; i < tokens.length; i++) {
    const { tokenId, logprob, rank, top } = scored[i]!;
    const of = logprobsOf(logits[i - 1]!);
    const order = [...logits[i - 1]!.keys()].sort((a, b) => of(b) - of(a) || a - b);
    expect([tokenId, rank - 1]).toEqual([tokens[i], order.indexOf(tokens[i]!)]);
    expect(top.map((each) => each.tokenId)).toEqual(order.slice(0, i < PROMPT.length ? 2 : 3));
    for (const each of [{ tokenId, logprob }, ...top]) expect(each.logprob).toBeCloseTo(of(each.tokenId), 4);
  }
});
