/** Sampling flags of `generate` and `chat`, named and defaulted like the fields of the HTTP API. */
import { randomBytes } from "node:crypto";
import { type Command, Option } from "commander";
import type { SamplingParams } from "../engine/api/request.js";
import type { SamplingDefaults } from "../formats/sampling-defaults.js";
import { addGenerationConfigOptions } from "./generation-config.js";
import { integerIn, numberIn, seedValue } from "./option-values.js";

export interface SamplingFlags {
  readonly maxTokens?: number;
  readonly temperature?: number;
  readonly topP?: number;
  readonly topK?: number;
  readonly minP?: number;
  readonly seed?: bigint;
  readonly stop?: readonly string[];
}

export function addSamplingOptions(command: Command): Command {
  const option = <T>(flags: string, description: string, parse: (text: string) => T, defaultValue?: T): Option => {
    const made = new Option(flags, description).argParser(parse).helpGroup("Sampling:");
    return defaultValue === undefined ? made : made.default(defaultValue);
  };
  const asModelSays = "as the model says";
  const most = Number.MAX_SAFE_INTEGER;
  command
    .addOption(
      option("--max-tokens <n>", "output tokens at most (default: the context)", integerIn("--max-tokens", 1, most)),
    )
    .addOption(
      option(
        "--temperature <t>",
        `0 = always the likeliest token (default: ${asModelSays}, else 1)`,
        numberIn("--temperature", 0, 100),
      ),
    )
    .addOption(option("--top-p <p>", `1 = off (default: ${asModelSays})`, numberIn("--top-p", Number.MIN_VALUE, 1)))
    .addOption(option("--top-k <k>", `0 = off (default: ${asModelSays})`, integerIn("--top-k", 0, most)))
    .addOption(option("--min-p <p>", `0 = off (default: ${asModelSays})`, numberIn("--min-p", 0, 1)))
    .addOption(option("--seed <n>", "same seed, same text (default: drawn)", seedValue("--seed")))
    .addOption(
      new Option("--stop <text>", "end before this text; repeatable").argParser(collect).helpGroup("Sampling:"),
    );
  return addGenerationConfigOptions(command, "Sampling:");
}

/** What flags say, under the names that defaults have. */
export function chosenSampling({ temperature, topP, topK, minP }: SamplingFlags): SamplingDefaults {
  const all = { temperature, top_p: topP, top_k: topK, min_p: minP };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** Stop texts may hold commas, so only repetition makes a list. */
function collect(text: string, previous: readonly string[] | undefined): readonly string[] {
  return [...(previous ?? []), text];
}

/**
 * @param defaults what holds where no flag says otherwise
 * @param tokensLeft output tokens that still fit behind the prompt
 */
export function samplingFrom(
  flags: SamplingFlags,
  defaults: SamplingDefaults,
  tokensLeft: number,
  stopTokenIds: readonly number[],
): SamplingParams {
  const topP = flags.topP ?? defaults.top_p ?? 1;
  // A nucleus of no mass still holds the likeliest token.
  const isTopOnly = topP === 0;
  return {
    temperature: flags.temperature ?? defaults.temperature ?? 1,
    topK: isTopOnly ? 1 : Math.max(flags.topK ?? defaults.top_k ?? 0, 0),
    topP: isTopOnly ? 1 : topP,
    minP: flags.minP ?? defaults.min_p ?? 0,
    presencePenalty: 0,
    frequencyPenalty: 0,
    repetitionPenalty: defaults.repetition_penalty ?? 1,
    seed: flags.seed ?? randomBytes(8).readBigUInt64LE(),
    maxTokens: Math.min(flags.maxTokens ?? tokensLeft, tokensLeft),
    minTokens: 0,
    stopTokenIds,
    logitBias: [],
    numLogprobs: undefined,
    numPromptLogprobs: undefined,
  };
}
