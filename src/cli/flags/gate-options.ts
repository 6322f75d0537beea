/** Options of the commands that compare a model's answers to `--evals` with those of the model that it replaces. */
import type { Command } from "commander";
import { integerIn, numberIn } from "./option-values.js";

export function addGateOptions(command: Command): Command {
  return command
    .option("--count <n>", "items of each task in --evals", integerIn("--count", 1, 1_000_000), 1000)
    .option(
      "--max-drop <points>",
      "largest drop of right answers, in points",
      numberIn("--max-drop", 0.1, 100, "points"),
      2,
    )
    .option("--max-tokens <n>", "longest answer to --evals in tokens", integerIn("--max-tokens", 1, 1 << 30), 512);
}
