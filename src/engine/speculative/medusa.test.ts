/** Medusa heads of the hub: their guesses, texts that stay those of plain decoding, and folders that are refused. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { promptOf, runSix, withSmallCore } from "../../../test/helpers/drafted-requests.js";
import { inTurn, poolingRequest, request, runAlone } from "../../../test/helpers/engine-requests.js";
import { draftsAfter, guessesAfter } from "../../../test/helpers/guesses.js";
import { leastKvBudget } from "../../../test/helpers/kv-memory.js";
import { f32, type MedusaTensors, randomMedusa, writeMedusa } from "../../../test/helpers/medusa-folder.js";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import type { EngineOptions } from "../api/options.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION, type SpeculativeConfig } from "../api/speculative-config.js";

const [WIDTH, VOCAB] = [64, 384];
const MODEL: RandomModelOptions = { architecture: "llama", seed: 1, type: "F16", width: WIDTH, ff: 96 };
const SIZES = { width: WIDTH, vocab: VOCAB, numHeads: 4, numBlocks: 1 };
const HEADS = randomMedusa(SIZES);
const DEEP_HEADS = randomMedusa({ ...SIZES, numHeads: 2, numBlocks: 3 }, 2);

let folder = "";
const pathOf = (name: string) => join(folder, name);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-medusa-"));
  writeRandomModel(pathOf("model"), MODEL);
  writeRandomModel(pathOf("capped"), { architecture: "gemma2", seed: 3, width: WIDTH });
  writeMedusa(pathOf("heads"), HEADS);
  writeMedusa(pathOf("deep"), DEEP_HEADS, { medusa_num_layers: 3 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const draftedBy = (path: string, method: SpeculativeConfig["method"] = "medusa"): SpeculativeConfig => ({
  ...DEFAULT_SPECULATIVE_CONFIG,
  method,
  draftModelPath: path,
  isAdaptive: false,
  numSpeculativeTokens: 5,
});

/** The requests' completions, those of one until it is aborted. */
const run = (speculative: SpeculativeConfig, options: Partial<EngineOptions> = {}, abortAtStep?: number) =>
  withSmallCore({ modelPath: pathOf("model"), speculative, ...options }, (core) => runSix(core, abortAtStep));

describe("heads with random weights", () => {
  test.each([
    "heads",
    "deep",
  ])("%s guess what their definition says, at each depth by an output matrix of its own", async (name) => {
    const texts = [promptOf(1), promptOf(2), promptOf(3).slice(0, 21)];
    const [tensors, numHeads, numBlocks] = name === "deep" ? [DEEP_HEADS, 2, 3] : [HEADS, 4, 1];
    const expected = await inTurn(texts, async (ids) => {
      const state = (await statesOf(ids.slice(0, -1))).at(-1)!;
      return Array.from({ length: numHeads }, (_, head) => guessOf(tensors, head, numBlocks, state));
    });
    expect(new Set(expected.flat()).size).toBeGreaterThan(4);
    const requests = texts.map((ids, index) => ({ ids, chunk: 8 + index }));
    expect(await guessesAfter(pathOf("model"), pathOf(name), requests, 6)).toEqual(expected);
  });

  test("chances are of the heads' own logits, without the model's bounds", async () => {
    const ids = promptOf(1);
    const [draft] = await draftsAfter(pathOf("capped"), pathOf("heads"), [{ ids }], 1, "f32");
    const state = (await statesOf(ids.slice(0, -1), "capped")).at(-1)!;
    const logits = logitsOf(HEADS, 0, 1, state);
    const most = Math.max(...logits);
    expect(draft!.tokens).toEqual([logits.indexOf(most)]);
    const sum = logits.reduce((total, logit) => total + Math.exp(logit - most), 0);
    expect(draft!.chances[0]).toBeCloseTo(1 / sum, 4);
  });

  test.each([
    "heads",
    "deep",
  ])("%s: tokens are those of plain decoding, with prefixes shared and memory short", async (name) => {
    const plain = await run(NO_SPECULATION);
    const drafted = await run(draftedBy(pathOf(name)));
    expect(drafted.completions).toEqual(plain.completions);
    expect(drafted.stats.speculation.numDraftTokens).toBeGreaterThan(500);
    const room = { blockSize: 8, maxModelLen: 160, maxNumSeqs: 4, maxNumBatchedTokens: 24 };
    const budget = leastKvBudget(pathOf("model"), 26, { ...room, kvCacheDtype: "f16" });
    const crowded = await run(draftedBy(pathOf(name)), { ...room, kvCacheMemoryBytes: budget.kvBytes }, 40);
    plain.completions.delete(5);
    expect(crowded.completions).toEqual(plain.completions);
    expect(crowded.stats.numPreemptions).toBeGreaterThan(0);
    expect(crowded.stats.speculation.numDraftTokens).toBeGreaterThan(100);
  });

  test("adaptive drafts do not change a text either", async () => {
    const drafted = await run({ ...draftedBy(pathOf("heads")), isAdaptive: true });
    expect(drafted.completions).toEqual((await run(NO_SPECULATION)).completions);
  });
});

test("heads that agree with the model draft what comes, and the text is the same", async () => {
  const ids = promptOf(1);
  const options = { modelPath: pathOf("model"), kvCacheDtype: "f32" } as const;
  const alone = (speculative: SpeculativeConfig) =>
    withSmallCore({ ...options, speculative }, async (core) => {
      const { tokenIds } = await runAlone(core, request(ids, { maxTokens: 40 }));
      return { tokenIds, speculation: core.stats().speculation };
    });
  const plain = await alone(NO_SPECULATION);
  writeMedusa(pathOf("agreeing"), await agreeing([...ids, ...plain.tokenIds], ids.length - 1, 3));
  const drafted = await alone({ ...draftedBy(pathOf("agreeing")), numSpeculativeTokens: 3 });
  expect(drafted.tokenIds).toEqual(plain.tokenIds);
  const { numDraftTokens, numAcceptedTokens } = drafted.speculation;
  expect(numDraftTokens).toBeGreaterThan(20);
  expect(numAcceptedTokens / numDraftTokens).toBeGreaterThan(0.8);
});

describe("a folder", () => {
  test.each(["auto", "heads", "medusa"] as const)("is taken by method %s", async (method) => {
    const { speculation } = (await run(draftedBy(pathOf("heads"), method))).stats;
    expect(speculation.numDraftTokens).toBeGreaterThan(0);
  });

  test("may have a prefix before all names", async () => {
    const named = Object.entries(HEADS).map(([name, tensor]) => [`medusa_heads.${name}`, tensor] as const);
    writeMedusa(pathOf("prefixed"), Object.fromEntries(named));
    const requests = [{ ids: promptOf(1) }];
    const guesses = await guessesAfter(pathOf("model"), pathOf("prefixed"), requests, 4);
    expect(guesses).toEqual(await guessesAfter(pathOf("model"), pathOf("heads"), requests, 4));
  });

  const others = (sizes: Partial<typeof SIZES>) => randomMedusa({ ...SIZES, numHeads: 2, ...sizes });
  const without = (name: string) => {
    const { [name]: missing, ...kept } = others({});
    expect(missing).toBeDefined();
    return kept;
  };
  test.each<[string, SpeculativeConfig["method"], () => MedusaTensors, object, string, RegExp]>([
    ["another method", "eagle3", () => HEADS, {}, "invalid_option", /a folder with LlamaForCausalLMEagle3/],
    ["another kind", "eagle", () => HEADS, {}, "invalid_option", /expected heads of kind eagle, got medusa/],
    ["a wider model's", "medusa", () => others({ width: 128 }), {}, "invalid_option", /heads of width 64, got 128/],
    ["other tokens", "heads", () => others({ vocab: 400 }), {}, "invalid_option", /vocabulary of 384 tokens, got 400/],
    ["few heads", "medusa", () => others({}), { medusa_num_heads: 3 }, "model_tensor", /of 3 heads, got no 2.1.weight/],
    ["no heads", "medusa", () => HEADS, { medusa_num_heads: 0 }, "model_config", /medusa_num_heads to be an integer/],
    ["many heads", "medusa", () => HEADS, { medusa_num_heads: 65 }, "model_config", /integer in \[1, 64\], got 65/],
    ["a word", "medusa", () => HEADS, { medusa_num_heads: "5" }, "model_config", /medusa_num_heads/],
    [
      "no blocks",
      "medusa",
      () => HEADS,
      { medusa_num_layers: 0 },
      "model_config",
      /medusa_num_layers to be an integer/,
    ],
    ["other blocks", "medusa", () => HEADS, { medusa_num_layers: 2 }, "model_tensor", /of 2 heads, got no 0.2.weight/],
    ["a gap", "medusa", () => without("1.0.linear.weight"), {}, "model_tensor", /1.0.linear.weight of shape \[64,64\]/],
    [
      "a short bias",
      "medusa",
      () => ({ ...HEADS, "0.0.linear.bias": f32(new Float32Array(3), 3) }),
      {},
      "model_tensor",
      /0.0.linear.bias of shape \[64\], got \[3\]/,
    ],
    [
      "integers",
      "medusa",
      () => ({ ...HEADS, "0.1.weight": { dtype: "I8", shape: [VOCAB, WIDTH] } }),
      {},
      "tensor_type_unsupported",
      /0.1.weight of type F32, F16 or BF16, got I8/,
    ],
    [
      "a further tensor",
      "medusa",
      () => ({ ...HEADS, "0.0.norm.weight": f32(new Float32Array(WIDTH), WIDTH) }),
      {},
      "model_tensor",
      /tensors that are computed, got 0.0.norm.weight too/,
    ],
  ])("with %s is refused", async (_, method, tensors, config, code, message) => {
    const path = writeMedusa(mkdtempSync(join(folder, "refused-")), tensors(), config as Record<string, unknown>);
    const failure: unknown = await run(draftedBy(path, method)).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
  });

  test("with a pickle is refused with the conversion, and no byte of it is read", async () => {
    mkdirSync(pathOf("pickle"));
    writeFileSync(join(pathOf("pickle"), "config.json"), JSON.stringify({ medusa_num_heads: 2, medusa_num_layers: 1 }));
    writeFileSync(join(pathOf("pickle"), "medusa_lm_head.pt"), "");
    const failure: unknown = await run(draftedBy(pathOf("pickle"))).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({
      code: "invalid_option",
      message: expect.stringMatching(/expected medusa_lm_head.safetensors in .*, got medusa_lm_head.pt/),
      hint: expect.stringContaining("weights_only=True"),
    });
  });
});

/** The model's hidden states after its final norm, at every position. */
async function statesOf(ids: readonly number[], model = "model"): Promise<number[][]> {
  const options = { modelPath: pathOf(model), speculative: NO_SPECULATION, kvCacheDtype: "f32" } as const;
  return await withSmallCore({ ...options, enablePrefixCaching: false }, (core) =>
    inTurn(ids, async (_, i) =>
      Array.from((await runAlone(core, poolingRequest(ids.slice(0, i + 1), "last"))).pooled!),
    ),
  );
}

function valuesOf(tensors: MedusaTensors, name: string): Float32Array {
  const { buffer, byteOffset, byteLength } = tensors[name]!.data!;
  return new Float32Array(buffer, byteOffset, byteLength / 4);
}

/** matrix [*, x's length] · x */
const times = (matrix: Float32Array, x: readonly number[]): number[] =>
  Array.from({ length: matrix.length / x.length }, (_, row) =>
    x.reduce((sum, value, i) => sum + value * matrix[row * x.length + i]!, 0),
  );

/** x + silu(W x + b) by each block, then the head's output matrix. */
function logitsOf(tensors: MedusaTensors, head: number, numBlocks: number, state: readonly number[]): number[] {
  let x = state;
  for (let block = 0; block < numBlocks; block++) {
    const bias = valuesOf(tensors, `${head}.${block}.linear.bias`);
    const inner = times(valuesOf(tensors, `${head}.${block}.linear.weight`), x).map((value, i) => value + bias[i]!);
    x = x.map((value, i) => value + inner[i]! / (1 + Math.exp(-inner[i]!)));
  }
  return times(valuesOf(tensors, `${head}.${numBlocks}.weight`), x);
}

function guessOf(tensors: MedusaTensors, head: number, numBlocks: number, state: readonly number[]): number {
  const logits = logitsOf(tensors, head, numBlocks, state);
  return logits.indexOf(Math.max(...logits));
}

/**
 * Heads whose blocks change nothing and whose output matrices fit what follows in one text: from the state at each
 * position, from `first` on, to the tokens two and more places after it, by least squares.
 */
async function agreeing(ids: readonly number[], first: number, numHeads: number): Promise<MedusaTensors> {
  const states = (await statesOf(ids)).slice(first);
  const tensors: Record<string, MedusaTensors[string]> = {};
  for (let head = 0; head < numHeads; head++) {
    const wanted = states.flatMap((state, i) => {
      const token = ids[first + i + 2 + head];
      return token === undefined ? [] : [{ state, token }];
    });
    tensors[`${head}.0.linear.weight`] = f32(new Float32Array(WIDTH * WIDTH), WIDTH, WIDTH);
    tensors[`${head}.0.linear.bias`] = f32(new Float32Array(WIDTH), WIDTH);
    tensors[`${head}.1.weight`] = f32(fitted(wanted), VOCAB, WIDTH);
  }
  return tensors;
}

interface Wanted {
  readonly state: readonly number[];
  readonly token: number;
}

/** Rows [VOCAB, WIDTH] whose products with the states are nearly one at the wanted tokens and zero at all others. */
function fitted(wanted: readonly Wanted[]): Float32Array {
  const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);
  // Weights of the states: (S Sᵀ + ε) w = one-hot, all tokens at once.
  const gram = wanted.map(({ state }, i) => wanted.map((other, j) => dot(state, other.state) + (i === j ? 1e-3 : 0)));
  const tokens = [...new Set(wanted.map(({ token }) => token))];
  const right = wanted.map(({ token }) => tokens.map((one): number => (one === token ? 1 : 0)));
  for (let pivot = 0; pivot < wanted.length; pivot++) {
    for (let row = 0; row < wanted.length; row++) {
      if (row === pivot) continue;
      const share = gram[row]![pivot]! / gram[pivot]![pivot]!;
      gram[row] = gram[row]!.map((value, i) => value - share * gram[pivot]![i]!);
      right[row] = right[row]!.map((value, i) => value - share * right[pivot]![i]!);
    }
  }
  const matrix = new Float32Array(VOCAB * WIDTH);
  for (const [i, { state }] of wanted.entries()) {
    for (const [k, token] of tokens.entries()) {
      const weight = right[i]![k]! / gram[i]![i]!;
      for (let c = 0; c < WIDTH; c++) matrix[token * WIDTH + c]! += weight * state[c]!;
    }
  }
  return matrix;
}
