/** The sampling of a model in this process: a caller's choice, then the model's own defaults, then the API's. */
import { randomBytes } from "node:crypto";
import type { SamplingParams } from "../engine/api/request.js";
import { readHfSampling, type SamplingDefaults } from "../formats/sampling-defaults.js";
import { defaultsBeside, samplersOf } from "../serve/openai/llama-samplers.js";

/** The source of sampling defaults. */
export interface SamplingSource {
  /** auto: the model's files; none: the API's defaults; a folder: its generation_config.json. Absent: none. */
  readonly generationConfig?: "auto" | "none" | { readonly folder: string };
  readonly overrideGenerationConfig?: SamplingDefaults;
}

/** @param ofModel called only if needed: a model with broken defaults can be served without them */
export function samplingDefaultsFor(source: SamplingSource, ofModel: () => SamplingDefaults): SamplingDefaults {
  const { generationConfig: from = "none", overrideGenerationConfig: override } = source;
  const own = from === "auto" ? ofModel() : from === "none" ? {} : readHfSampling(from.folder);
  return { ...own, ...override };
}

/** A caller's sampling; absent values are left to the defaults. */
export interface SamplingChoice {
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly seed?: bigint;
  readonly stop?: readonly string[];
}

/**
 * @param defaults for values that the choice lacks
 * @param tokensLeft output tokens that fit after the prompt
 */
export function samplingFrom(
  choice: SamplingChoice,
  defaults: SamplingDefaults,
  tokensLeft: number,
  stopTokenIds: readonly number[],
): SamplingParams {
  const topP = choice.topP ?? defaults.top_p ?? 1;
  // A nucleus of no mass still contains the likeliest token.
  const isTopOnly = topP === 0;
  return {
    temperature: choice.temperature ?? defaults.temperature ?? 1,
    topK: isTopOnly ? 1 : Math.max(choice.topK ?? defaults.top_k ?? 0, 0),
    topP: isTopOnly ? 1 : topP,
    minP: choice.minP ?? defaults.min_p ?? 0,
    presencePenalty: defaults.presence_penalty ?? 0,
    frequencyPenalty: defaults.frequency_penalty ?? 0,
    repetitionPenalty: defaults.repetition_penalty ?? 1,
    ...samplersOf(defaultsBeside(choice.temperature, defaults)),
    seed: choice.seed ?? randomBytes(8).readBigUInt64LE(),
    maxTokens: Math.min(choice.maxTokens ?? tokensLeft, tokensLeft),
    minTokens: 0,
    stopTokenIds,
    logitBias: [],
    numLogprobs: undefined,
    numPromptLogprobs: undefined,
  };
}
