import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { promptOf, runSix, withSmallCore } from "../../../test/helpers/drafted-requests.js";
import { inTurn, poolingRequest, runAlone } from "../../../test/helpers/engine-requests.js";
import { guessesAfter } from "../../../test/helpers/guesses.js";
import { leastKvBudget } from "../../../test/helpers/kv-memory.js";
import {
  headsMetadata,
  type RandomModelOptions,
  writeRandomHeads,
  writeRandomModel,
} from "../../../test/helpers/random-model.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { readGguf } from "../../formats/gguf/read.js";
import { str, u32, type WritableValue, writeGguf } from "../../formats/gguf/write.js";
import type { EngineOptions } from "../api/options.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION, type SpeculativeConfig } from "../api/speculative-config.js";
import type { EngineCore } from "../engine-core.js";

const MODEL: RandomModelOptions = { architecture: "llama", seed: 1, type: "F16", width: 64, ff: 96 };
let folder = "";
const pathOf = (name: string): string => join(folder, `${name}.gguf`);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-heads-"));
  writeRandomModel(pathOf("model"), MODEL);
  writeRandomHeads(pathOf("eagle"), "eagle", MODEL);
  writeRandomHeads(pathOf("narrow"), "narrow eagle", MODEL);
  writeRandomHeads(pathOf("narrow-q8_0"), "narrow eagle", { ...MODEL, type: "Q8_0", ff: 128 });
  writeRandomHeads(pathOf("medusa"), "medusa", MODEL);
  writeRandomHeads(pathOf("wide"), "eagle", { ...MODEL, width: 128 });
  writeRandomHeads(pathOf("worded"), "eagle", { ...MODEL, vocab: 400 });
  const key = (name: string) => `mill-heads.${name}`;
  const broken: Record<string, Record<string, WritableValue>> = {
    foreign: { [key("base")]: str("other") },
    kindless: { [key("kind")]: str("hydra") },
    endless: { [key("depth")]: u32(65) },
    broader: { [key("layer_length")]: u32(128) },
    deeper: { [key("past_layer")]: u32(3) },
    empty: {},
    "empty-medusa": { [key("kind")]: str("medusa") },
  };
  const { [key("past_layer")]: _, ...older } = headsMetadata("eagle", MODEL);
  writeGguf(pathOf("older"), { metadata: older, tensors: [] });
  for (const [name, changes] of Object.entries(broken)) {
    writeGguf(pathOf(name), { metadata: { ...headsMetadata("eagle", MODEL), ...changes }, tensors: [] });
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const withCore = <T>(
  speculative: SpeculativeConfig,
  options: Partial<EngineOptions>,
  use: (core: EngineCore) => T | Promise<T>,
): Promise<T> => withSmallCore({ modelPath: pathOf("model"), speculative, ...options }, use);

/** The requests' completions, those of one in four until it is aborted. */
const run = (speculative: SpeculativeConfig, options: Partial<EngineOptions> = {}, abortAtStep?: number) =>
  withCore(speculative, options, (core) => runSix(core, abortAtStep));

const guessedBy = (name: string, method: SpeculativeConfig["method"] = "heads"): SpeculativeConfig => ({
  ...DEFAULT_SPECULATIVE_CONFIG,
  method,
  draftModelPath: pathOf(name),
  isAdaptive: false,
  numSpeculativeTokens: 5,
});

describe("trained heads", () => {
  test.each([
    "eagle",
    "narrow",
    "medusa",
  ])("%s: tokens are those of plain decoding, with prefixes shared and memory short", async (kind) => {
    const plain = await run(NO_SPECULATION);
    const guessed = await run(guessedBy(kind));
    expect(guessed.completions).toEqual(plain.completions);
    expect(guessed.stats.speculation.numDraftTokens).toBeGreaterThan(500);
    const numBlocks = 14;
    const kvOptions = {
      kvCacheDtype: "f16",
      blockSize: 16,
      maxNumSeqs: 4,
      maxNumBatchedTokens: 24,
      maxModelLen: 160,
    } as const;
    const { kvBytes: kvCacheMemoryBytes } = leastKvBudget(pathOf("model"), numBlocks, kvOptions);
    const crowded = await run(guessedBy(kind), { ...kvOptions, kvCacheMemoryBytes }, 40);
    plain.completions.delete(5);
    expect(crowded.completions).toEqual(plain.completions);
    expect(crowded.stats.numPreemptions).toBeGreaterThan(0);
    expect(crowded.stats.prefixCacheHitTokens).toBeGreaterThan(0);
    expect(crowded.stats.speculation.numDraftTokens).toBeGreaterThan(100);
  });

  test.each([
    "eagle",
    "narrow",
    "narrow-q8_0",
  ])("%s: a layer guesses what its definition says, alone and beside others, after chunks and a prefix that was found", async (name) => {
    const texts = [promptOf(1), promptOf(3).slice(0, 21), promptOf(2)];
    const expected = await inTurn(texts, (ids) => eagleGuesses(ids, 6, name));
    expect(new Set(expected.flat()).size).toBeGreaterThan(6);
    const guesses = await guessesAfter(
      pathOf("model"),
      pathOf(name),
      [{ ids: texts[0]! }, { ids: texts[1]!, chunk: 3 }, { ids: texts[2]!, numSkipped: 16, chunk: 7 }],
      6,
    );
    expect(guesses).toEqual(expected);
  });

  test("a text that is guessed for no further leaves the others their guesses", async () => {
    const texts = [promptOf(1), promptOf(2), promptOf(3).slice(0, 21)];
    const requests = texts.map((ids, index) => ({ ids, numGuesses: [2, 6, 4][index]! }));
    const guesses = await guessesAfter(pathOf("model"), pathOf("eagle"), requests, 6);
    expect(guesses).toEqual(await inTurn(requests, ({ ids, numGuesses }) => eagleGuesses(ids, numGuesses)));
  });

  test("nothing is guessed behind a stop token", async () => {
    const ids = promptOf(1);
    const guesses = await eagleGuesses(ids, 6);
    const stop = guesses.findIndex((token, i) => i > 0 && guesses.indexOf(token) === i);
    const request = { ids, stopTokenIds: [guesses[stop]!] };
    expect(await guessesAfter(pathOf("model"), pathOf("eagle"), [request], 6)).toEqual([guesses.slice(0, stop + 1)]);
  });

  test("a layer goes on from the last token that came true, after steps of a token and after drafts that fail", async () => {
    const ids = promptOf(1);
    const expected = await eagleGuesses(ids, 6);
    for (const request of [
      { ids, numPrompt: 20 },
      { ids, numPrompt: 20, numRight: 0 },
      { ids, numPrompt: 20, numRight: 2 },
      { ids, numPrompt: 21, numRight: 3 },
    ]) {
      expect(await guessesAfter(pathOf("model"), pathOf("eagle"), [request], 6)).toEqual([expected]);
    }
  });

  test.each([
    ["gemma3", "f16"],
    ["qwen2", "int8"],
    ["smollm3", "f32"],
  ] as const)("%s: a layer reads what the model stores, of a window and with other keys too", async (architecture, kvCacheDtype) => {
    const [name, heads, model] = [architecture, `${architecture}-eagle`, { architecture, seed: 3 }];
    writeRandomModel(pathOf(name), model);
    writeRandomHeads(pathOf(heads), "eagle", model);
    const options = { modelPath: pathOf(name), kvCacheDtype };
    const { completions, stats } = await run(guessedBy(heads), options);
    expect(completions).toEqual((await run(NO_SPECULATION, options)).completions);
    expect(stats.speculation.numDraftTokens).toBeGreaterThan(500);
  });

  test("blocks guess what their definition says", async () => {
    const texts = [promptOf(1), promptOf(2)];
    const guesses = await guessesAfter(
      pathOf("model"),
      pathOf("medusa"),
      texts.map((ids) => ({ ids, chunk: 8 })),
      5,
    );
    const tensors = tensorsOf("medusa");
    const expected = await inTurn(texts, async (ids) => {
      const h = (await hiddenStates(ids)).at(-1)!;
      return [0, 1, 2].map((k) => mostLikely(tensors.multiply(`heads.${k}`, h).map((x, i) => h[i]! + silu(x))));
    });
    expect(guesses).toEqual(expected);
  });

  test.each([
    ["model", "heads", "invalid_option", /expected trained heads \(architecture mill-heads\), got llama/],
    ["eagle", "medusa", "invalid_option", /expected heads of kind medusa, got eagle/],
    ["wide", "eagle", "invalid_option", /expected heads of width 64, got 128/],
    ["worded", "heads", "invalid_option", /expected heads for a vocabulary of 384 tokens, got 400/],
    ["foreign", "auto", "invalid_option", /expected heads of the model random, got heads of other/],
    ["eagle", "draft_model", "architecture_unsupported", /expected one of llama, .*, got mill-heads/],
    ["kindless", "heads", "gguf_metadata", /expected mill-heads.kind among medusa, eagle, got hydra/],
    ["endless", "heads", "gguf_metadata", /expected mill-heads.depth to be an integer in \[1, 64\], got 65/],
    ["broader", "heads", "gguf_metadata", /expected mill-heads.layer_length to be an integer in \[1, 64\], got 128/],
    ["deeper", "heads", "gguf_metadata", /expected mill-heads.past_layer to be an integer in \[1, 2\], got 3/],
    [
      "older",
      "heads",
      "invalid_option",
      /expected a layer of the model to attend to .*, got heads with keys of their own/,
    ],
    ["empty", "eagle", "gguf_tensor", /expected a tensor eagle.join_hidden.weight of shape \[64,64\], got none/],
    ["empty-medusa", "medusa", "gguf_tensor", /expected a tensor heads.0.weight of shape \[64,64\], got none/],
  ] as const)("refuses %s for method %s", async (name, method, code, message) => {
    const failure: unknown = await run(guessedBy(name, method)).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({ code, message: expect.stringMatching(message) });
  });

  test("method auto takes heads where the path names some", async () => {
    const { speculation } = (await run({ ...guessedBy("eagle"), method: "auto" })).stats;
    expect(speculation.numDraftTokens).toBeGreaterThan(0);
  });
});

/** After the final norm, at every position but the last, as the engine's embeddings give them. */
async function hiddenStates(ids: readonly number[]): Promise<number[][]> {
  return await withCore(NO_SPECULATION, { enablePrefixCaching: false, kvCacheDtype: "f32" }, (core) =>
    inTurn(ids.slice(1), async (_, i) =>
      Array.from((await runAlone(core, poolingRequest(ids.slice(0, i + 1), "last"))).pooled!),
    ),
  );
}

/** The arithmetic of a file's tensors, in doubles. */
function readTensors(name: string) {
  const { tensors } = readGguf(pathOf(name));
  const file = readFileSync(pathOf(name));
  const known = new Map<string, { readonly data: Float32Array; readonly cols: number }>();
  const values = (tensor: string) => {
    const { type, shape, byteOffset, byteLength } = tensors.get(`${tensor}.weight`)!;
    const [cols = 1, rows = 1] = shape;
    const bytes = file.subarray(byteOffset, byteOffset + byteLength);
    const entry = known.get(tensor) ?? { data: dequantizeRow(type, bytes, rows * cols), cols };
    known.set(tensor, entry);
    return entry;
  };
  const rowOf = (tensor: string, row: number) => {
    const { data, cols } = values(tensor);
    return Array.from(data.subarray(row * cols, (row + 1) * cols));
  };
  const multiply = (tensor: string, x: readonly number[]): number[] => {
    const { data, cols } = values(tensor);
    return Array.from({ length: data.length / cols }, (_, row) =>
      x.reduce((sum, v, i) => sum + v * data[row * cols + i]!, 0),
    );
  };
  const norm = (tensor: string, x: readonly number[]): number[] => {
    const { data } = values(tensor);
    const scale = 1 / Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / x.length + 1e-5);
    return x.map((v, i) => v * scale * data[i]!);
  };
  return { rowOf, multiply, norm };
}

const read = new Map<string, ReturnType<typeof readTensors>>();

function tensorsOf(name: string): ReturnType<typeof readTensors> {
  const tensors = read.get(name) ?? readTensors(name);
  read.set(name, tensors);
  return tensors;
}

const silu = (x: number) => x / (1 + Math.exp(-x));
const add = (a: readonly number[], b: readonly number[]) => a.map((v, i) => v + b[i]!);

const indexOfMost = (logits: readonly number[]) => logits.indexOf(Math.max(...logits));
const mostLikely = (h: readonly number[]) => indexOfMost(tensorsOf("model").multiply("output", h));

/** Heads of 16, four for queries and two for keys, as the random model has; pairs (2i, 2i + 1) are rotated. */
function rotated(x: readonly number[], position: number): number[] {
  return x.map((value, i) => {
    const pair = Math.floor((i % 16) / 2);
    const angle = position * 10_000 ** ((-2 * pair) / 16);
    return i % 2 === 0
      ? value * Math.cos(angle) - x[i + 1]! * Math.sin(angle)
      : value * Math.cos(angle) + x[i - 1]! * Math.sin(angle);
  });
}

/** What models/training/heads.py defines, in plain loops, over the keys and values of the model's first layer. */
async function eagleGuesses(ids: readonly number[], numTokens: number, name = "eagle"): Promise<number[]> {
  const heads = tensorsOf(name);
  const model = tensorsOf("model");
  const isNarrow = name.startsWith("narrow");
  const joinState = isNarrow ? "eagle.join_state" : "eagle.join_hidden";
  const guess = (state: readonly number[]) =>
    isNarrow ? indexOfMost(heads.multiply("eagle.output", state)) : mostLikely(state);
  const past = ids.slice(0, -1).map((id, position) => {
    const normed = model.norm("blk.0.attn_norm", model.rowOf("token_embd", id));
    return { k: rotated(model.multiply("blk.0.attn_k", normed), position), v: model.multiply("blk.0.attn_v", normed) };
  });
  const layer = (join: string, state: readonly number[], token: number, position: number): number[] => {
    const embedded = heads.norm("eagle.embed_norm", model.rowOf("token_embd", token));
    const x = add(heads.multiply(join, state), heads.multiply("eagle.join_embed", embedded));
    const q = rotated(heads.multiply("eagle.attn_q", heads.norm("eagle.attn_norm", x)), position);
    const attended = q.map((_, out) => {
      const head = Math.floor(out / 16);
      const ofKv = 16 * Math.floor(head / 2);
      const scores = past.map(({ k }) => {
        let dot = 0;
        for (let i = 0; i < 16; i++) dot += q[head * 16 + i]! * k[ofKv + i]!;
        return Math.exp(dot / 4);
      });
      const total = scores.reduce((sum, score) => sum + score, 0);
      return past.reduce((sum, { v }, j) => sum + (scores[j]! / total) * v[ofKv + (out % 16)]!, 0);
    });
    const y = add(x, heads.multiply("eagle.attn_output", attended));
    const inner = heads.norm("eagle.ffn_norm", y);
    const up = heads.multiply("eagle.ffn_up", inner);
    const gated = heads.multiply("eagle.ffn_gate", inner).map((gate, i) => silu(gate) * up[i]!);
    return heads.norm("eagle.norm", add(y, heads.multiply("eagle.ffn_down", gated)));
  };
  let state = layer("eagle.join_hidden", (await hiddenStates(ids)).at(-1)!, ids.at(-1)!, ids.length - 1);
  const guesses = [guess(state)];
  while (guesses.length < numTokens) {
    state = layer(joinState, state, guesses.at(-1)!, ids.length - 1 + guesses.length);
    guesses.push(guess(state));
  }
  return guesses;
}
