/** Measures the divergence of a quantised copy's predictions from its original's. */
import { createBackend } from "../backend/create/create-backend.js";
import { type Divergence, divergenceOf, openScorer } from "../bench/engine/divergence.js";
import type { StartStage } from "../core/stages.js";
import { openModel } from "../model/open-model.js";

/** @param windows token ids of held-out texts */
export async function measureLoss(
  original: string,
  copy: string,
  windows: readonly (readonly number[])[],
  numThreads: number,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Divergence> {
  const stage = startStage("loss");
  const maxModelLen = windows.reduce((most, { length }) => Math.max(most, length), 0);
  const open = async (modelPath: string) => {
    const backend = createBackend({ numThreads });
    return { backend, core: await openScorer(openModel(modelPath), { modelPath, numThreads, maxModelLen }, backend) };
  };
  const [reference, tested] = [await open(original), await open(copy)];
  try {
    const loss = await divergenceOf(reference.core, tested.core, windows, (numTokens, meanKl) => {
      signal.throwIfAborted();
      stage.update(`${numTokens} tokens, KL divergence ${meanKl.toFixed(5)}`);
    });
    stage.done(`KL divergence ${loss.meanKl.toFixed(5)} over ${loss.numTokens} held-out tokens`);
    return loss;
  } finally {
    for (const { core, backend } of [reference, tested]) {
      await core.close();
      backend.destroy();
    }
  }
}
