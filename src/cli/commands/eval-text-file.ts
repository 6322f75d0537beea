/** `millrace eval --text-file`: perplexity over a text and, with --baseline, how much the predictions differ. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { isOutlet, replaceFile } from "../../core/new-file.js";
import { readText } from "../../core/read-text.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import type { EvalSource, EvalTarget } from "../../lab/eval-target.js";
import type { ScoredWindow } from "../../lab/text-divergence.js";
import { engineSettingsFrom } from "../flags/engine-options.js";
import type { TargetFlags } from "../flags/target-options.js";
import { jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { comparedTextRows, perplexityRows } from "../output/text-divergence-text.js";

export interface TextFlags extends TargetFlags {
  readonly textFile: string;
  readonly window: number;
  /** Of windows, at most. */
  readonly count: number;
  readonly seed: number;
  readonly baseline?: string;
  readonly out?: string;
  readonly json?: boolean;
}

const FORMAT = "millrace-eval-text";

const runSchema = z.object({
  format: z.literal(FORMAT),
  model: z.object({ name: z.string() }),
  windows: z.array(
    z
      .object({
        ids: z.array(z.int()).min(1),
        predictions: z.array(z.object({ logprob: z.number(), known: z.record(z.string(), z.number()) })),
      })
      .refine(({ ids, predictions }) => ids.length === predictions.length),
  ),
});

interface Scored {
  readonly name: string;
  readonly facts: object;
  readonly windows: readonly ScoredWindow[];
}

export async function runTextEval(flags: TextFlags, source: EvalSource, signal: AbortSignal): Promise<void> {
  const { baseline, textFile, out, json } = flags;
  const text = readText(textFile, "a text");
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const [{ sourceOf }, lab] = await Promise.all([
    import("../../lab/eval-target.js"),
    import("../../lab/text-divergence.js"),
  ]);
  const other = baseline === undefined ? undefined : await scored(sourceOf(baseline), text, flags, startStage, signal);
  const { name, facts, windows } = await scored(source, text, flags, startStage, signal);
  const comparison = other && lab.compareTexts(other.windows, windows);
  const perplexity = lab.perplexityOf(windows);
  const report = {
    format: FORMAT,
    model: { name },
    ...facts,
    perplexity,
    ...(other && { baseline: { name: other.name, ...other.facts }, comparison }),
    windows,
  };
  if (out !== undefined) {
    replaceFile(out, `${jsonText(report)}\n`);
    if (!isOutlet(out)) process.stderr.write(`written: ${out}\n`);
  }
  const table = comparison === undefined ? perplexityRows(perplexity, windows.length) : comparedTextRows(comparison);
  process.stdout.write(`${json ? jsonText(report) : table}\n`);
}

/** The model is closed before the next one is opened, since each may take most of the memory. */
async function scored(
  source: EvalSource,
  text: string,
  flags: TextFlags,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Scored> {
  if (source.kind === "recorded") return recorded(source.path);
  const { openEvalTarget } = await import("../../lab/eval-target.js");
  const settings = { ...flags, engine: engineSettingsFrom(flags) };
  const target = await openEvalTarget(source, settings, startStage, signal);
  try {
    return {
      name: target.name,
      facts: target.facts,
      windows: await windowsOf(target, text, flags, startStage, signal),
    };
  } finally {
    await target.close();
  }
}

async function windowsOf(
  { name, texts }: EvalTarget,
  text: string,
  { window, count }: TextFlags,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<ScoredWindow[]> {
  const { scoreText } = await import("../../lab/text-divergence.js");
  const stage = startStage(name);
  const tell = (numDone: number, numWindows: number): void => stage.update(`${numDone} of ${numWindows} windows`);
  const windows = await scoreText(await texts!(), text, { size: window, count }, tell, signal);
  stage.done(`${windows.reduce((sum, { ids }) => sum + ids.length, 0)} tokens in ${windows.length} windows`);
  return windows;
}

function recorded(path: string): Scored {
  let value: unknown;
  try {
    value = JSON.parse(readText(path, "a run of millrace eval --text-file"));
  } catch (thrown) {
    if (thrown instanceof MillraceError) throw thrown;
    // Refused below, together with JSON of another shape.
  }
  const parsed = runSchema.safeParse(value);
  if (parsed.success) return { name: parsed.data.model.name, facts: { recorded: path }, windows: parsed.data.windows };
  throw new MillraceError("invalid_option", `expected a run of eval --text-file in ${path}, got something else`, {
    hint: "write one: millrace eval --text-file text.txt --out before.json",
  });
}
