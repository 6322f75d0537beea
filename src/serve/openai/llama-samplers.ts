/** Turns the fields of llama.cpp's samplers into the engine's settings. */
import type { z } from "zod";
import { type DryBreaker, type DryPenalty, GREEDY_TEMPERATURE, type SamplingParams } from "../../engine/api/request.js";
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import { dryBreakersOf } from "../../text/dry-breakers.js";
import type { PromptContext } from "../http/context.js";
import type { llamaSamplersShape } from "./schema-parts.js";

type LlamaSamplers = z.output<z.ZodObject<typeof llamaSamplersShape>>;

/** llama.cpp's defaults. */
export const DRY_BASE = 1.75;
export const DRY_ALLOWED_LENGTH = 2;
const DRY_BREAKERS = ["\n", ":", '"', "*"];
export const XTC_THRESHOLD = 0.1;

/** −1: any number. */
const windowOf = (lastN = -1): number | undefined => (lastN < 0 ? undefined : lastN);

type Samplers = Pick<SamplingParams, "penaltyWindow" | "topNSigma" | "typicalP" | "xtc" | "dynamicTemperature">;

/** Samplers that are off are left out. */
export function samplersOf(fields: LlamaSamplers): Samplers {
  const { top_n_sigma: sigma = 0, typical_p: typical = 1, xtc_probability: probability = 0 } = fields;
  const { xtc_threshold: threshold = XTC_THRESHOLD } = fields;
  const { dynatemp_range: range = 0, dynatemp_exponent: exponent = 1 } = fields;
  return {
    penaltyWindow: windowOf(fields.repeat_last_n),
    topNSigma: sigma > 0 ? sigma : undefined,
    typicalP: typical < 1 ? typical : undefined,
    xtc: probability > 0 ? { probability, threshold } : undefined,
    dynamicTemperature: range > 0 ? { range, exponent } : undefined,
  };
}

/**
 * The defaults that apply with a request's temperature. XTC and dynamic temperature draw even at temperature 0, where
 * clients want the likeliest tokens and caches count on them, so only the request itself can turn these two on.
 */
export function defaultsBeside(temperature: number | undefined, defaults: SamplingDefaults): SamplingDefaults {
  if (temperature === undefined || temperature >= GREEDY_TEMPERATURE) return defaults;
  const { xtc_probability: _, dynatemp_range: __, ...rest } = defaults;
  return rest;
}

/** Undefined: DRY is off. */
export async function dryPenaltyOf(
  { tokenizer, asyncTokenizer, engine }: PromptContext,
  fields: LlamaSamplers,
): Promise<DryPenalty | undefined> {
  const { dry_multiplier: multiplier = 0, dry_penalty_last_n: lastN } = fields;
  if (multiplier === 0 || lastN === 0) return undefined;
  const texts = fields.dry_sequence_breakers ?? DRY_BREAKERS;
  const breakers = await dryBreakersOf(tokenizer, asyncTokenizer, texts);
  return {
    multiplier,
    base: fields.dry_base ?? DRY_BASE,
    allowedLength: fields.dry_allowed_length ?? DRY_ALLOWED_LENGTH,
    window: windowOf(lastN),
    breakers: byTail(breakers, engine.info.vocabSize),
  };
}

/** One breaker per tail, since texts have many tokens in common. A tokenizer may have more tokens than the model. */
function byTail(breakers: readonly DryBreaker[], vocabSize: number): readonly DryBreaker[] {
  const found = new Map<string, DryBreaker[]>();
  for (const breaker of breakers) {
    if (breaker.tail.some((id) => id >= vocabSize)) continue;
    const key = breaker.tail.join();
    const alike = found.get(key);
    if (alike === undefined) found.set(key, [breaker]);
    else alike.push(breaker);
  }
  const merged = Array.from(found.values(), (alike) => ({ heads: allHeads(alike, vocabSize), tail: alike[0]!.tail }));
  return merged.filter(({ heads }) => heads.length > 0);
}

/** Ascending, and in memory that the engine's thread shares: otherwise each choice of a request would copy it. */
function allHeads(breakers: readonly DryBreaker[], vocabSize: number): Int32Array {
  const isHead = new Uint8Array(vocabSize);
  let numHeads = 0;
  for (const { heads } of breakers) {
    for (const id of heads) {
      if (id >= vocabSize || isHead[id] === 1) continue;
      isHead[id] = 1;
      numHeads++;
    }
  }
  const all = new Int32Array(new SharedArrayBuffer(numHeads * Int32Array.BYTES_PER_ELEMENT));
  let id = -1;
  for (let i = 0; i < numHeads; i++) {
    id = isHead.indexOf(1, id + 1);
    all[i] = id;
  }
  return all;
}
