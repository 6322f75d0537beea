import { expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import { headsFor } from "./heads.js";
import { knownModel } from "./known-model.js";
import { makePlan } from "./plan.js";
import type { Choice, Configuration, PlanRequest } from "./request.js";

const best = (...request: Parameters<typeof planRequest>): Configuration =>
  makePlan(planRequest(...request)).configurations[0]!;
const speculation = ({ choices }: Configuration): Choice => choices.find(({ about }) => about === "speculation")!;

test("lookups where no heads are known, up to the sequences for which their rows cost next to nothing", () => {
  const plan = best("qwen2.5-32b", "a100-80");
  const { mostSequences, depth } = plan.lookups!;
  const { maxNumSeqs, speculativeConfig } = plan.options;
  expect(depth).toBe(4);
  expect(mostSequences).toBeGreaterThan(1);
  expect(mostSequences).toBeLessThan(maxNumSeqs);
  expect(speculativeConfig).toEqual({
    method: "ngram",
    num_speculative_tokens: 4,
    prompt_lookup_max: 4,
    prompt_lookup_min: 2,
    num_speculative_tokens_per_batch_size: [
      [1, mostSequences, 4],
      [mostSequences + 1, maxNumSeqs, 0],
    ],
  });
  expect(speculation(plan)).toMatchObject({
    choice: `prompt lookup, 4 drafts for up to ${mostSequences} at once`,
    because: expect.stringMatching(/with more, none are drafted. Not counted in the prediction.*400 to min_p/),
  });
});

test("the rows of drafts are the limit: fewer sequences where arithmetic is slow, no bound where few are taken", () => {
  const fast = best("qwen2.5-32b", "h100", { quantization: "bf16" }).lookups!.mostSequences;
  const slow = best("qwen2.5-32b", "h100", { quantization: "awq" }).lookups!.mostSequences;
  expect(slow).toBeLessThan(fast);
  const one = best("qwen2.5-32b", "h100", { load: { concurrency: 1 }, slo: { tpotMs: 16 } });
  expect(one.options.maxNumSeqs).toBeLessThanOrEqual(one.lookups!.mostSequences);
  expect(one.options.speculativeConfig).not.toHaveProperty("num_speculative_tokens_per_batch_size");
});

test("none where more rows read more experts, with the figure", () => {
  const experts = best("qwen3-30b-a3b", "h100");
  expect(experts).toMatchObject({ lookups: undefined });
  expect(experts.options).not.toHaveProperty("speculativeConfig");
  const { choice, because } = speculation(experts);
  expect(choice).toBe("off");
  expect(Number(/one sequence (\d+\.\d\d) times as long/.exec(because)![1])).toBeGreaterThan(1.1);
});

test("none beside heads, and none on other engines", () => {
  const heads = best("llama-3.1-8b", "h100", { load: { concurrency: 1024 } });
  expect(heads).toMatchObject({ drafting: undefined, lookups: undefined });
  const why = (engine: PlanRequest["engine"]): string => {
    const { options, choices } = best("qwen2.5-32b", "h100", { engine });
    expect(options).not.toHaveProperty("speculativeConfig");
    return choices.find(({ about }) => about === "speculation")!.because;
  };
  expect(why("sglang")).toMatch(/no heads .* and lookups of sglang draft from the requests of all tenants/);
  expect(why("tensorrt-llm")).toBe("none are planned for tensorrt-llm here");
});

test("heads are planned on the engines that read them, under the name of their repository", () => {
  expect(headsFor(knownModel("qwen3-32b"), "vllm")?.repo).toBe("RedHatAI/Qwen3-32B-speculator.eagle3");
  expect(headsFor(knownModel("qwen3-32b"), "sglang")).toBeUndefined();
  expect(headsFor(knownModel("llama-3.3-70b"), "sglang")?.repo).toBe("yuhuili/EAGLE3-LLaMA3.3-Instruct-70B");
  expect(headsFor(knownModel("llama-3.3-70b"), "tgi")).toBeUndefined();
  expect(best("qwen3-32b", "h100").options.speculativeConfig).toEqual({
    method: "eagle3",
    model: "RedHatAI/Qwen3-32B-speculator.eagle3",
    num_speculative_tokens: 3,
  });
  const trained = speculation(best("llama-3.1-8b", "h100")).because;
  expect(trained).toMatch(/they were trained on 2048 tokens, and fewer are right behind longer texts; beside drafts/);
});
