/** Options that `distill` and `train-drafter` share. */
import type { Command } from "commander";
import type { TeachingOptions } from "../../distill/teaching.js";
import { addEngineOptions, type EngineFlags, engineSettingsFrom } from "./engine-options.js";
import { integerIn, numberIn, oneOf } from "./option-values.js";

export type TeachingFlags = EngineFlags & Omit<TeachingOptions, "engine" | "kvCacheDtype">;

const MANY = Number.MAX_SAFE_INTEGER;

export function addTeachingOptions(command: Command, defaultSteps: number): Command {
  command
    .requiredOption(
      "--prompts <file>",
      'JSON lines of {"messages"}, optionally with "family" and "check"; a final answer is left out',
    )
    .requiredOption("--out <folder>", "folder of answers, checkpoints, the trained file and the report")
    .option(
      "--holdout-share <share>",
      "share of the prompts held out of training, chosen by a hash of their text",
      numberIn("--holdout-share", 0, 1),
      0.1,
    )
    .option("--max-tokens <n>", "longest answer in tokens", integerIn("--max-tokens", 1, MANY), 1024)
    .option("--seed <n>", "seed of sampling and training", integerIn("--seed", 0, 2 ** 31 - 1), 1)
    .option("--steps <n>", "training steps", integerIn("--steps", 1, MANY), defaultSteps)
    .option("--init-from <gguf>", "file whose weights training starts from")
    .option(
      "--lr-scale <factor>",
      "factor on the usual learning rates; about 0.3 to continue trained weights",
      numberIn("--lr-scale", 0.001, 10),
      1,
    )
    .option("--device <name>", "device that trains: cpu or cuda", oneOf("--device", ["cpu", "cuda"]), "cpu");
  return addEngineOptions(command);
}

/** The flags, with the engine's settings replacing the engine's flags. */
export const teachingOptionsFrom = <Flags extends TeachingFlags>(flags: Flags) => ({
  ...flags,
  engine: engineSettingsFrom(flags),
});
