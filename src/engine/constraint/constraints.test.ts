/**
 * A random model held to grammars: what it writes is in the language, and a grammar that cannot be had ends its own
 * request only.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { recipeOf } from "../../../test/helpers/constraint.js";
import type { Completion } from "../../../test/helpers/engine-requests.js";
import { collect, request } from "../../../test/helpers/engine-requests.js";
import { type RandomModel, writeRandomModel } from "../../../test/helpers/random-model.js";
import type { Backend } from "../../backend/backend.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { grammarOfChoices } from "../../text/grammar/ebnf.js";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";
import { grammarOfRegex } from "../../text/grammar/pattern-expression.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api/options.js";
import type { EngineRequest, SamplingParams } from "../api/request.js";
import { EngineCore, type FailedRequest } from "../engine-core.js";
import { readTokenBytes } from "./token-bytes.js";

let folder = "";
let model: RandomModel;
let backend: Backend;
let core: EngineCore;
let textOf: (completion: Completion | undefined) => string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "millrace-constraints-"));
  model = writeRandomModel(join(folder, "model.gguf"), { architecture: "llama", seed: 1, contextLength: 2048 });
  backend = createCpuBackend({ numThreads: 1 });
  const shape = { modelPath: model.path, numThreads: 1, maxNumSeqs: 8, kvCacheMemoryBytes: 2 ** 26 };
  const options = { ...DEFAULT_ENGINE_OPTIONS, ...shape };
  core = await EngineCore.create(openModel(model.path), options, backend);
  const { bytes } = readTokenBytes(model.path);
  textOf = (completion) => Buffer.concat((completion?.tokenIds ?? []).map((id) => bytes[id]!)).toString("utf8");
});
afterAll(async () => {
  await core.close();
  backend.destroy();
  rmSync(folder, { recursive: true, force: true });
});

function constrained(grammar: string, sampling: Partial<SamplingParams> = {}): EngineRequest {
  const defaults = { temperature: 1, seed: 7n, maxTokens: 400, stopTokenIds: [model.eosTokenId] };
  return { ...request([1, 2, 3], { ...defaults, ...sampling }), constraint: { recipe: recipeOf(grammar) } };
}

async function runAll(requests: readonly EngineRequest[]) {
  const completions = new Map<number, Completion>();
  const failures: FailedRequest[] = [];
  requests.forEach((each, index) => {
    core.add(index + 1, each);
  });
  while (core.hasWork) {
    for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
    failures.push(...core.takeFailures());
  }
  return { completions: requests.map((_, index) => completions.get(index + 1)), failures };
}

describe("a random model under a grammar", () => {
  test.each<[string, string, RegExp]>([
    ["choices", grammarOfChoices(["north", 'so"uth', "é日"]), /^(north|so"uth|é日)$/],
    ["a regular expression", grammarOfRegex("[a-c]{3,5}-[0-9]+x"), /^[a-c]{3,5}-[0-9]+x$/],
    ["EBNF", 'root ::= "(" root ")" | "x"', /^\(*x\)*$/],
  ])("writes %s", async (_, grammar, expected) => {
    const seeds = [1n, 2n, 3n, 4n, 5n, 6n];
    const { completions, failures } = await runAll(seeds.map((seed) => constrained(grammar, { seed })));
    expect(failures).toEqual([]);
    for (const completion of completions) {
      expect(textOf(completion)).toMatch(expected);
      expect(completion?.finishReason).toBe("stop");
    }
  });

  test("writes JSON objects, beside requests that are free", async () => {
    const properties = { a: { type: "integer", minimum: 5, maximum: 17 }, b: { enum: ["x", "y"] } };
    const grammar = grammarOfSchema({ type: "object", properties, required: ["a", "b"] }, "json");
    const free = request([1, 2, 3], { maxTokens: 30 });
    const { completions } = await runAll([free, constrained(grammar), free, constrained(grammar, { seed: 9n }), free]);
    for (const index of [1, 3]) {
      const { a, b } = JSON.parse(textOf(completions[index])) as { readonly a: number; readonly b: string };
      expect(a).toBeGreaterThanOrEqual(5);
      expect(a).toBeLessThanOrEqual(17);
      expect(["x", "y"]).toContain(b);
    }
    expect(completions[0]?.tokenIds).toEqual((await runAll([free])).completions[0]?.tokenIds);
  });

  test("ends where the grammar does, whatever min_tokens says", async () => {
    const { completions } = await runAll([constrained(grammarOfChoices(["a"]), { minTokens: 50 })]);
    expect(textOf(completions[0])).toBe("a");
  });

  test("is cut by max_tokens", async () => {
    const { completions } = await runAll([constrained(grammarOfRegex("[a-z]{50}"), { maxTokens: 10 })]);
    expect(completions[0]?.finishReason).toBe("length");
  });

  test("a grammar that cannot be compiled fails alone", async () => {
    const good = grammarOfChoices(["good"]);
    const bad = 'root ::= "unclosed';
    const { completions, failures } = await runAll([constrained(good), constrained(bad), constrained(good)]);
    expect(failures.map(({ requestId, error }) => [requestId, error.code])).toEqual([[2, "invalid_grammar"]]);
    expect([textOf(completions[0]), textOf(completions[2])]).toEqual(["good", "good"]);
    expect(core.stats().constraints.numThreadsReplaced).toBe(1);
  });

  test("a request that nothing can end is refused", async () => {
    const { failures } = await runAll([constrained(grammarOfChoices(["a"]), { stopTokenIds: [] })]);
    expect(failures.map(({ error }) => error.code)).toEqual(["invalid_grammar"]);
  });

  test("a grammar that hangs keeps nobody else from finishing, and goes when its request does", async () => {
    const free = request([1, 2, 3], { maxTokens: 20 });
    const alone = (await runAll([free])).completions[0];
    core.add(1, constrained(`root ::= ${"[a-z]* [^a]* ".repeat(3000)}`));
    core.add(2, free);
    const completions = new Map<number, Completion>();
    while (completions.get(2)?.finishReason === undefined) {
      for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
    }
    expect(completions.get(2)?.tokenIds).toEqual(alone?.tokenIds);
    expect(core.stats()).toMatchObject({ numRunning: 0, numWaiting: 1 });
    core.abort(1);
    expect(core.hasWork).toBe(false);
  });
});
