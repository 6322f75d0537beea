/** Six requests at once, for comparing an engine that drafts with one that does not. */
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../../src/engine/api/options.js";
import type { SamplingParams } from "../../src/engine/api/request.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import type { Drafter } from "../../src/engine/speculative/drafter.js";
import { openModel } from "../../src/model/open-model.js";
import { type Completion, collect, request } from "./engine-requests.js";

const SAMPLING: readonly Partial<SamplingParams>[] = [
  { temperature: 0 },
  { temperature: 0.8, seed: 7n },
  { temperature: 1.3, seed: 8n, repetitionPenalty: 1.2, presencePenalty: 0.5, minTokens: 10 },
];

/** Two texts begin alike, so that the second finds the first one's blocks. */
export const promptOf = (id: number): number[] =>
  Array.from({ length: 40 + 10 * id }, (_, i) => ((i * 5) % 97) + (i < 34 ? 0 : id));

/**
 * Opens the model with one thread and little KV memory, unless the options say otherwise, for as long as `use` takes.
 */
export async function withSmallCore<T>(
  options: Partial<EngineOptions> & Pick<EngineOptions, "modelPath">,
  use: (core: EngineCore) => T | Promise<T>,
  drafter?: Drafter,
): Promise<T> {
  const backend = createCpuBackend({ numThreads: 1 });
  try {
    const all = { ...DEFAULT_ENGINE_OPTIONS, numThreads: 1, kvCacheMemoryBytes: 2 ** 24, ...options };
    return await use(await EngineCore.create(openModel(all.modelPath), all, backend, undefined, drafter));
  } finally {
    backend.destroy();
  }
}

/** The requests' completions, without the last one where it is aborted. */
export async function runSix(core: EngineCore, abortAtStep?: number) {
  const completions = new Map<number, Completion>();
  for (let id = 0; id < 6; id++)
    core.add(id, request(promptOf(id), { ...SAMPLING[id % 3], maxTokens: 60, numLogprobs: 2 }));
  for (let step = 0; core.hasWork; step++) {
    for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
    if (step === abortAtStep) core.abort(5);
  }
  if (abortAtStep !== undefined) completions.delete(5);
  for (const completion of completions.values()) completion.numCachedTokens = 0;
  return { completions, stats: core.stats() };
}
