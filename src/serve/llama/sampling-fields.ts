/** Sampling fields under llama.cpp's names, shared by its server's and Ollama's APIs. */
import type { z } from "zod";
import { type ChoiceSeeds, type SeedSource, seedOf } from "../generation/seeds.js";
import { integerIn, llamaSamplersShape, type SamplingFields, samplingShape } from "../openai/schema-parts.js";

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
  ...llamaSamplersShape,
} as const;

type LlamaSampling = z.output<z.ZodObject<typeof llamaSamplingShape>>;

/** Fields with the same name and meaning in OpenAI's requests. */
type Shared = Exclude<keyof LlamaSampling, "seed" | "repeat_penalty">;
const SHARED = Object.keys(llamaSamplingShape).filter((name): name is Shared => !/^(seed|repeat_penalty)$/.test(name));

/** The fields of `llamaSamplingShape` except the seed, in the form of OpenAI's requests. */
export function samplingFieldsOf(fields: LlamaSampling): SamplingFields {
  const shared = Object.fromEntries(SHARED.map((name) => [name, fields[name]])) as Pick<SamplingFields, Shared>;
  return { ...shared, repetition_penalty: fields.repeat_penalty };
}

/** llama.cpp's default for a drawn seed, and its unsigned form. */
const DRAWN: readonly (number | undefined)[] = [undefined, -1, 2 ** 32 - 1];

/**
 * Prompts share a client's seed, but each has its own drawn seed. A drawn seed has 32 bits, so that an answer can state
 * it in its settings and a client can send it back.
 */
export const llamaSeeds =
  (seed: number | undefined, draw: SeedSource): ChoiceSeeds =>
  () =>
    DRAWN.includes(seed) ? BigInt.asUintN(32, draw()) : seedOf(seed, draw);
