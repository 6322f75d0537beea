/** Experts in the host's memory: predictions beside published figures, and plans with them. */
import { expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import type { Machine } from "./data/device.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { instanceOf } from "./fitting.js";
import { findGpu } from "./hardware.js";
import { makePlan } from "./plan.js";
import type { PlanRequest } from "./request.js";
import { DECODE, stepTime } from "./step-time.js";

const GIB = 2 ** 30;
const one = { load: { concurrency: 1 }, allowsPublished: false } as const;
const request = (model: string, more: Partial<PlanRequest> = {}) =>
  planRequest(model, "rtx4090", { ...one, hostMemoryBytes: 128 * GIB, ...more });

/** An RTX 3090, by its datasheet. */
const RTX3090: Machine = {
  kind: "gpu",
  count: 1,
  device: { ...findGpu("rtx4090")!, id: "rtx3090", bytesPerS: 936e9, flops: { float16: 71e12, int8: 284e12 } },
};

function stepOf(numHostLayers: number, work: Partial<Parameters<typeof stepTime>[1]>): number {
  const asked = { ...request("gpt-oss-120b"), machine: RTX3090 };
  const quantization = { ...QUANTIZATIONS.mxfp4 };
  const instance = instanceOf(asked, { quantization, kv: KV_TYPES["16"], tensorParallel: 1, numHostLayers });
  return stepTime(instance, { ...DECODE, numDecoding: 0, context: 64, ...work }).totalSeconds;
}

/**
 * ai-maestro.online, gpt-oss-120b on an RTX 3090 (host unknown), llama-bench: decoding, and prompts by -ub. The
 * constants come from another measurement, with all experts on the host.
 */
test.each([
  ["decoding, 26 layers on the host", 32.3, () => 1 / stepOf(26, { numDecoding: 1 })],
  ["prompts, 512 at a time", 380, () => 512 / stepOf(26, { numPromptTokens: 512 })],
  ["prompts, 2048 at a time", 1112, () => 2048 / stepOf(25, { numPromptTokens: 2048 })],
  ["prompts, 4096 at a time", 1682, () => 4096 / stepOf(26, { numPromptTokens: 4096 })],
])("gpt-oss-120b on a 24 GB GPU, %s: %i tokens/s within 30 %%", (_, published, predicted) => {
  expect(predicted() / published).toBeGreaterThan(0.7);
  expect(predicted() / published).toBeLessThan(1.3);
});

test("a large mixture runs on one small GPU with its experts on the host, and is told so", () => {
  const asked = request("gpt-oss-120b");
  const [best] = makePlan(asked).configurations;
  expect(best).toMatchObject({ engine: "llama-server", quantization: { id: "mxfp4" } });
  const layers = best!.numHostLayers!;
  expect(layers).toBeGreaterThan(20);
  expect(layers).toBeLessThanOrEqual(36);
  expect(best!.extraArgs.join(" ")).toContain(
    `-ngl 999 --n-cpu-moe ${layers} -ub ${best!.options.maxNumBatchedTokens}`,
  );
  const { because, choice } = best!.choices.find(({ about }) => about === "experts on the host")!;
  expect(choice).toMatch(/of 36 layers, .* of 128 GiB/);
  expect(because).toMatch(/One request alone gets [\d.]+ tokens\/s against [\d.]+ if the host computed everything/);
});

test("weights are types of GGUF files, and the file's own where it has some", () => {
  const of = (model: string, more: Partial<PlanRequest>) => makePlan(request(model, more)).configurations[0]!;
  expect(of("gpt-oss-120b", {}).options.model).toBe("hf:ggml-org/gpt-oss-120b-GGUF");
  const asked = { allowsPublished: true, hostMemoryBytes: 64 * GIB };
  expect(of("qwen3.6-35b-a3b", asked)).toMatchObject({
    engine: "llama-server",
    quantization: { label: expect.stringMatching(/GGUF/) },
  });
});

test("what fits stays on the GPU; what no memory holds does not fit", () => {
  expect(makePlan(request("gpt-oss-20b")).configurations[0]!.numHostLayers).toBeUndefined();
  expect(makePlan(request("gpt-oss-120b", { hostMemoryBytes: 16 * GIB })).configurations).toEqual([]);
});

test("a faster memory of the host is a faster plan", () => {
  const speed = (hostBytesPerS: number) =>
    makePlan(request("gpt-oss-120b", { hostBytesPerS })).configurations[0]!.prediction.outputTokensPerS;
  expect(speed(400e9)).toBeGreaterThan(1.5 * speed(89.6e9));
});

test("a model without room names the memory that would hold its experts", () => {
  // Also where the given memory is too small.
  for (const more of [{}, { hostMemoryBytes: 16 * GIB }]) {
    const { configurations, nearest } = makePlan({ ...planRequest("gpt-oss-120b", "rtx4090", one), ...more });
    expect(configurations).toEqual([]);
    expect(nearest.join()).toMatch(
      /with (\d+) GiB of the host's memory for experts it fits in MXFP4: --host-memory \1/,
    );
  }
});
