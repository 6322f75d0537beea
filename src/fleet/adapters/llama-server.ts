/** llama.cpp's server. Its flags were renamed over time, so its --help decides which names to use. */

import type { CommonEngineOptions } from "../upstream/engine.js";
import type { Adapter } from "./adapter.js";
import { askForJson, countOrNothing } from "./engine-http.js";
import { elsewhere, envFrom, type FlagTable, flagsFrom } from "./flags.js";
import { type MetricNames, metricsByName } from "./prometheus.js";

/** llama.cpp's types by vLLM's and our names. */
const KV_TYPES: Readonly<Record<string, string>> = {
  int8: "q8_0",
  fp8: "q8_0",
  float16: "f16",
  bfloat16: "bf16",
  auto: "f16",
};

/** vLLM's methods under llama-server's names. */
const SPECULATION_TYPES: Readonly<Record<string, string>> = {
  draft_model: "draft-simple",
  eagle3: "draft-eagle3",
  mtp: "draft-mtp",
  ngram: "ngram-simple",
};

/** The help text still lists removed flags, and says that they have been removed. */
function hasFlag(help: string, flag: string): boolean {
  const entry = new RegExp(`^[^\\n]*${flag}[ ,].*(?:\\n .*)?`, "m").exec(help)?.[0];
  return entry !== undefined && !entry.includes("has been removed");
}

/** @param help output of --help; undefined: assume a current build */
function flagTable(help: string | undefined): FlagTable {
  const isCurrent = help === undefined || hasFlag(help, "--spec-type");
  const takesFlashMode = help === undefined || /--flash-attn +\[?on/.test(help);
  return {
    model: "-m",
    servedModelName: "--alias",
    // llama.cpp divides its context evenly among the slots.
    maxModelLen: (length, { maxNumSeqs = 1 }) => ["-c", String(length * maxNumSeqs)],
    maxNumSeqs: "-np",
    maxNumBatchedTokens: "-b",
    kvCacheDtype(type) {
      const name = KV_TYPES[type] ?? type;
      // A quantised value cache needs flash attention.
      return ["-ctk", name, "-ctv", name, "-fa", ...(takesFlashMode ? ["on"] : [])];
    },
    enablePrefixCaching: (on) => [on ? "--cache-prompt" : "--no-cache-prompt"],
    speculativeConfig: (config) => (isCurrent ? currentSpeculation(config) : oldSpeculation(config)),
    threads: "-t",
    apiKey: elsewhere,
  };
}

type SpeculativeConfig = NonNullable<CommonEngineOptions["speculativeConfig"]>;

function currentSpeculation({ method, model, num_speculative_tokens: depth }: SpeculativeConfig): readonly string[] {
  const name = String(method ?? "draft_model");
  const type = SPECULATION_TYPES[name] ?? name;
  const depthFlag = type === "ngram-simple" ? "--spec-ngram-simple-size-m" : "--spec-draft-n-max";
  return [
    "--spec-type",
    type,
    ...(model === undefined ? [] : ["--spec-draft-model", String(model)]),
    ...(depth === undefined ? [] : [depthFlag, String(depth)]),
  ];
}

function oldSpeculation({ model, num_speculative_tokens: depth }: SpeculativeConfig): readonly string[] {
  return [
    ...(model === undefined ? [] : ["--model-draft", String(model)]),
    ...(depth === undefined ? [] : ["--draft-max", String(depth)]),
  ];
}

const METRICS: MetricNames = {
  numRunning: ["llamacpp:requests_processing"],
  numWaiting: ["llamacpp:requests_deferred"],
  // Newer builds lack this metric.
  kvUsage: ["llamacpp:kv_cache_usage_ratio"],
  promptTokens: ["llamacpp:prompt_tokens_total"],
  generationTokens: ["llamacpp:tokens_predicted_total"],
  prefixQueries: [],
  prefixHits: ["llamacpp:prompt_tokens_cached_total"],
  preemptions: [],
  draftTokens: ["llamacpp:spec_decode_num_draft_tokens_total"],
  acceptedTokens: ["llamacpp:spec_decode_num_accepted_tokens_total"],
};

export const llamaServer: Adapter = {
  name: "llama-server",
  program: ["llama-server"],
  helpCommand: (program) => [...program, "--help"],
  launch(options, program, { host, port }, help) {
    const { args, notices } = flagsFrom("llama-server", options, flagTable(help));
    return {
      command: [...program, "--host", host, "--port", String(port), "--metrics", ...args],
      env: envFrom({ LLAMA_API_KEY: options.apiKey }),
      modelName: options.servedModelName,
      notices,
    };
  },
  healthPath: "/health",
  metricsPath: "/metrics",
  // `cache_prompt: false` recomputes the prompt, but the time to load the cached copy still reveals other tenants'
  // prompts.
  cacheScope: [],
  parseMetrics(text) {
    const metrics = metricsByName(text, METRICS);
    const { promptTokens: computed, prefixHits: found } = metrics;
    // llama.cpp counts only computed prompt tokens; our metric includes cached ones.
    const all = computed === undefined || found === undefined ? undefined : computed + found;
    return { ...metrics, promptTokens: all ?? computed, prefixQueries: all };
  },
  async capacity(target, signal) {
    const props = await askForJson(target, "/props", signal);
    const settings = (props.default_generation_settings ?? {}) as { readonly n_ctx?: unknown };
    const seats = countOrNothing(props.total_slots);
    const slotTokens = countOrNothing(settings.n_ctx);
    return {
      seats,
      kvTokens: seats === undefined || slotTokens === undefined ? undefined : seats * slotTokens,
      blockSize: undefined,
    };
  },
};
