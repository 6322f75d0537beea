/**
 * `millrace train-drafter`: trains a draft model, or heads, on a model's own answers, and reports the acceptance of
 * drafts.
 */
import { Command } from "commander";
import type { DrafterOptions } from "../../distill/drafter.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, oneOf } from "../flags/option-values.js";
import { addTeachingOptions, type TeachingFlags, teachingOptionsFrom } from "../flags/teaching-options.js";
import { formatTable } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

type DrafterFlags = TeachingFlags & Omit<DrafterOptions, "engine" | "kvCacheDtype">;

const DEFAULT_STEPS = 1000;

export function trainDrafterCommand(): Command {
  const command = new Command("train-drafter")
    .description(
      "Train a draft model, or heads, on a model's own answers to your prompts, and report acceptance by position. An interrupted run resumes.",
    )
    .addOption(modelOption())
    .option(
      "--kind <kind>",
      "draft: a small model; medusa, eagle: heads on the model's hidden states; eagle3: a head in the hub's format, for a model of any family",
      oneOf("--kind", ["draft", "medusa", "eagle", "eagle3"]),
      "draft",
    )
    .option("--depth <n>", "tokens guessed ahead", integerIn("--depth", 1, 16), 4)
    .option(
      "--width <n>",
      "width of an eagle layer (default: the model's); a narrower layer has its own output matrix, and is more than twice as fast for a small model",
      integerIn("--width", 1, 65_536),
    );
  return addTeachingOptions(command, DEFAULT_STEPS).action((flags: DrafterFlags) =>
    untilStopped((signal) => runTrainDrafter(flags, signal)),
  );
}

async function runTrainDrafter(flags: DrafterFlags, signal: AbortSignal): Promise<void> {
  const { acceptedShares, drafterNotes, trainDrafter } = await import("../../distill/drafter.js");
  const fitted = await trainDrafter(teachingOptionsFrom(flags), stagesTo(process.stderr), signal);
  const shown = acceptedShares(fitted.acceptance);
  const table = formatTable([
    ["position", ...shown.map((_, i) => String(i + 1))],
    ["accepted", ...shown],
  ]);
  process.stdout.write(`${table}\n\n${drafterNotes(flags, fitted).join("\n")}\n`);
}
