/**
 * `--generation-config` and `--override-generation-config`, named as in vLLM: defaults for requests without sampling
 * fields.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import {
  GENERATION_CONFIG_NAME,
  SAMPLING_FIELDS,
  type SamplingDefaults,
  type SamplingField,
  samplingComplaint,
} from "../../formats/sampling-defaults.js";
import type { SamplingSource } from "../../local/sampling.js";
import { jsonObject } from "./option-values.js";

const FLAG = "--override-generation-config";

export function addGenerationConfigOptions(command: Command, group: string): Command {
  return command
    .addOption(
      new Option(
        "--generation-config <from>",
        "sampling defaults: auto = from the model's files, none (or vllm) = the API's, or a folder with generation_config.json",
      )
        .argParser(parseSource)
        .default("auto")
        .helpGroup(group),
    )
    .addOption(
      new Option(`${FLAG} <json>`, 'sampling defaults that replace the model\'s, such as {"temperature":0.5}')
        .argParser(parseOverride)
        .helpGroup(group),
    );
}

function parseSource(text: string): SamplingSource["generationConfig"] {
  if (text === "auto") return "auto";
  if (text === "none" || text === "vllm") return "none";
  if (existsSync(join(text, GENERATION_CONFIG_NAME))) return { folder: text };
  throw optionError("--generation-config", `auto, none, or a folder with ${GENERATION_CONFIG_NAME}`, text);
}

function isField(name: string): name is SamplingField {
  return SAMPLING_FIELDS.some((field) => field === name);
}

function parseOverride(text: string): SamplingDefaults {
  const value = jsonObject(FLAG)(text);
  for (const [name, one] of Object.entries(value)) {
    if (!isField(name)) {
      throw new MillraceError("invalid_option", `expected ${FLAG} to name ${SAMPLING_FIELDS.join(", ")}, got ${name}`, {
        hint: "only these have defaults; requests bring others (DRY, seeds, lengths) themselves",
      });
    }
    const expected = samplingComplaint(name, one);
    if (expected !== undefined) throw optionError(`${name} in ${FLAG}`, expected, JSON.stringify(one));
  }
  return value as SamplingDefaults;
}
