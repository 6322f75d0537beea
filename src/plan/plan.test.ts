/** Decisions of the rules, case by case. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { planRequest as request } from "../../test/helpers/plan-request.js";
import { defaultBatchedTokens } from "../core/batched-tokens.js";
import { packageRoot } from "../core/package-root.js";
import type { PlannedEngine } from "./data/engines.js";
import { GPUS } from "./data/hardware.js";
import { KNOWN_MODELS } from "./data/models.js";
import { QUANTIZATIONS } from "./data/quantizations.js";
import { narrowestWidth } from "./fitting.js";
import { planFleet } from "./fleet-size.js";
import { parseHardware } from "./hardware.js";
import { knownModel } from "./known-model.js";
import { makePlan } from "./plan.js";
import type { Configuration, Plan } from "./request.js";
import { storedQuantization } from "./rules.js";
import { warningsOf } from "./warnings.js";

const best = (plan: Plan): Configuration => plan.configurations[0]!;
const reason = ({ choices }: Configuration, about: string): string =>
  choices.find((choice) => choice.about === about)!.because;

test("the reference image's case: 70B on two H100 is FP8, gated, with its reasons", () => {
  const configuration = best(makePlan(request("llama-3.3-70b", "h100x2")));
  expect(configuration).toMatchObject({ engine: "vllm", quantization: { id: "fp8" }, meetsSlo: true });
  expect(reason(configuration, "weights")).toMatch(
    /Hopper multiplies FP8 at 2\.0 times.*Published for llama-3\.1-8b.*not for llama-3\.3-70b: lossless.*2411\.02355/,
  );
  expect(configuration.options).toMatchObject({
    enablePrefixCaching: true,
    tensorParallelSize: configuration.tensorParallel,
  });
});

test("Ampere has no FP8: INT8 is the middle ground", () => {
  const ids = makePlan(request("llama-3.1-8b", "a100-80")).configurations.map(({ quantization }) => quantization.id);
  expect(ids[0]).toBe("int8");
  expect(ids).not.toContain("fp8");
});

test("a folder of 8-bit weights is multiplied in 8 bits where the GPU can", () => {
  const arithmetic = (label: string, hardware: string) => {
    const machine = parseHardware(hardware);
    return storedQuantization(label, machine).arithmetic;
  };
  expect([arithmetic("F8_E4M3", "h100"), arithmetic("I8", "h100"), arithmetic("I8", "a100-80")]).toEqual([
    "fp8",
    "int8",
    "int8",
  ]);
  expect([arithmetic("F8_E4M3", "a100-80"), arithmetic("INT4", "h100"), arithmetic("BF16", "h100")]).toEqual(
    Array(3).fill("float16"),
  );
});

test("on a CPU, files of one to three bits are multiplied like four bits, and not faster", () => {
  const { computeFactor } = storedQuantization("Q4_0", parseHardware("cpu-8"));
  for (const label of ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0"]) {
    const stored = storedQuantization(label, parseHardware("cpu-8"));
    expect([label, stored.arithmetic]).toEqual([label, "cpu4"]);
    expect(stored.computeFactor).toBeLessThan(computeFactor);
  }
});

test("INT4 only where memory binds", () => {
  const roomy = makePlan(request("llama-3.1-8b", "h100"));
  expect(roomy.configurations.some(({ quantization }) => quantization.id === "awq")).toBe(false);
  expect(roomy.refusals.find(({ what }) => what.startsWith("AWQ"))?.because).toMatch(/memory does not bind/);
  expect(best(makePlan(request("llama-3.3-70b", "a100-40x2"))).quantization.id).toBe("awq");
});

test("what no gate has passed is not used, but can be asked for", () => {
  const plan = makePlan(request("llama-3.3-70b", "b200"));
  expect(plan.configurations.map(({ quantization }) => quantization.id)).not.toContain("nvfp4");
  expect(plan.refusals.find(({ what }) => what === "NVFP4")?.because).toMatch(/has not passed a gate/);
  expect(best(makePlan(request("llama-3.3-70b", "b200", { quantization: "nvfp4" }))).quantization.id).toBe("nvfp4");
});

test("our engine's start checks a type of keys and values, so that no leave is needed; other engines take what they are told", () => {
  const busy = { quantization: "q8_0", load: { concurrency: 64 }, allowsPublished: false } as const;
  const own = best(makePlan(request("llama-2-7b", "cpu-8", busy)));
  expect(own).toMatchObject({ kv: { id: "int8" }, grades: { weights: "published", kv: "published-checked" } });
  expect(own.options.kvCacheDtype).toBe("measured");
  expect(reason(own, "KV memory")).toMatch(/published, and checked: the start measures it/);
  const other = makePlan(request("llama-2-7b", "cpu-8", { ...busy, engine: "llama-server" }));
  expect(new Set(other.configurations.map(({ kv }) => kv.id))).toEqual(new Set(["16"]));
  expect(reason(best(other), "KV memory")).toMatch(/published figures alone speak for it/);
});

test.each([
  ["vllm", "nf4", "bitsandbytes"],
  ["tgi", "nf4", "bitsandbytes-nf4"],
  ["tgi", "eetq", "eetq"],
  ["tgi", "fp8", "fp8"],
  ["sglang", "fp8", "fp8"],
] as const)("%s makes %s of 16-bit weights at its start, and is told so", (engine, quantization, word) => {
  const made = best(makePlan(request("llama-3.1-70b", "h100x8", { engine, quantization })));
  expect(made).toMatchObject({
    needs: [],
    options: { model: "meta-llama/Llama-3.1-70B-Instruct", quantization: word },
  });
});

test.each([
  ["q8_0", "int8"],
  ["q4_k_m", "int4"],
  ["fp8", "fp8"],
] as const)("our engine makes %s of a folder at its start, by the name %s", (quantization, word) => {
  const made = best(makePlan(request("llama-3.2-1b", "cpu-16", { quantization })));
  expect(made).toMatchObject({
    engine: "millrace",
    needs: [],
    options: { model: "hf:meta-llama/Llama-3.2-1B-Instruct", quantization: word },
  });
});

test("engines that make no type at their start need a checkpoint or a file, and offer none that only others make", () => {
  const trt = best(makePlan(request("llama-3.1-70b", "h100x8", { engine: "tensorrt-llm", quantization: "fp8" })));
  expect(trt.needs.join()).toMatch(/quantised to FP8/);
  const file = best(makePlan(request("llama-3.2-1b", "cpu-16", { engine: "llama-server", quantization: "q8_0" })));
  expect(file.needs.join()).toMatch(/as a GGUF file in Q8_0/);
  for (const engine of ["sglang", "tensorrt-llm"] as const)
    expect(() => makePlan(request("llama-3.1-8b", "h100", { engine, quantization: "nf4" }))).toThrow(/got nf4/);
});

test("NF4 saves memory, but no time", () => {
  const speed = (quantization: "nf4" | "bf16") =>
    best(makePlan(request("llama-3.1-8b", "h100", { quantization, load: { concurrency: 1 } }))).prediction.tpotMs;
  expect(speed("nf4")).toBeGreaterThanOrEqual(speed("bf16"));
});

test("a quality floor takes types away, one by one", () => {
  const ids = (smallestRecovery: number) =>
    new Set(
      makePlan(request("llama-3.3-70b", "a100-40x4", { smallestRecovery })).configurations.map(
        (each) => each.quantization.id,
      ),
    );
  expect(ids(99)).toContain("int8");
  expect(ids(99)).not.toContain("awq");
  expect([...ids(100)]).toEqual(["bf16"]);
});

test("4-bit weights are not for long contexts", () => {
  const plan = makePlan(request("llama-3.1-8b", "rtx4090", { inputTokens: 40_000, load: { concurrency: 1 } }));
  expect(plan.refusals.find(({ what }) => what.startsWith("AWQ"))?.because).toMatch(
    /not for sequences of 81\d{3} tokens/,
  );
});

test("a latency asks for width, PCIe does without where it can", () => {
  const wide = best(makePlan(request("llama-3.1-8b", "h100x8", { objective: "latency" })));
  expect(wide.tensorParallel).toBeGreaterThan(1);
  expect(reason(wide, "GPUs an instance")).toMatch(/ ms a request against .* with /);
  const narrow = best(makePlan(request("llama-3.1-8b", "l40sx4", { load: { concurrency: 64 } })));
  expect(narrow).toMatchObject({ tensorParallel: 1, instances: 4 });
});

test("full batches are for several narrow instances, not for one wide one", () => {
  const configuration = best(makePlan(request("llama-3.1-8b", "h100x8", { load: { concurrency: 1024 } })));
  expect(configuration).toMatchObject({ tensorParallel: 1, instances: 8 });
  expect(reason(configuration, "instances")).toMatch(/tokens\/s against .* with 7 × TP1/);
});

test("keys and values are narrowed only where that wins a tenth", () => {
  const roomy = makePlan(request("llama-3.1-8b", "l40s"));
  expect(new Set(roomy.configurations.map(({ kv }) => kv.id))).toEqual(new Set(["16"]));
  expect(roomy.refusals.find(({ what }) => what.startsWith("keys and values"))?.because).toMatch(/less than the 10 %/);
  expect(best(makePlan(request("llama-3.1-8b", "l40s", { load: { concurrency: 300 } }))).kv.id).toBe("fp8");
});

test("comparisons have the digits that a prediction has, and money is written as everywhere", () => {
  const { refusals } = makePlan(request("llama-3.1-8b", "l40s", { objective: "cost", load: { requestsPerS: 3 } }));
  const texts = refusals.map(({ because }) => because).join("\n");
  expect(texts).toMatch(/\$\d+\.\d\d a million output tokens against \$\d+\.\d\d with keys and values in 16 bits/);
  expect(texts).not.toMatch(/\d\.\d{5}/);
});

test("drafts under every objective where a drafter is known and they win a tenth", () => {
  const fast = best(makePlan(request("llama-3.3-70b", "h100x2", { objective: "latency", load: { concurrency: 1 } })));
  expect(fast.drafting?.depth).toBe(3);
  expect(fast.options.speculativeConfig).toMatchObject({ method: "eagle3" });
  expect(fast.memory.drafterBytes).toBeGreaterThan(1e9);
  const busy = best(makePlan(request("llama-3.3-70b", "h100x2")));
  expect(busy.drafting?.depth).toBe(3);
  expect(reason(busy, "speculation")).toMatch(/tokens\/s against .* with no drafts/);
  const flooded = makePlan(request("llama-3.1-8b", "h100", { load: { concurrency: 1024 } }));
  expect(best(flooded).drafting).toBeUndefined();
  expect(reason(best(flooded), "speculation")).toMatch(/^EAGLE-3 drafts: .* tokens\/s against .*less than the 10 %/);
});

test("limits come from the targets", () => {
  const loose = best(makePlan(request("llama-3.1-8b", "h100", { load: { concurrency: 64 } })));
  const strict = best(makePlan(request("llama-3.1-8b", "h100", { load: { concurrency: 64 }, slo: { tpotMs: 12 } })));
  expect(strict.options.maxNumBatchedTokens).toBeLessThan(loose.options.maxNumBatchedTokens);
  expect(strict.sustainableConcurrency).toBeLessThan(loose.sustainableConcurrency);
  expect(strict.options.maxNumSeqs).toBeLessThanOrEqual(strict.sustainableConcurrency + 8);
});

test("cost takes no more GPUs than the load", () => {
  const configuration = best(makePlan(request("llama-3.1-8b", "h100x8", { objective: "cost", slo: { tpotMs: 50 } })));
  expect(configuration.instances * configuration.tensorParallel).toBe(1);
  expect(reason(configuration, "instances")).toMatch(/^1 of 8 GPUs are used; \$/);
});

test("without targets, too: who cannot serve the load comes last", () => {
  const load = { requestsPerS: 100 };
  const plan = makePlan(request("llama-3.1-8b", "h100x8", { objective: "cost", load }));
  expect(best(plan).misses).toEqual([]);
  const few = makePlan(request("llama-3.1-8b", "h100x2", { objective: "cost", load: { requestsPerS: 60 } }));
  const served = few.configurations.map(({ misses }) => misses.length === 0);
  expect(served).toContain(false);
  expect(served).toEqual(served.toSorted((a, b) => Number(b) - Number(a)));
});

test.each([1, 3, 16])("%i at once are no more than that on many instances", (concurrency) => {
  for (const { prediction } of makePlan(request("llama-3.1-8b", "h100x8", { load: { concurrency } })).configurations) {
    // Little's law, with half a percent for rounding.
    const seconds = (prediction.ttftMs + prediction.tpotMs * 511) / 1000;
    expect(prediction.requestsPerS * seconds).toBeLessThan(1.005 * concurrency);
    expect(prediction.numDecoding).toBeLessThan(1.005 * concurrency);
  }
});

test.each([
  [{ concurrency: 4 }, {}],
  [{ concurrency: 16 }, { tpotMs: 33 }],
  [{ concurrency: 40 }, {}],
  [{ concurrency: 40 }, { tpotMs: 400 }],
  [{ concurrency: 4 }, { tpotMs: 1000 }],
  [{ concurrency: 300 }, {}],
  [{ requestsPerS: 0.5 }, {}],
])("on CPUs our engine has the step that it takes for its sequences: %o within %o", (load, slo) => {
  const asked = request("llama-3.1-8b", "cpu-32", { load, slo });
  for (const configuration of makePlan(asked).configurations) {
    const { maxNumSeqs, maxNumBatchedTokens } = configuration.options;
    expect(maxNumBatchedTokens).toBe(defaultBatchedTokens(maxNumSeqs));
    expect(maxNumSeqs).toBeLessThanOrEqual(configuration.seats);
    expect(reason(configuration, "tokens in a step")).toContain(`four tokens for each of ${maxNumSeqs} sequences`);
  }
  // Another engine's kernels lack this rule.
  const other = best(makePlan({ ...asked, engine: "llama-server" }));
  expect(reason(other, "tokens in a step")).not.toContain("four tokens");
});

test("our engine's sequences on CPUs are said to fill the room only where memory ends", () => {
  const sequences = (concurrency: number) =>
    reason(best(makePlan(request("llama-3.1-8b", "cpu-32", { load: { concurrency } }))), "sequences at once");
  expect(sequences(40)).toMatch(/^160 have room, 40 are there at once: twice the load's 40/);
  expect(sequences(2000)).toContain("as many as there is room for");
});

test("a CPU gets the embedded engine and GGUF types; half-shared prompts get a radix tree; a simple task a smaller model", () => {
  const cpu = best(makePlan(request("llama-3.1-8b", "cpu-16", { slo: {} })));
  expect(cpu).toMatchObject({ engine: "millrace", options: { threads: 16 } });
  expect(cpu.options.model).toBe("hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M");
  expect(best(makePlan(request("phi-4", "cpu-16", { engine: "llama-server" }))).needs.join()).toMatch(/as a GGUF file/);
  expect(best(makePlan(request("llama-3.1-8b", "h100", { prefixShare: 0.6 }))).engine).toBe("sglang");
  const simple = makePlan(request("llama-3.3-70b", "h100x2", { isSimpleTask: true }));
  expect(simple.suggestions.join()).toMatch(/llama-3\.1-8b/);
});

test("a model that the embedded engine does not load is planned for one that does", () => {
  const model = { ...knownModel("gpt-oss-20b"), embeddedRefusal: "expected another" };
  const on = (machine: string, more: Parameters<typeof request>[2] = {}) => ({
    ...request("gpt-oss-20b", machine, more),
    model,
  });
  expect(best(makePlan(on("cpu-32")))).toMatchObject({ engine: "llama-server" });
  expect(() => makePlan(on("cpu-32", { engine: "millrace" }))).toThrow(/expected a model that millrace loads/);
  expect(best(makePlan(on("h100x2"))).engine).toBe("vllm");
});

test.each(["gemma-2-9b", "gpt-oss-20b"])("%s, which the embedded engine loads, is planned for it", (name) => {
  expect(best(makePlan(request(name, "cpu-32"))).engine).toBe("millrace");
});

test("an engine that does not list a kind of model is refused, with those that do", () => {
  const wanted = [
    ["gemma-2-9b", "tensorrt-llm"],
    ["gpt-oss-20b", "tgi"],
  ] as const;
  for (const [name, engine] of wanted) {
    const error = expect(() => makePlan(request(name, "h100", { engine })));
    error.toThrow(/which its documentation does not list/);
  }
  expect(best(makePlan(request("gemma-2-9b", "h100", { engine: "tgi" }))).engine).toBe("tgi");
});

test("llama-server gets GGUF files on GPUs, too, and who reads none gets none", () => {
  const plan = (name: string) => best(makePlan(request(name, "h100", { engine: "llama-server" }))).options.model;
  expect(plan("llama-3.1-8b")).toBe("hf:bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M");
  expect(plan("gpt-oss-20b")).toBe("hf:ggml-org/gpt-oss-20b-GGUF");
  const stored = { label: "Q4_0", weightBytes: 5e9, embeddingBytes: 1e8 };
  const model = { ...knownModel("llama-3.1-8b"), location: "m.gguf", modelType: undefined, stored };
  expect(() => makePlan({ ...request("llama-3.1-8b", "h100", { engine: "tgi" }), model })).toThrow(
    /GGUF file, which it/,
  );
});

test("4-bit evidence of another model, and below the floor, is not called a gate passed", () => {
  const choice = best(makePlan(request("llama-3.3-70b", "a100-40x2")));
  expect(choice.quantization.id).toBe("awq");
  expect(reason(choice, "weights")).toMatch(/not for llama-3\.3-70b: .*93\.0 %/);
  expect(warningsOf(request("llama-3.3-70b", "a100-40x2"), choice)).toEqual([
    expect.stringMatching(/AWQ.*93 %, under the 98 % asked for: no gate is passed/),
  ]);
});

test("a model whose heads share no keys is warned of, one whose heads do is not", () => {
  const warnings = (name: string) => {
    const asked = request(name, "a100-80");
    return warningsOf(asked, best(makePlan(asked))).join();
  };
  // 32 layers × 2 × 4096 × 2 bytes; a quarter of it with 8 heads.
  expect(warnings("llama-2-7b")).toMatch(/no grouped-query attention, so a token takes 512 KiB \(128 with 8 groups\)/);
  expect(warnings("llama-3.1-8b")).not.toMatch(/grouped-query/);
});

test("the splits of eight GPUs stand beside the published ones, and rank as they do", () => {
  for (const name of ["llama-3.1-8b", "llama-3.3-70b"]) {
    const { splits } = makePlan(request(name, "h100x8", { load: { concurrency: 256 } }));
    const [whole, four] = [8, 2].map((width) => splits.find(({ tensorParallel }) => tensorParallel === width)!);
    expect(four!.published! / whole!.published!, name).toBeGreaterThan(1.6);
    expect(four!.outputTokensPerS / whole!.outputTokensPerS, name).toBeGreaterThan(1.2);
    expect(four!.floodedTokensPerS / whole!.floodedTokensPerS, name).toBeGreaterThan(1.2);
  }
  expect(makePlan(request("llama-3.1-8b", "h100")).splits).toEqual([]);
});

test("the guide's table of splits has today's predictions", () => {
  const guide = readFileSync(join(packageRoot(), "docs/guides/plan.md"), "utf8");
  for (const name of ["llama-3.1-8b", "llama-3.3-70b"]) {
    const { splits } = makePlan(request(name, "h100x8", { load: { concurrency: 256 } }));
    expect(splits).toHaveLength(4);
    for (const { floodedTokensPerS } of splits) {
      expect(guide).toContain(Math.round(floodedTokensPerS).toLocaleString("en-US"));
    }
  }
});

test("engines differ by their factors, and Ollama takes llama.cpp's files under its own names", () => {
  const speed = (engine: PlannedEngine) =>
    best(makePlan(request("llama-3.1-8b", "h100", { engine, quantization: "bf16" }))).prediction.outputTokensPerS;
  expect(speed("tgi")).toBeLessThan(speed("vllm"));
  expect(speed("sglang")).toBeGreaterThan(speed("vllm"));
  const ollama = best(makePlan(request("llama-3.1-8b", "h100", { engine: "ollama" })));
  expect(ollama.options.model).toBe("hf.co/bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M");
});

test("attention kernels follow the GPU's generation, the engine and the type of keys", () => {
  const attention = (hardware: string, more = {}) =>
    best(makePlan(request("llama-3.1-8b", hardware, more))).choices.find(({ about }) => about === "attention")!.choice;
  expect(attention("h100")).toMatch(/FlashAttention 3/);
  expect(attention("a100-80")).toMatch(/FlashAttention 2/);
  expect(attention("b200")).toMatch(/FlashInfer/);
  expect(attention("mi300x")).toMatch(/Triton/);
  expect(attention("b200", { engine: "sglang" })).toMatch(/trtllm_mha/);
});

test("a model that no host holds is named the hosts that hold it together, with the engine's own distribution", () => {
  const { configurations, nearest } = makePlan(request("deepseek-v3", "h100x8"));
  expect(configurations).toEqual([]);
  expect(nearest.join()).toMatch(/2 hosts of 8 × H100.*--hosts 2 .*image render --nodes 2 .*LeaderWorkerSet/);
});

test("hosts that hold a model together are the fewest, with narrow keys where only those have room", () => {
  const { nearest } = makePlan(request("llama-3.1-405b", "h100x2", { maxModelLen: 131_072 }));
  expect(nearest.join()).toMatch(/3 hosts of 2 × H100.*in FP8.*--hosts 3/);
});

test("a rate beyond one machine is a fleet that carries it with a zone lost", () => {
  const slo = { ttftMs: 2000, tpotMs: 60 };
  const fleet = planFleet(request("llama-3.3-70b", "h100x8", { slo }), 10_000)!;
  const { numHosts, numZones, capacity, limits, best: host } = fleet;
  expect(capacity.tpotMs).toBeLessThanOrEqual(60);
  expect((numHosts / numZones) * (numZones - 1) * capacity.requestsPerS * 0.8).toBeGreaterThanOrEqual(10_000);
  expect(fleet.numGpus).toBe(numHosts * host.instances * host.tensorParallel);
  const shares = limits.map(({ share }) => share);
  expect(shares).toEqual(shares.toSorted((a, b) => b - a));
  expect(shares[0]).toBeLessThanOrEqual(0.8);
  // Twice the rate needs twice the machines.
  const twice = planFleet(request("llama-3.3-70b", "h100x8", { slo }), 20_000)!;
  expect(twice.numHosts / numHosts).toBeCloseTo(2, 1);
  expect(planFleet(request("llama-3.3-70b", "h100x8", { slo: { tpotMs: 0.1 } }), 10)).toBeUndefined();
});

test.each([
  {},
  { tpotMs: 60 },
])("a host of a fleet is started with room for the requests it is counted with: %o", (slo) => {
  const { best: host, capacity } = planFleet(request("llama-3.3-70b", "a100-80x8", { slo }), 10_000)!;
  // Little's law.
  const inside = (capacity.requestsPerS * (capacity.ttftMs + capacity.tpotMs * 511)) / 1000;
  expect(inside).toBeGreaterThan(100);
  expect(inside / (host.instances * host.options.maxNumSeqs)).toBeLessThan(1.01);
});

test("what does not fit gets the arithmetic and what would", () => {
  const plan = makePlan(request("llama-3.1-405b", "h100x2"));
  expect(plan.configurations).toEqual([]);
  expect(plan.refusals.find(({ what }) => what === "BF16")?.because).toMatch(
    /756 GiB of weights.*2 × H100 SXM 80 GB have 143 GiB/,
  );
  expect(plan.nearest.join("\n")).toMatch(/h100x4.*AWQ[\s\S]*llama-3.3-70b/);
});

test("more memory never makes an instance wider, nor a model that fits not fit", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...KNOWN_MODELS.map(({ name }) => name)),
      fc.constantFrom(...GPUS.filter(({ maxPerNode }) => maxPerNode === 8).map(({ id }) => id)),
      fc.constantFrom("bf16", "fp8", "awq"),
      fc.double({ min: 1, max: 4, noNaN: true }),
      (model, gpu, id, factor) => {
        const small = request(model, `${gpu}x8`);
        if (small.machine.kind !== "gpu") return;
        const device = { ...small.machine.device, memoryBytes: small.machine.device.memoryBytes * factor };
        const large = { ...small, machine: { ...small.machine, device } };
        const [before, after] = [small, large].map((each) => narrowestWidth(each, QUANTIZATIONS[id], 4096));
        expect(after ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(before ?? Number.POSITIVE_INFINITY);
      },
    ),
  );
});

test.each([
  ["qwen3-235b-a22b", "l40sx8", 8],
  ["qwen3-30b-a3b", "h100x8", 4],
  ["phi-4", "h100x8", 4],
] as const)("%s on %s is never cut through a block of scales or a KV head: not by %i", (model, hardware, width) => {
  const { configurations } = makePlan(request(model, hardware, { objective: "latency" }));
  const cut = configurations.filter(
    ({ tensorParallel, quantization, hasWholeExperts }) =>
      // Whole experts on a GPU are not cut.
      hasWholeExperts !== true && tensorParallel === width && (quantization.id === "fp8" || model === "phi-4"),
  );
  expect(cut).toEqual([]);
});

test("more GPUs never take a way to serve the model away, and all costs are positive", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...KNOWN_MODELS.map(({ name }) => name)),
      fc.constantFrom(...GPUS.map(({ id }) => id)),
      fc.constantFrom(1, 2, 4),
      (model, gpu, count) => {
        const inputTokens = 512;
        const few = makePlan(request(model, `${gpu}x${count}`, { inputTokens }));
        for (const { cost, prediction, memory, options } of few.configurations) {
          expect(cost.usdPerHour).toBeGreaterThan(0);
          expect(cost.usdPerMillionOutput).toBeGreaterThan(cost.usdPerMillionTotal);
          expect(prediction.outputTokensPerS).toBeGreaterThan(0);
          expect(memory.kvBytes).toBeGreaterThan(0);
          // vLLM refuses to start otherwise.
          expect(options.maxNumBatchedTokens).toBeGreaterThanOrEqual(options.maxNumSeqs);
        }
        if (count * 2 > GPUS.find(({ id }) => id === gpu)!.maxPerNode || few.configurations.length === 0) return;
        const many = makePlan(request(model, `${gpu}x${count * 2}`, { inputTokens }));
        expect(many.configurations.length).toBeGreaterThan(0);
      },
    ),
    { numRuns: 12 },
  );
});
