/** Plans of models with recurrent layers count the states, and do not count on a shared prefix. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import { readJsonFile } from "../formats/files/json.js";
import { kvBytes, stateBytes } from "../model/description/sizes.js";
import { memoryForStates, seatsWithStates } from "../model/description/state-memory.js";
import { describeConfig } from "../model/hf/describe.js";
import { KV_TYPES } from "./data/quantizations.js";
import { memoryNeed } from "./memory.js";
import { makePlan } from "./plan.js";
import type { PlannedModel } from "./planned-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-plan-recurrent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The layers of Qwen3.6-27B. */
function model(): PlannedModel {
  const path = join(folder, "config.json");
  const config = {
    model_type: "qwen3_5_text",
    hidden_size: 5120,
    intermediate_size: 17_408,
    num_hidden_layers: 64,
    num_attention_heads: 24,
    linear_num_value_heads: 48,
    max_position_embeddings: 262_144,
  };
  writeFileSync(path, JSON.stringify(config));
  return { ...describeConfig(readJsonFile(path), "recurrent"), source: "test", location: folder, checkpoints: {} };
}

it("a sequence takes its state beside its keys and values", () => {
  const planned = model();
  const keysAndValues = kvBytes(planned, KV_TYPES["16"].vectorBytes, 4096);
  expect(memoryNeed(planned, 4096).kvBytes).toBe(keysAndValues + stateBytes(planned));
});

it("a shared prefix makes no plan faster, and the reason is given", () => {
  const best = (prefixShare: number) =>
    makePlan(planRequest("llama-3.1-8b", "h100", { model: model(), prefixShare, engine: "vllm" })).configurations[0]!;
  const [none, shared] = [best(0), best(0.8)];
  expect(shared.prediction).toEqual(none.prediction);
  const { choice, because } = shared.choices.find(({ about }) => about === "prefix caching")!;
  expect(choice).toBe("not counted on");
  expect(because).toContain("recurrent state");
  expect(shared.choices.find(({ about }) => about === "KV memory")!.choice).toContain("149.6 MiB of recurrent state");
});

it("the embedded engine has room for the states of all seats that are planned", () => {
  const planned = { ...model(), layers: model().layers.slice(0, 16) };
  const request = planRequest("qwen3-4b", "cpu-16", { model: planned, engine: "millrace", load: { concurrency: 256 } });
  const { options, memory } = makePlan(request).configurations[0]!;
  const { maxNumSeqs, kvCacheMemoryBytes } = options as { maxNumSeqs: number; kvCacheMemoryBytes: number };
  const left = memoryForStates(memory.kvBytes, kvCacheMemoryBytes);
  expect(seatsWithStates(planned, maxNumSeqs, left)).toBe(maxNumSeqs);
});
