/** Every distinct argument list that presets, a handful of plans and the adapters' own options render for an engine. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { LaunchPlan } from "../../src/fleet/adapters/adapter.js";
import { ADAPTERS } from "../../src/fleet/adapters/index.js";
import { MULTI_HOST_FLAGS } from "../../src/fleet/adapters/multi-host.js";
import { isProviderEngine } from "../../src/fleet/config/provider-conflicts.js";
import { readConfig } from "../../src/fleet/config/read-config.js";
import { planModels } from "../../src/fleet/plan-models.js";
import type { CommonEngineOptions, EngineName } from "../../src/fleet/upstream/engine.js";
import { LISTED_MODEL_TYPES } from "../../src/plan/data/engines.js";
import { parseHardware } from "../../src/plan/hardware.js";
import { knownModel } from "../../src/plan/known-model.js";
import { makePlan } from "../../src/plan/plan.js";
import type { Configuration, PlanRequest } from "../../src/plan/request.js";
import { repositoryRoot } from "./fixtures.js";

interface Rendered {
  /** Where it comes from. */
  readonly source: string;
  /** What follows the program's name. */
  readonly args: readonly string[];
  readonly files: LaunchPlan["files"];
}

const PLACE = { host: "127.0.0.1", port: 8001, sparePorts: [8101, 8102], folder: "." } as const;
/** Stands for the program, so that what follows it is seen whatever its words. */
const PROGRAM = ["program"] as const;

interface Wanted {
  readonly source: string;
  readonly options: CommonEngineOptions;
  readonly extraArgs: readonly string[];
}

function fromPresets(engine: EngineName): Wanted[] {
  const folder = join(repositoryRoot(), "presets");
  const machine = { cores: [], splits: new Map(), millraceSeats: 8 };
  return readdirSync(folder).flatMap((file) =>
    planModels(readConfig(join(folder, file), {}), machine).flatMap(({ spec }) =>
      spec.engine === engine
        ? { source: file, options: { ...spec.options, servedModelName: spec.name }, extraArgs: spec.args }
        : [],
    ),
  );
}

/**
 * Model, machine, and what makes the plan another one: drafts, keys in 8 bits, weights made FP8 at the start, several
 * instances, lookups, parsers of each family.
 */
const PLANS: readonly (readonly [string, string, Partial<PlanRequest>])[] = [
  ["llama-3.1-8b", "h100", {}],
  ["llama-3.1-8b", "h100x2", { objective: "latency", load: { concurrency: 1 } }],
  ["llama-3.1-8b", "a10g", { objective: "cost", inputTokens: 4096, load: { concurrency: 64 } }],
  ["llama-3.1-8b", "l40sx4", { load: { requestsPerS: 20 }, slo: { ttftMs: 500, tpotMs: 40 } }],
  ["llama-3.1-8b", "rtx4090", { inputTokens: 20_000, load: { concurrency: 16 } }],
  ["llama-3.3-70b", "h200x2", { slo: { tpotMs: 12 }, load: { concurrency: 1 } }],
  ["llama-3.3-70b", "a100-80x2", { objective: "latency", load: { concurrency: 2 } }],
  ["qwen2.5-32b", "h100", { inputTokens: 8192, load: { concurrency: 64 } }],
  ["qwen3-30b-a3b", "h100", { prefixShare: 0.8 }],
  ["qwen2.5-32b", "h100", { load: { concurrency: 1 } }],
  ["qwen3-32b", "h100", {}],
  ["gpt-oss-20b", "h100", {}],
  ["mistral-7b", "l40s", {}],
  ["deepseek-r1-distill-70b", "h100x4", {}],
  ["deepseek-v3", "h200x8", {}],
  ["qwen3.6-35b-a3b", "h100", { prefixShare: 0.8 }],
  ["gemma4-26b-a4b", "h100", {}],
  ["deepseek-v3", "h100x8", { hosts: 2 }],
  ["glm-4.5-air", "h100x4", {}],
  ["glm-4.7-flash", "h100", {}],
  ["minimax-m2", "h200x4", {}],
];

/** For each host of a configuration. */
function flagsOfHosts(
  engine: EngineName,
  { pipelineParallel: numHosts = 1 }: Configuration,
): readonly (readonly string[])[] {
  if (numHosts === 1) return [[]];
  if (engine !== "vllm" && engine !== "sglang") return [["--pp_size", String(numHosts)]];
  return Array.from({ length: numHosts }, (_, rank) =>
    MULTI_HOST_FLAGS[engine]({
      numHosts,
      size: String(numHosts),
      rank: String(rank),
      head: "10.0.0.1",
      port: 29_501,
      isHead: rank === 0,
    }),
  );
}

function fromPlans(engine: EngineName): Wanted[] {
  if (engine === "tgi" || engine === "ollama" || isProviderEngine(engine)) return [];
  return PLANS.flatMap(([name, hardware, more]) => {
    const model = knownModel(name);
    if (engine !== "millrace" && !LISTED_MODEL_TYPES[engine].includes(model.modelType!)) return [];
    const { configurations } = makePlan({
      model,
      machine: parseHardware(hardware),
      inputTokens: 1024,
      outputTokens: 512,
      prefixShare: 0,
      slo: {},
      objective: "throughput",
      isSimpleTask: false,
      smallestRecovery: 98,
      allowsPublished: true,
      load: { concurrency: 16 },
      price: { usd: 1, date: "2026-05", source: "test" },
      engine,
      ...more,
    });
    return configurations.flatMap((configuration) => {
      const { options, extraArgs } = configuration;
      const source = `plan of ${name} on ${hardware}`;
      return flagsOfHosts(engine, configuration).map((flags) => ({
        source,
        options,
        extraArgs: [...extraArgs, ...flags],
      }));
    });
  });
}

/**
 * Values of an option that adapters have a word of their own for, or that plans never set; all engines are asked for
 * all they have a flag for.
 */
const SPECULATIONS: Readonly<Partial<Record<EngineName, readonly string[]>>> = {
  vllm: ["ngram", "eagle", "eagle3", "mtp", "draft_model", "suffix"],
  sglang: ["ngram", "eagle", "eagle3", "mtp", "draft_model"],
  "tensorrt-llm": ["ngram", "eagle", "eagle3", "mtp", "draft_model", "suffix"],
  tgi: ["ngram"],
  "llama-server": ["ngram", "eagle3", "mtp", "draft_model"],
};
const HAS_MODEL = ["eagle", "eagle3", "draft_model"];
const POLICIES: Readonly<Partial<Record<EngineName, readonly string[]>>> = {
  vllm: ["fcfs", "priority"],
  sglang: ["fcfs", "lpm", "priority"],
};
const KV_TYPES: Readonly<Partial<Record<EngineName, readonly string[]>>> = {
  vllm: ["auto", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16"],
  sglang: ["auto", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16"],
  "tensorrt-llm": ["auto", "fp8"],
  tgi: ["fp8", "fp8_e4m3", "fp8_e5m2"],
  "llama-server": ["auto", "int8", "fp8", "float16", "bfloat16", "q4_0"],
};

function fromOptions(engine: EngineName): Wanted[] {
  const all = {
    model: "org/a-model",
    servedModelName: "a-name",
    maxModelLen: 4096,
    maxNumSeqs: 8,
    maxNumBatchedTokens: 2048,
    kvCacheMemoryBytes: 2 ** 33,
    quantization: "fp8",
    tensorParallelSize: 2,
    gpuMemoryUtilization: 0.85,
    enablePrefixCaching: true,
    threads: 4,
    apiKey: "sk-of-this-instance",
    enableSleepMode: true,
  } satisfies CommonEngineOptions;
  const variants: Partial<CommonEngineOptions>[] = [
    { enablePrefixCaching: false },
    { dataParallelSize: 2 },
    { dataParallelSize: 2, enableExpertParallel: true },
    { enableExpertParallel: true },
    { enableExpertParallel: false },
    ...(POLICIES[engine] ?? []).map((schedulingPolicy) => ({ schedulingPolicy })),
    ...(KV_TYPES[engine] ?? []).map((kvCacheDtype) => ({ kvCacheDtype })),
    ...(SPECULATIONS[engine] ?? []).map((method) => ({
      speculativeConfig: {
        method,
        ...(HAS_MODEL.includes(method) ? { model: "org/a-draft" } : {}),
        num_speculative_tokens: 4,
      },
    })),
  ];
  return variants.map((variant) => ({
    source: `options ${JSON.stringify(variant)}`,
    options: { ...all, ...variant },
    extraArgs: [],
  }));
}

/** @param help of the engine's own binary, where its flags depend on it */
export function renderedArguments(engine: EngineName, help?: string): readonly Rendered[] {
  const wanted = [...fromPresets(engine), ...fromPlans(engine), ...fromOptions(engine)];
  const distinct = new Map<string, Rendered>();
  for (const { source, options, extraArgs } of wanted) {
    const { command, files } = ADAPTERS[engine].launch(options, PROGRAM, PLACE, help);
    const args = [...command.slice(PROGRAM.length), ...extraArgs];
    const key = JSON.stringify([args, files]);
    if (!distinct.has(key)) distinct.set(key, { source, args, files });
  }
  return [...distinct.values()];
}
