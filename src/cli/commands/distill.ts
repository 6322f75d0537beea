/** `millrace distill`: teaches a small model a large one's answers to the user's own prompts, and compares the two. */
import { Command, Option } from "commander";
import type { DistillOptions } from "../../distill/distil-inputs.js";
import { integerIn, numberIn, oneOf } from "../flags/option-values.js";
import { addTeachingOptions, type TeachingFlags, teachingOptionsFrom } from "../flags/teaching-options.js";
import { formatTable } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

type DistillFlags = TeachingFlags & Omit<DistillOptions, "engine" | "kvCacheDtype">;

const DEFAULT_STEPS = 1000;

export function distillCommand(): Command {
  const command = new Command("distill")
    .description(
      "Teach a small model a large one's answers to your prompts, and compare both on held-out prompts. An interrupted run resumes.",
    )
    .requiredOption("--teacher <model|url>", "model as for --model, or URL of an OpenAI-compatible server")
    .option("--teacher-model <name>", "name of the teacher on that server (default: the first in its list)")
    .addOption(new Option("--api-key <key>", "API key for that server").env("OPENAI_API_KEY"))
    .option("--concurrency <n>", "requests at once to that server", integerIn("--concurrency", 1, 10_000), 8)
    .option(
      "--student <model>",
      "student of any family that the engine runs: a folder of safetensors, or hf:org/repo (default: one of the mill family)",
    )
    .addOption(
      new Option("--train-method <name>", "of --student: lora trains an adapter, full all weights")
        .choices(["lora", "full"])
        .default("lora"),
    )
    .option("--rank <n>", "of the adapter of --student", integerIn("--rank", 1, 1024), 16)
    .option(
      "--max-length <n>",
      "longest chat that --student is trained on, in tokens (default: its context)",
      integerIn("--max-length", 2, 1 << 30),
    )
    .option(
      "--student-config <name>",
      "tiny: 2 layers of width 128, small: 3 layers (default: small, or the shape of --init-from)",
      oneOf("--student-config", ["tiny", "small"]),
    )
    .addOption(
      new Option("--student-type <type>", "type of the student's weights: f16, or q8_0, which is smaller and faster")
        .choices(["f16", "q8_0"])
        .default("f16"),
    )
    .option("--task <family>", "judge answers by the checks of this family's prompts")
    .option(
      "--scorer <command>",
      "command that judges answers: reads JSON lines {prompt, answer}, writes a score from 0 to 1 for each",
    )
    .option(
      "--tokenizer-from <gguf>",
      "model of the mill family whose tokenizer the student uses (default: the teacher)",
    )
    .option(
      "--temperature <t>",
      "temperature of the teacher and the student; 0 = greedy",
      numberIn("--temperature", 0, 2),
      0,
    )
    .option("--no-train", "only collect the answers, with files, or the recipe of --student, for training elsewhere")
    .option("--chat-template <file>", "use this template instead of the teacher's own");
  return addTeachingOptions(command, DEFAULT_STEPS).action((flags: DistillFlags) =>
    untilStopped((signal) => runDistill(flags, signal)),
  );
}

async function runDistill(flags: DistillFlags, signal: AbortSignal): Promise<void> {
  const [{ distil }, { findings, reportRows }] = await Promise.all([
    import("../../distill/distil.js"),
    import("../../distill/report.js"),
  ]);
  const telling = {
    startStage: stagesTo(process.stderr),
    say: (line: string) => void process.stderr.write(`${line}\n`),
  };
  const report = await distil(teachingOptionsFrom(flags), telling, signal);
  if (report === undefined) return;
  const table = formatTable([["", "teacher", "student"], ...reportRows(report)]);
  process.stdout.write(`${table}\n\n${findings(report).join("\n")}\n`);
}
