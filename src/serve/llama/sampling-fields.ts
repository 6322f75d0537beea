/** Sampling fields under llama.cpp's names, which its server and Ollama's API share. */
import { type ChoiceSeeds, type SeedSource, seedOf } from "../generation/seeds.js";
import { integerIn, type SamplingFields, samplingShape } from "../openai/schema-parts.js";

export const MAX_INT = 2 ** 31 - 1;

export const llamaSamplingShape = {
  temperature: samplingShape.temperature,
  top_k: integerIn(-1, MAX_INT).optional(),
  top_p: samplingShape.top_p,
  min_p: samplingShape.min_p,
  seed: samplingShape.seed,
  stop: samplingShape.stop,
  repeat_penalty: samplingShape.repetition_penalty,
  presence_penalty: samplingShape.presence_penalty,
  frequency_penalty: samplingShape.frequency_penalty,
} as const;

type Shared = "temperature" | "top_k" | "top_p" | "min_p" | "stop" | "presence_penalty" | "frequency_penalty";

interface LlamaSampling extends Pick<SamplingFields, Shared> {
  readonly repeat_penalty?: number | undefined;
}

/** The fields of `llamaSamplingShape`, but for the seed, as OpenAI's requests have them. */
export function samplingFieldsOf(fields: LlamaSampling): SamplingFields {
  const { temperature, top_k, top_p, min_p, stop, presence_penalty, frequency_penalty, repeat_penalty } = fields;
  const penalties = { presence_penalty, frequency_penalty, repetition_penalty: repeat_penalty };
  return { temperature, top_k, top_p, min_p, stop, ...penalties };
}

/** llama.cpp's default, which asks for a drawn seed, and its unsigned form. */
const DRAWN: readonly (number | undefined)[] = [undefined, -1, 2 ** 32 - 1];

/**
 * Prompts share the seed that a client gives, and each has its own where one is drawn. A drawn seed has 32 bits, so
 * that an answer can say it in its settings and a client can send it back.
 */
export const llamaSeeds =
  (seed: number | undefined, draw: SeedSource): ChoiceSeeds =>
  () =>
    DRAWN.includes(seed) ? BigInt.asUintN(32, draw()) : seedOf(seed, draw);
