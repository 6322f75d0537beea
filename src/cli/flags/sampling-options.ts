/** Sampling flags of `generate` and `chat`, with the names and defaults of the HTTP API's fields. */
import { type Command, Option } from "commander";
import type { SamplingDefaults } from "../../formats/sampling-defaults.js";
import type { SamplingChoice } from "../../local/sampling.js";
import { addGenerationConfigOptions } from "./generation-config.js";
import { integerIn, numberIn, seedValue } from "./option-values.js";

export function addSamplingOptions(command: Command): Command {
  const option = <T>(flags: string, description: string, parse: (text: string) => T, defaultValue?: T): Option => {
    const made = new Option(flags, description).argParser(parse).helpGroup("Sampling:");
    return defaultValue === undefined ? made : made.default(defaultValue);
  };
  const asModelSays = "the model's";
  const most = Number.MAX_SAFE_INTEGER;
  command
    .addOption(
      option(
        "--max-tokens <n>",
        "most output tokens (default: the rest of the context)",
        integerIn("--max-tokens", 1, most),
      ),
    )
    .addOption(
      option("--temperature <t>", `0 = greedy (default: ${asModelSays}, else 1)`, numberIn("--temperature", 0, 2)),
    )
    .addOption(option("--top-p <p>", `1 = off (default: ${asModelSays})`, numberIn("--top-p", Number.MIN_VALUE, 1)))
    .addOption(option("--top-k <k>", `0 = off (default: ${asModelSays})`, integerIn("--top-k", 0, most)))
    .addOption(option("--min-p <p>", `0 = off (default: ${asModelSays})`, numberIn("--min-p", 0, 1)))
    .addOption(option("--seed <n>", "seed: the same seed gives the same text (default: random)", seedValue("--seed")))
    .addOption(
      new Option("--stop <text>", "text that ends the output before it; repeatable")
        .argParser(collect)
        .helpGroup("Sampling:"),
    );
  return addGenerationConfigOptions(command, "Sampling:");
}

/** The flags' values, under the names of sampling defaults. */
export function chosenSampling({ temperature, topP, topK, minP }: SamplingChoice): SamplingDefaults {
  const all = { temperature, top_p: topP, top_k: topK, min_p: minP };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** A stop text may contain commas, so a list needs repeated flags. */
function collect(text: string, previous: readonly string[] | undefined): readonly string[] {
  return [...(previous ?? []), text];
}
