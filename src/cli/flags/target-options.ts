/** The flags of commands that ask a model questions: the model or server, and its settings. */
import type { Command } from "commander";
import type { EngineFlags } from "./engine-options.js";
import { modelOption } from "./model-option.js";
import { integerIn, listOf, numberIn } from "./option-values.js";
import { addServerOptions, type ServerFlags } from "./server-flags.js";

const MANY = Number.MAX_SAFE_INTEGER;

export interface TargetFlags extends EngineFlags, ServerFlags {
  readonly model?: string;
  readonly concurrency: number;
  readonly chatTemplate?: string;
  readonly tasks?: readonly string[];
  readonly temperature: number;
  readonly maxTokens: number;
}

/** @param tasks further values of `--tasks` */
export function addTargetOptions(command: Command, tasks = ""): Command {
  return addServerOptions(command.addOption(modelOption()), "its first")
    .option("--concurrency <n>", "requests at once to a server", integerIn("--concurrency", 1, 10_000), 8)
    .option("--chat-template <file>", "use this template instead of the model's own")
    .option(
      "--tasks <names>",
      `tasks${tasks}, separated by commas (default: all; an unknown name lists them)`,
      listOf("--tasks"),
    )
    .option("--temperature <t>", "0 = greedy", numberIn("--temperature", 0, 2), 0)
    .option("--max-tokens <n>", "longest answer in tokens", integerIn("--max-tokens", 1, MANY), 1024);
}
