/** A model in this process that scores and continues texts, for tasks of lm-evaluation-harness. */
import { MillraceError } from "../core/errors.js";
import type { LocalSession } from "../local/session.js";
import { allGreedy, type TextModel } from "../quality/harness/text-model.js";
import { promptLogprobs } from "./prompt-logprobs.js";

/** Throws invalid_option for a model whose vocabulary has no token that begins or ends texts. */
export function localTexts({ name, engine, tokenizer, answer }: LocalSession, seed: number): TextModel {
  const { maxModelLen, numKvBlocks, blockSize } = engine.info;
  const prefixId = tokenizer.bosId ?? tokenizer.eosId;
  if (prefixId === undefined) {
    throw new MillraceError("invalid_option", `expected a model with a token that begins or ends texts, got ${name}`);
  }
  return {
    maxLength: Math.min(maxModelLen, numKvBlocks * blockSize),
    prefixId,
    encode: async (text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true }),
    score: async (ids, numContext, signal) => {
      const scores = (await promptLogprobs(engine, Int32Array.from(ids), 1, signal)).slice(numContext);
      return allGreedy(scores.map((score) => ({ logprob: score!.logprob, best: score!.top[0]!.logprob })));
    },
    predict: async (ids, numTop, signal) => {
      const scores = (await promptLogprobs(engine, Int32Array.from(ids), numTop, signal)).slice(1);
      return scores.map((score) => {
        const { tokenId, logprob, top } = score!;
        const likeliest = top.map((each) => [each.tokenId, each.logprob] as const);
        return { logprob, known: Object.fromEntries([...likeliest, [tokenId, logprob] as const]) };
      });
    },
    continue: async (ids, how, signal) => {
      const own = { ...how, seed: BigInt(seed) };
      const { text, end, numPromptTokens, numOutputTokens } = await answer(ids, () => {}, signal, own);
      if (end === "cancelled") throw signal.reason;
      return { text, end, numPromptTokens, numOutputTokens };
    },
  };
}
