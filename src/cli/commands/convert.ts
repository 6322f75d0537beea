/**
 * `millrace convert`: writes a model as a GGUF file or as a Hugging Face folder, so that other engines run the same
 * weights.
 */
import { Command, Option } from "commander";
import { formatBytes } from "../../core/quantities.js";
import type { PlainType } from "../../formats/files/plain-values.js";
import { locateModel } from "../../formats/locate-model.js";
import { modelOption } from "../flags/model-option.js";
import { jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

interface ConvertFlags {
  readonly model?: string;
  readonly out: string;
  readonly dtype: keyof typeof TYPES;
  readonly json?: boolean;
}

const TYPES = { auto: undefined, float32: "F32", float16: "F16", bfloat16: "BF16" } as const satisfies Readonly<
  Record<string, PlainType | undefined>
>;

export function convertCommand(): Command {
  return new Command("convert")
    .description("Write a model as a GGUF file or as a Hugging Face folder, for other engines.")
    .addOption(modelOption())
    .requiredOption("--out <path>", "a name that ends in .gguf for a file, any other for a folder")
    .addOption(
      new Option("--dtype <type>", "type of the matrices; auto: the stored one, where it is one of these or NVFP4")
        .choices(Object.keys(TYPES))
        .default("auto"),
    )
    .option("--json", "as JSON")
    .action(runConvert);
}

async function runConvert(flags: ConvertFlags): Promise<void> {
  const startStage = stagesTo(process.stderr);
  const { path } = await locateModel(flags.model, startStage);
  const stage = startStage("convert");
  await untilStopped(async (signal) => {
    const { convertModel } = await import("../../convert/convert.js");
    const converted = await convertModel(
      { model: path, out: flags.out, type: TYPES[flags.dtype] },
      (numBytes, total) => stage.update(`${Math.floor((100 * numBytes) / total)} % of ${formatBytes(total)}`),
      (text) => stage.note(text),
      signal,
    );
    stage.done(`${formatBytes(converted.numBytes)} in ${converted.path}, matrices in ${converted.type}`);
    if (flags.json === true) process.stdout.write(jsonText(converted));
  }, "the unfinished copy is removed");
}
