/** `millrace eval --text-file`: perplexity over a text and, with --baseline, the difference in predictions. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { isOutlet, replaceFile } from "../../core/new-file.js";
import { readText } from "../../core/read-text.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import type { EvalSource, EvalTarget } from "../../lab/eval-target.js";
import type { ScoredText } from "../../lab/text-divergence.js";
import { engineSettingsFrom } from "../flags/engine-options.js";
import type { TargetFlags } from "../flags/target-options.js";
import { jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import { comparedTextRows, perplexityRows, tokensText } from "../output/text-divergence-text.js";

export interface TextFlags extends TargetFlags {
  readonly textFile: string;
  /** In tokens. */
  readonly window?: number;
  /** Largest number of windows. */
  readonly count: number;
  readonly seed: number;
  readonly baseline?: string;
  readonly out?: string;
  readonly json?: boolean;
}

export const USUAL_WINDOW = 512;
const FORMAT = "millrace-eval-text";

const runSchema = z.object({
  format: z.literal(FORMAT),
  model: z.object({ name: z.string() }),
  numTokens: z.int(),
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
  readonly text: ScoredText;
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
  const own = await scored(source, text, flags, startStage, signal);
  const { name, facts } = own;
  const { windows, numTokens } = own.text;
  const comparison = other && lab.compareTexts(other.text.windows, windows);
  const perplexity = lab.perplexityOf(windows);
  const report = {
    format: FORMAT,
    model: { name },
    ...facts,
    numTokens,
    perplexity,
    ...(other && { baseline: { name: other.name, ...other.facts }, comparison }),
    windows,
  };
  if (out !== undefined) {
    replaceFile(out, `${jsonText(report)}\n`);
    if (!isOutlet(out)) process.stderr.write(`written: ${out}\n`);
  }
  const table =
    comparison === undefined ? perplexityRows(perplexity, own.text) : comparedTextRows(comparison, own.text);
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
      text: await scoredText(target, text, flags, startStage, signal),
    };
  } finally {
    await target.close();
  }
}

async function scoredText(
  { name, texts }: EvalTarget,
  text: string,
  { window = USUAL_WINDOW, count }: TextFlags,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<ScoredText> {
  const { scoreText } = await import("../../lab/text-divergence.js");
  const stage = startStage(name);
  const tell = (numDone: number, numWindows: number): void => stage.update(`${numDone} of ${numWindows} windows`);
  const scored = await scoreText(await texts!(), text, { size: window, count }, tell, signal);
  stage.done(`${tokensText(scored)} in ${scored.windows.length} windows`);
  return scored;
}

function recorded(path: string): Scored {
  let value: unknown;
  try {
    value = JSON.parse(readText(path, "a run of millrace eval --text-file"));
  } catch (thrown) {
    if (thrown instanceof MillraceError) throw thrown;
    // Refused below, like JSON of another form.
  }
  const parsed = runSchema.safeParse(value);
  if (parsed.success) {
    const { model, numTokens, windows } = parsed.data;
    return { name: model.name, facts: { recorded: path }, text: { numTokens, windows } };
  }
  throw new MillraceError("invalid_option", `expected a run of eval --text-file in ${path}, got something else`, {
    hint: "write one: millrace eval --text-file text.txt --out before.json",
  });
}
