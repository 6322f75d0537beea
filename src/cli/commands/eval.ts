/**
 * `millrace eval`: lets a model answer chats, many at once, scores the last answers, and compares them with another
 * model's.
 */
import { Command, Option } from "commander";
import { assertReplaceable, isOutlet, replaceFile } from "../../core/new-file.js";
import { optionError } from "../../core/option-error.js";
import { type StartStage, silentStages } from "../../core/stages.js";
import type { EvalSource, EvalTarget } from "../../lab/eval-target.js";
import type { Label } from "../../quality/judge/labels.js";
import type { TaskResult } from "../../quality/run-task.js";
import type { EvalTask } from "../../quality/tasks.js";
import { addEngineOptions, engineSettingsFrom } from "../flags/engine-options.js";
import {
  addJudgeOptions,
  checkComparable,
  checkJudgeFlags,
  type JudgeFlags,
  openJudgeFrom,
} from "../flags/judge-options.js";
import { integerIn, numberIn } from "../flags/option-values.js";
import { addTargetOptions, type TargetFlags } from "../flags/target-options.js";
import { comparisonText, tasksTable } from "../output/eval-text.js";
import { jsonText } from "../output/format.js";
import { judgeText } from "../output/judge-text.js";
import { stagesTo } from "../output/stages.js";
import { untilStopped } from "../process/stop-signal.js";

interface EvalFlags extends TargetFlags, JudgeFlags {
  readonly count: number;
  readonly seed: number;
  readonly chats?: string;
  readonly textFile?: string;
  readonly window?: number;
  readonly out?: string;
  readonly json?: boolean;
}

/** The bundled models' training uses chats of other seeds. */
const HELD_OUT_SEED = 1_000_001;
const MANY = Number.MAX_SAFE_INTEGER;
const USUAL_MAX_DROP = 2;

export function evalCommand(): Command {
  const command = addTargetOptions(new Command("eval"), ", or task files of lm-evaluation-harness (.yaml)")
    .description(
      "Score a model's answers to the last turns of chats, by task; with --baseline, tell whether it is as good as another.",
    )
    .option(
      "--count <n>",
      "items of each task; with --text-file: the most windows of the text",
      integerIn("--count", 1, MANY),
      100,
    )
    .option("--seed <n>", "seed of the held-out chats and of sampling", integerIn("--seed", 0, MANY), HELD_OUT_SEED)
    .option("--chats <file>", "file of chats as JSON lines, instead of the corpus; their families are the tasks")
    .addOption(
      new Option(
        "--text-file <file>",
        "measure the perplexity of this text instead and, with --baseline, how much the predictions differ",
      ).conflicts(["chats", "tasks", "judge", "judgeModel", "judgeLabels", "maxDrop", "stopEarly", "chatTemplate"]),
    )
    .option(
      "--window <n>",
      "with --text-file: tokens that are scored together (default: 512); --count windows at most, so the usual 100 cover 51,200 tokens",
      integerIn("--window", 2, 1 << 20),
    )
    .option(
      "--baseline <run|url|model>",
      "compare with these answers to the same items: the JSON of an earlier run, or another model, which answers now",
    )
    .option(
      "--max-drop <points>",
      "largest drop in points of right answers; exit code 1 unless the drop is below it with 95 % confidence (default: 2, which only the table tells)",
      numberIn("--max-drop", 0.1, 100, "points"),
    )
    .option("--stop-early", "ask in rounds, and stop when the drop is known to be below or above --max-drop")
    .option(
      "--out <file>",
      "write the JSON of the run to this file too, for --baseline of later runs; of a run that is stopped, to NAME.partial.json",
    )
    .option("--json", "print one JSON object with every prompt, answer and score instead of a table");
  return addEngineOptions(addJudgeOptions(command)).action((flags: EvalFlags) =>
    untilStopped(
      (signal) => runEval(flags, signal),
      flags.textFile === undefined ? "what is answered is shown as a partial run" : "nothing of the text is kept",
    ),
  );
}

async function runEval(flags: EvalFlags, signal: AbortSignal): Promise<void> {
  const { baseline, stopEarly, textFile } = flags;
  checkJudgeFlags(flags);
  if (flags.out !== undefined) assertReplaceable(flags.out);
  if (textFile !== undefined) {
    const { runTextEval } = await import("./eval-text-file.js");
    await runTextEval({ ...flags, textFile }, sourceFrom(flags), signal);
    return;
  }
  if (flags.window !== undefined) throw optionError("--text-file", "given, as --window needs it", "nothing");
  if (baseline === undefined && (stopEarly || flags.maxDrop !== undefined)) {
    throw optionError("--baseline", "given, as --stop-early and --max-drop need it", "nothing");
  }
  const [{ requireConfinementFor, UNCONFINED_WARNING }, { openEvalTarget }, lab, { readLabels }] = await Promise.all([
    import("../../quality/code-score.js"),
    import("../../lab/eval-target.js"),
    import("../../lab/evaluate.js"),
    import("../../quality/judge/labels.js"),
  ]);
  const tasks = await tasksFor(flags);
  if (baseline !== undefined) checkComparable(tasks, flags.judge !== undefined);
  const labels = flags.judgeLabels === undefined ? undefined : readLabels(flags.judgeLabels);
  const isConfined = await requireConfinementFor(tasks.flatMap(({ chats }) => chats.map(({ check }) => check)));
  if (!isConfined) process.stderr.write(`${UNCONFINED_WARNING}\n`);
  const startStage = flags.json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const settings = { ...flags, engine: engineSettingsFrom(flags) };
  const target = await openEvalTarget(sourceFrom(flags), settings, startStage, signal);
  try {
    const { seed, temperature } = flags;
    const about = { model: { name: target.name }, seed, temperature, ...target.facts };
    if (baseline !== undefined) {
      await runComparison({ ...flags, baseline }, { target, about, tasks, labels }, startStage, signal);
      return;
    }
    const results = await lab.evaluate(target, tasks, startStage, signal);
    if (results.length === 0) return;
    const unscored = new Set(tasks.filter(({ isJudged }) => isJudged === false).map(({ name }) => name));
    print(flags, { ...about, tasks: results }, tasksTable(results, unscored), stoppedAfter(tasks, results, signal));
  } finally {
    await target.close();
  }
}

interface Compared {
  readonly target: EvalTarget;
  readonly about: object;
  readonly tasks: readonly EvalTask[];
  readonly labels: readonly Label[] | undefined;
}

/** Compares two models by the chats' checks, and by a judge if one is named. */
async function runComparison(
  flags: EvalFlags & { readonly baseline: string },
  { target, about, tasks, labels }: Compared,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<void> {
  const { baseline, stopEarly, maxDrop = USUAL_MAX_DROP } = flags;
  const [{ openEvalTarget, sourceOf }, lab, { powerText }, { calibrateJudge, judgeResults }] = await Promise.all([
    import("../../lab/eval-target.js"),
    import("../../lab/evaluate.js"),
    import("../../quality/compare.js"),
    import("../../lab/judge-report.js"),
  ]);
  const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
  const numScored = tasks.reduce((sum, { chats, isJudged }) => sum + (isJudged === false ? 0 : chats.length), 0);
  if (!flags.json && numScored > 0) process.stderr.write(`${powerText(numScored, maxDrop / 100)}\n`);
  const settings = { ...flags, engine: engineSettingsFrom(flags) };
  // The judge is opened first, so that an unreachable one costs no answers.
  const judge = await openJudgeFrom(flags, settings, startStage, signal);
  let other: EvalTarget | undefined;
  try {
    const calibration = judge && labels && (await calibrateJudge(judge, labels, startStage, signal));
    other = await openEvalTarget(sourceOf(baseline), settings, startStage, signal);
    const gate = { maxDrop: maxDrop / 100, isSequential: stopEarly ?? false };
    const results = await lab.evaluatePair(other, target, tasks, gate, startStage, signal);
    const { before, after, comparison } = results;
    const judged = await untilAborted(signal, () =>
      judge === undefined ? undefined : judgeResults(judge, results, calibration, gate.maxDrop, startStage, signal),
    );
    const stopped = stoppedAfter(tasks, after, signal);
    const judgement = stopped === undefined ? judged : undefined;
    if (comparison.overall.numItems + (judgement?.overall.numPairs ?? 0) === 0) {
      const earlier = { model: { name: other.name }, ...other.facts, tasks: before };
      const answered = after.length > 0 ? { ...about, tasks: after } : earlier;
      // The run was stopped before both models had answered an item, so only one model's answers are printed.
      if (stopped !== undefined) {
        const said = stoppedAfter(tasks, answered.tasks, signal);
        if (answered.tasks.length > 0) print(flags, answered, tasksTable(answered.tasks), said);
        return;
      }
      throw optionError("--baseline", "answers to the same chats", `none of ${numItems} in ${baseline}`);
    }
    const compared = { baseline: { name: other.name, ...other.facts }, comparison, judgement };
    const hasScored = comparison.overall.numItems > 0;
    const texts = [...(hasScored ? [comparisonText(comparison)] : []), ...(judgement ? [judgeText(judgement)] : [])];
    print(flags, { ...about, ...compared, tasks: after }, texts.join("\n\n"), stopped);
    // A stopped run has its own exit code.
    if (flags.maxDrop === undefined || stopped !== undefined) return;
    const verdicts = [...(hasScored ? [comparison.verdict] : []), ...(judgement ? [judgement.verdict] : [])];
    if (verdicts.some((verdict) => verdict !== "passes")) process.exitCode = 1;
  } finally {
    await other?.close();
    await judge?.close();
  }
}

/** Undefined if the signal aborts first; later errors are consequences of that. */
async function untilAborted<T>(signal: AbortSignal, run: () => Promise<T> | undefined): Promise<T | undefined> {
  if (signal.aborted) return undefined;
  try {
    return await run();
  } catch (thrown) {
    if (!signal.aborted) throw thrown;
    return undefined;
  }
}

const sourceFrom = ({ url, model }: EvalFlags): EvalSource => {
  const named = model === undefined ? {} : { model };
  return url === undefined ? { kind: "local", ...named } : { kind: "server", url, ...named };
};

/** @returns a note on a stopped run; undefined: the run was not stopped */
function stoppedAfter(tasks: readonly EvalTask[], results: readonly TaskResult[], { aborted }: AbortSignal) {
  if (!aborted) return undefined;
  const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
  return `stopped after ${results.reduce((sum, each) => sum + each.numItems, 0)} of ${numItems} items`;
}

/** @param stopped note on a partial run; its report does not replace a complete one */
function print({ json, out }: EvalFlags, results: object, text: string, stopped: string | undefined): void {
  const report = stopped === undefined ? results : { ...results, isPartial: true };
  if (out !== undefined) {
    const place = stopped === undefined || isOutlet(out) ? out : out.replace(/(?:\.json)?$/, ".partial.json");
    replaceFile(place, `${jsonText(report)}\n`);
    if (stopped !== undefined) process.stderr.write(`written: ${place}\n`);
  }
  process.stdout.write(`${json ? jsonText(report) : [text, stopped ?? []].flat().join("\n\n")}\n`);
}

const isTaskFile = (name: string): boolean => /\.ya?ml$/.test(name);

/** Only this command knows the corpus that belongs to the models. */
async function tasksFor({
  chats,
  tasks,
  count,
  seed,
}: Pick<EvalFlags, "chats" | "tasks" | "count" | "seed">): Promise<readonly EvalTask[]> {
  const { assertKnownTasks, harnessTasks, scorableChats, tasksOfFile } = await import("../../quality/tasks.js");
  if (chats !== undefined) return tasksOfFile(chats, tasks, count, true);
  const files = tasks?.filter(isTaskFile) ?? [];
  if (files.length > 0) {
    const ofFiles = harnessTasks(files, count);
    const named = tasks!.filter((name) => !isTaskFile(name));
    return [...ofFiles, ...(named.length === 0 ? [] : await tasksFor({ count, seed, tasks: named }))];
  }
  const [{ chatAt, families, readMixture }, { suiteChats, suiteNames }] = await Promise.all([
    import("../../../models/corpus/families.js"),
    import("../../../models/corpus/suites.js"),
  ]);
  const names = families.map(({ name }) => name);
  const ofSuites = new Map((tasks ?? []).map((name) => [name, suiteChats(name, seed, count)]));
  assertKnownTasks(
    tasks?.filter((name) => ofSuites.get(name) === undefined),
    [...names, ...suiteNames],
  );
  return (tasks ?? names).map((name) => {
    const chats = ofSuites.get(name);
    if (chats !== undefined) return { name, chats };
    const mixture = readMixture(name);
    return { name, chats: scorableChats(count, (index) => chatAt(seed, index, mixture)) };
  });
}
