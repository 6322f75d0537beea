/** Sampling flags of `generate` and `chat`, named and defaulted like the fields of the HTTP API. */
import { randomBytes } from "node:crypto";
import { type Command, Option } from "commander";
import type { SamplingParams } from "../engine/api.js";
import { integerIn, numberIn, seedValue } from "./option-values.js";

export interface SamplingFlags {
  readonly maxTokens?: number;
  readonly temperature: number;
  readonly topP: number;
  readonly topK: number;
  readonly minP: number;
  readonly seed?: bigint;
  readonly stop?: readonly string[];
}

export function addSamplingOptions(command: Command): Command {
  const option = <T>(flags: string, description: string, parse: (text: string) => T, defaultValue?: T): Option => {
    const made = new Option(flags, description).argParser(parse).helpGroup("Sampling:");
    return defaultValue === undefined ? made : made.default(defaultValue);
  };
  const most = Number.MAX_SAFE_INTEGER;
  return command
    .addOption(
      option("--max-tokens <n>", "output tokens at most (default: the context)", integerIn("--max-tokens", 1, most)),
    )
    .addOption(option("--temperature <t>", "0 = always the likeliest token", numberIn("--temperature", 0, 100), 1))
    .addOption(option("--top-p <p>", "1 = off", numberIn("--top-p", Number.MIN_VALUE, 1), 1))
    .addOption(option("--top-k <k>", "0 = off", integerIn("--top-k", 0, most), 0))
    .addOption(option("--min-p <p>", "0 = off", numberIn("--min-p", 0, 1), 0))
    .addOption(option("--seed <n>", "same seed, same text (default: drawn)", seedValue("--seed")))
    .addOption(
      new Option("--stop <text>", "end before this text; repeatable").argParser(collect).helpGroup("Sampling:"),
    );
}

/** Stop texts may hold commas, so only repetition makes a list. */
function collect(text: string, previous: readonly string[] | undefined): readonly string[] {
  return [...(previous ?? []), text];
}

/** @param room output tokens that still fit behind the prompt */
export function samplingFrom(flags: SamplingFlags, room: number, stopTokenIds: readonly number[]): SamplingParams {
  return {
    temperature: flags.temperature,
    topK: flags.topK,
    topP: flags.topP,
    minP: flags.minP,
    presencePenalty: 0,
    frequencyPenalty: 0,
    repetitionPenalty: 1,
    seed: flags.seed ?? randomBytes(8).readBigUInt64LE(),
    maxTokens: Math.min(flags.maxTokens ?? room, room),
    minTokens: 0,
    stopTokenIds,
    logitBias: [],
    numLogprobs: undefined,
    numPromptLogprobs: undefined,
  };
}
