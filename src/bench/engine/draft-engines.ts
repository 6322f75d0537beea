/** Engines for the speculation benchmarks: they run in this process, and the caller runs each step. */
import { createBackend } from "../../backend/create/create-backend.js";
import { packFolder } from "../../core/cache-folder.js";
import type { StartStage } from "../../core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../engine/api/options.js";
import {
  DEFAULT_SPECULATIVE_CONFIG,
  NO_SPECULATION,
  type SpeculativeConfig,
} from "../../engine/api/speculative-config.js";
import { EngineCore } from "../../engine/engine-core.js";
import { openModel } from "../../model/open-model.js";
import { benchDrafts, type DraftsBenchResult, type DraftsBenchSpec, type PromptSet } from "./drafts-bench.js";
import { randomPrompts } from "./random-prompts.js";
import {
  benchSpeculation,
  Outcomes,
  type SpeculationBenchResult,
  type SpeculationBenchSpec,
} from "./speculation-bench.js";

const MAX_PACK_BYTES = 50 * 2 ** 30;
const RANDOM_PROMPT_TOKENS = 64;

/** The prefix cache is off, so that every run computes its prompts. */
const shapeOf = (modelPath: string, numThreads: number, batches: readonly number[]) => ({
  modelPath,
  numThreads,
  maxNumSeqs: Math.max(...batches),
  enablePrefixCaching: false,
  packCache: { folder: packFolder(), maxBytes: MAX_PACK_BYTES },
});

/** An engine in this process; the caller runs its steps. */
export interface SteppedEngine {
  readonly core: EngineCore;
  close(): Promise<void>;
}

/**
 * Creates an engine that computes every prompt, with its own memory, which `close` frees. Throws the errors of opening
 * the model and its drafter.
 * @param maxModelLen length of the longest request
 */
export async function openSteppedEngine(
  modelPath: string,
  numThreads: number,
  batch: number,
  maxModelLen: number,
  speculative: SpeculativeConfig,
): Promise<SteppedEngine> {
  const options = { ...DEFAULT_ENGINE_OPTIONS, ...shapeOf(modelPath, numThreads, [batch]), maxModelLen, speculative };
  const backend = createBackend(options);
  try {
    const core = await EngineCore.create(openModel(modelPath), options, backend);
    return {
      core,
      async close() {
        await core.close();
        backend.destroy();
      },
    };
  } catch (thrown) {
    backend.destroy();
    throw thrown;
  }
}

/** Plain decoding against drafts of a known acceptance, in one engine. */
export async function benchSpeculationOf(
  modelPath: string,
  numThreads: number,
  spec: SpeculationBenchSpec,
  startStage: StartStage,
  onResult: (result: SpeculationBenchResult) => void,
) {
  const outcomes = new Outcomes();
  const stage = startStage("engine");
  const options = {
    ...DEFAULT_ENGINE_OPTIONS,
    ...shapeOf(modelPath, numThreads, spec.batches),
    maxModelLen: spec.promptTokens + spec.genTokens,
    // The step holds full drafts of all sequences.
    maxNumBatchedTokens: Math.max(512, Math.max(...spec.batches) * (1 + spec.maxDraftTokens)),
    speculative: { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens: spec.maxDraftTokens },
  };
  const backend = createBackend(options);
  const drafter = outcomes.drafter(spec.acceptance);
  const core = await EngineCore.create(openModel(modelPath), options, backend, undefined, drafter);
  stage.done(`${core.info.architecture}, ${core.info.weightType}, ${core.info.isa}`);
  const results = await benchSpeculation(core, outcomes, spec, onResult);
  backend.destroy();
  return { results, engine: core.info };
}

/** Plain decoding against the server's own drafters, in two engines, over chats and over random tokens. */
export async function benchDraftsOf(
  modelPath: string,
  numThreads: number,
  chats: readonly PromptSet[],
  speculative: SpeculativeConfig,
  spec: DraftsBenchSpec,
  startStage: StartStage,
  onResult: (result: DraftsBenchResult) => void,
): Promise<DraftsBenchResult[]> {
  const model = openModel(modelPath);
  const perBatch = spec.batches.map((batch) => (spec.rounds + 1) * Math.max(batch, spec.promptsPerRound));
  const numPrompts = perBatch.reduce((sum, count) => sum + count, 0);
  const { vocabSize, contextLength } = model.config;
  const random = randomPrompts(
    { batch: numPrompts, promptTokens: RANDOM_PROMPT_TOKENS, sharedPrefix: 0, vocabSize },
    1,
  );
  const sets = [...chats, { name: "random", prompts: random.map((ids) => [...ids]), stopTokenIds: [] }];
  const stage = startStage("engines");
  const longest = Math.max(...sets.flatMap(({ prompts }) => prompts.map((ids) => ids.length)));
  const options = {
    ...DEFAULT_ENGINE_OPTIONS,
    ...shapeOf(modelPath, numThreads, spec.batches),
    maxModelLen: Math.min(contextLength, longest + spec.maxTokens),
  };
  const backend = createBackend(options);
  const open = (config: SpeculativeConfig) => EngineCore.create(model, { ...options, speculative: config }, backend);
  const plain = await open(NO_SPECULATION);
  const drafting = await open(speculative);
  stage.done(`${plain.info.architecture}, ${plain.info.weightType}, ${plain.info.isa}`);
  const results = await benchDrafts(plain, drafting, sets, spec, onResult);
  await Promise.all([plain.close(), drafting.close()]);
  backend.destroy();
  return results;
}
