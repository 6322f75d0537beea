/** The engines that can be tuned: their start, their behaviour without flags, and the flags of a change. */
import { engineServer } from "../../bench/run/engine-server.js";
import type { Launch } from "../../bench/run/launch.js";
import { millraceInstances, millraceServer } from "../../bench/run/servers.js";
import { DEFAULT_MAX_NUM_SEQS, defaultBatchedTokens } from "../../core/batched-tokens.js";
import { type Configuration, type Edit, flagWords, INSTANCES, instancesOf } from "./configuration.js";

export interface TunedEngine {
  /** Whether answers keep the same bits at every batch size. */
  readonly isExact: boolean;
  /** Most requests in the batch at once, without --max-num-seqs. */
  readonly seats: number;
  /** Number of processes that share the machine. Throws invalid_option for an invalid number. */
  instances(configuration: Configuration): number;
  /** Most tokens of a step, without --max-num-batched-tokens. */
  batchedTokens(seats: number): number;
  /** The change in the engine's flags; undefined if the engine cannot make it. */
  editFor(edit: Edit): Edit | undefined;
}

const millrace: TunedEngine = {
  isExact: true,
  seats: DEFAULT_MAX_NUM_SEQS,
  instances: instancesOf,
  batchedTokens: defaultBatchedTokens,
  editFor: (edit) => edit,
};

/** vLLM's flags with our names and meanings. */
const VLLM_FLAGS = new Set([
  "max-num-seqs",
  "max-num-batched-tokens",
  "kv-cache-memory-bytes",
  "no-enable-prefix-caching",
  "no-enable-chunked-prefill",
  "speculative-config",
  "model",
]);

/** Sizes of vLLM 0.32's server on CPUs (vllm/engine/arg_utils.py). */
const vllm: TunedEngine = {
  isExact: false,
  seats: 128,
  instances: () => 1,
  batchedTokens: () => 2048,
  editFor(edit) {
    const changes = Object.entries(edit).map(([flag, value]) => [flag, draftsOfVllm(flag, value)] as const);
    const isTaken = changes.every(([flag, value]) => VLLM_FLAGS.has(flag) && value !== NOT_TAKEN);
    return isTaken ? Object.fromEntries(changes) : undefined;
  },
};

const NOT_TAKEN = "not taken";

/** vLLM drafts only on request, needs the length of the n-grams, and has suffix drafts in a separate package. */
function draftsOfVllm(flag: string, value: string | undefined): string | undefined {
  if (flag !== "speculative-config" || value === undefined) return value;
  const drafts = JSON.parse(value) as { method: string; num_speculative_tokens?: number };
  if (drafts.method === "none") return undefined;
  return drafts.method === "ngram" ? JSON.stringify({ ...drafts, prompt_lookup_max: 4 }) : NOT_TAKEN;
}

export const TUNED_ENGINES = { millrace, vllm } satisfies Record<string, TunedEngine>;

export type TunedEngineName = keyof typeof TUNED_ENGINES;

export interface EngineChoice {
  readonly engine: TunedEngineName;
  /** The engine's own program; undefined: the usual one. Our own engine has none. */
  readonly program?: string | undefined;
}

/** Throws invalid_option for an invalid number of instances. @param configuration flags without the model's */
export function tunedServer(
  { engine, program }: EngineChoice,
  { name, path, numThreads }: { readonly name: string; readonly path: string; readonly numThreads: number },
  configuration: Configuration,
): Launch {
  if (engine === "millrace") {
    const { [INSTANCES]: instances, ...flags } = configuration;
    const words = flagWords(flags);
    if (instances === undefined) return millraceServer(name, { path, numThreads }, words);
    return millraceInstances(name, { path, numThreads }, instancesOf(configuration), words);
  }
  const words = flagWords(configuration);
  const server = { name, modelPath: path, modelName: "tuned", numThreads, program };
  return engineServer(engine, { ...server, optionsFor: () => ({}), flagsFor: () => words });
}
