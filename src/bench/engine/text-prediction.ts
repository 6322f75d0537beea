/** Distinguishes trained weights from random ones, for which drafts and quality mean nothing. */
import { createBackend } from "../../backend/create/create-backend.js";
import type { StartStage } from "../../core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../engine/api/options.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { EngineCore } from "../../engine/engine-core.js";
import { logSoftmax } from "../../engine/log-softmax.js";
import { openModel } from "../../model/open-model.js";
import { loadTextSide } from "../../text/text-side.js";
import { prose } from "../workload/prose.js";
import { Random } from "../workload/random.js";

const NUM_TOKENS = 128;
/** A trained model is far more certain of the next token than an even choice among all tokens. */
const NOISE_SHARE = 0.9;

/** Whether the model predicts the next token of ordinary text better than chance. */
export async function predictsText(modelPath: string, numThreads: number, startStage: StartStage): Promise<boolean> {
  const stage = startStage("weights");
  const { tokenizer } = await loadTextSide(modelPath);
  const ids = tokenizer
    .encode(prose(new Random(0), NUM_TOKENS), { addSpecial: true, parseSpecial: false })
    .slice(0, NUM_TOKENS);
  const backend = createBackend({ numThreads });
  const shape = { modelPath, numThreads, maxModelLen: NUM_TOKENS, maxNumSeqs: 1, speculative: NO_SPECULATION };
  const core = await EngineCore.create(openModel(modelPath), { ...DEFAULT_ENGINE_OPTIONS, ...shape }, backend);
  let nll = 0;
  let evenNll = 0;
  let position = 0;
  try {
    await core.textLogits(ids, (logits) => {
      const next = ids[++position];
      if (next !== undefined) nll -= logSoftmax(logits)[next]!;
      if (next !== undefined) evenNll += Math.log(logits.length);
    });
  } finally {
    await core.close();
    backend.destroy();
  }
  const isTrained = nll < NOISE_SHARE * evenNll;
  const perplexity = Math.exp(nll / (position - 1)).toPrecision(3);
  stage.done(
    isTrained
      ? `predict text (perplexity ${perplexity})`
      : `predict no text (perplexity ${perplexity}): speculation is left out, because its gain would mean nothing`,
  );
  return isTrained;
}
