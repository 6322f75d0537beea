/**
 * `millrace adopt`: brings back a student that was trained elsewhere: evaluates, gates, costs it, and tries it as a
 * canary.
 */
import { Command, Option } from "commander";
import { type StartStage, silentStages } from "../../core/stages.js";
import type { StudentOptions } from "../../distill/adopt/student.js";
import { locateModel } from "../../formats/locate-model.js";
import type { EvalSettings } from "../../lab/eval-target.js";
import { powerText } from "../../quality/compare.js";
import type { EvalTask } from "../../quality/tasks.js";
import { addEngineOptions, type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import { addGateOptions } from "../flags/gate-options.js";
import { apiPrice, integerIn, numberIn } from "../flags/option-values.js";
import { questionsFrom } from "../flags/own-questions.js";
import { addAdminFlags } from "../flags/tenant-flags.js";
import { costText } from "../output/adopt-text.js";
import { comparisonText } from "../output/eval-text.js";
import { type Json, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";
import type { CostFlags } from "../plan/replacement-cost.js";
import { AdminClient, type AdminFlags } from "../process/admin-client.js";
import { canaryMinutes, canaryText, followCanary } from "../process/follow-canary.js";
import { untilStopped } from "../process/stop-signal.js";
import { words } from "./bench-run.js";

interface AdoptFlags extends EngineFlags, AdminFlags, CostFlags, Omit<StudentOptions, "student"> {
  readonly teacher: string;
  readonly teacherModel?: string;
  readonly apiKey?: string;
  readonly concurrency: number;
  readonly evals: string;
  readonly count: number;
  readonly maxDrop: number;
  readonly maxTokens: number;
  readonly stopEarly?: boolean;
  readonly maxPayback?: number;
  readonly canary?: string;
  readonly serverArgs: string;
  readonly share?: number;
  readonly for: string;
}

const grouped = (group: string, flags: string, about: string): Option => new Option(flags, about).helpGroup(group);
const STUDENT = "The student:";
const COST = "What it saves:";
const CANARY = "Where it is tried:";

const studentOptions = (): readonly Option[] => [
  grouped(STUDENT, "--base <model>", "folder or hf:org/repo that an adapter was trained on"),
  grouped(STUDENT, "--out <path>", "where the merged or converted student is written: a .gguf file or a folder"),
  grouped(STUDENT, "--quantize <type>", "type of the student's weights in --out, as of millrace quantize"),
];

const costOptions = (): readonly Option[] => [
  grouped(COST, "--requests-per-day <n>", "requests (default: by the ledger of the gateway of --canary)").argParser(
    numberIn("--requests-per-day", 1, 1e12),
  ),
  grouped(COST, "--hardware <machine>", "machine of plans, as of millrace plan: h100x2, cpu-16, cpu, detect").default(
    "detect",
  ),
  grouped(COST, "--price <usd>", "price of a GPU's hour, or of the CPU machine's (default: a dated list)").argParser(
    numberIn("--price", 1e-6, 1e6),
  ),
  grouped(
    COST,
    "--teacher-price <in:out>",
    "the teacher's dollars per million tokens (default: the ledger's cost, else a plan)",
  ).argParser(apiPrice("--teacher-price")),
  grouped(COST, "--student-price <in:out>", "the student's dollars per million tokens (default: a plan)").argParser(
    apiPrice("--student-price"),
  ),
  grouped(COST, "--training-cost <usd>", "dollars that the training has cost, work included").argParser(
    numberIn("--training-cost", 0, 1e12),
  ),
  grouped(COST, "--max-payback <months>", "exit code 1 where the saving takes longer to pay the training").argParser(
    numberIn("--max-payback", 0.01, 1200),
  ),
];

const canaryOptions = (): readonly Option[] => [
  grouped(
    CANARY,
    "--canary <model>",
    "the teacher's name in the gateway of --url: a student that passes is tried there",
  ),
  grouped(CANARY, "--server-args <flags>", "flags of the student's engine, after the model's own").default(""),
  grouped(
    CANARY,
    "--share <share>",
    "of the model's requests (default: as many as one of its instances gets)",
  ).argParser(numberIn("--share", 0.001, 0.9)),
  grouped(CANARY, "--for <duration>", "from the time at which its instance is ready").default("30m"),
];

export function adoptCommand(): Command {
  const judged = addAdminFlags(new Command("adopt"))
    .description(
      "Bring back a student that was trained elsewhere: merge its adapter, compare its answers with the teacher's, tell what it saves, and try it as a canary. Exit code 0: it passed. Ctrl-C takes the canary back.",
    )
    .argument("<student>", "an adapter's folder, or a model's folder or file")
    .requiredOption("--teacher <run|url|model>", "model as for --model, URL of a server, or the JSON of millrace eval")
    .option("--teacher-model <name>", "name of the teacher on that server (default: the first in its list)")
    .addOption(new Option("--api-key <key>", "API key for that server").env("OPENAI_API_KEY"))
    .option("--concurrency <n>", "requests at once to that server", integerIn("--concurrency", 1, 10_000), 8)
    .requiredOption("--evals <file>", "chats as of millrace eval, which both answer");
  const command = addGateOptions(judged).option(
    "--stop-early",
    "ask in rounds, and stop when the drop is known to be below or above --max-drop",
  );
  for (const option of [...studentOptions(), ...costOptions(), ...canaryOptions()]) command.addOption(option);
  return addEngineOptions(command).action((student: string, flags: AdoptFlags) =>
    untilStopped((signal) => runAdopt(student, flags, signal), "a canary is stopped"),
  );
}

async function runAdopt(student: string, flags: AdoptFlags, signal: AbortSignal): Promise<void> {
  const [{ checkStudentOptions, prepareStudent }, cost] = await Promise.all([
    import("../../distill/adopt/student.js"),
    import("../plan/replacement-cost.js"),
  ]);
  const { base, out, quantize, json, canary } = flags;
  const given: StudentOptions = { student, ...(base && { base }), ...(out && { out }), ...(quantize && { quantize }) };
  // All checks that can refuse come before hours of answers.
  checkStudentOptions(given);
  const minutes = canaryMinutes(flags.for);
  const gateway = canary === undefined ? undefined : { client: new AdminClient(flags), model: canary };
  const recorded = gateway && (await cost.recordedMonth(gateway.client, gateway.model, Date.now()));
  const startStage = json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const tasks = await questionsFrom(flags.evals, flags.count);
  const adopted = await prepareStudent(given, startStage, signal);
  const { teacherPath, results } = await compareWith(adopted.path, tasks, flags, startStage, signal);
  const { comparison } = results;
  const sides = {
    teacherPath,
    studentPath: adopted.path,
    teacherTokens: cost.meanTokens(results.before),
    studentTokens: cost.meanTokens(results.after),
  };
  const saving = await cost.replacementCost(flags, sides, recorded);
  const months = typeof saving === "string" ? undefined : saving.paybackMonths;
  const pays = flags.maxPayback === undefined || (months !== undefined && months <= flags.maxPayback);
  const passes = comparison.verdict === "passes" && pays;
  if (!json) process.stdout.write(`${comparisonText(comparison)}\n\n${costText(saving)}\n`);
  if (!passes) process.exitCode = 1;
  let report: Json | undefined;
  if (passes && gateway !== undefined) {
    const { model, client } = gateway;
    const { share, serverArgs } = flags;
    const wish = { model, args: words(serverArgs), weights: adopted.path, share, minutes };
    if (!json) process.stderr.write(`to take it back: Ctrl-C, or millrace canary stop ${model}\n`);
    report = await followCanary(client, wish, startStage("canary"), signal);
    if (report.state !== "passed") process.exitCode = 1;
  }
  const verdict = verdictText({ passes, pays, maxPayback: flags.maxPayback, path: adopted.path, canary, report });
  if (json)
    process.stdout.write(`${jsonText({ student: adopted, comparison, cost: saving, passes, canary: report })}\n`);
  else process.stdout.write(`${report === undefined ? "" : `\n${canaryText(report)}\n`}${verdict}\n`);
}

/** Both models answer the same items. @returns teacherPath: path of a teacher that ran here */
async function compareWith(
  student: string,
  tasks: readonly EvalTask[],
  flags: AdoptFlags,
  startStage: StartStage,
  signal: AbortSignal,
) {
  const [{ openEvalTarget, sourceOf }, { evaluatePair }] = await Promise.all([
    import("../../lab/eval-target.js"),
    import("../../lab/evaluate.js"),
  ]);
  const { maxTokens, concurrency, apiKey, stopEarly = false, json } = flags;
  const maxDrop = flags.maxDrop / 100;
  const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
  if (!json) process.stderr.write(`${powerText(numItems, maxDrop)}\n`);
  const engine = engineSettingsFrom(flags);
  const settings: EvalSettings = { temperature: 0, maxTokens, seed: 0, concurrency, engine, apiKey };
  const source = sourceOf(flags.teacher);
  const named = source.kind === "server" && flags.teacherModel !== undefined ? { model: flags.teacherModel } : {};
  const located = source.kind === "local" ? await locateModel(flags.teacher, startStage) : undefined;
  const before = await openEvalTarget({ ...source, ...named }, settings, startStage, signal);
  try {
    const after = await openEvalTarget({ kind: "local", model: student }, settings, startStage, signal);
    try {
      const results = await evaluatePair(before, after, tasks, { maxDrop, isSequential: stopEarly }, startStage);
      return { teacherPath: located?.path, results };
    } finally {
      await after.close();
    }
  } finally {
    await before.close();
  }
}

interface Verdict {
  readonly passes: boolean;
  readonly pays: boolean;
  readonly maxPayback: number | undefined;
  readonly path: string;
  readonly canary: string | undefined;
  readonly report: Json | undefined;
}

function verdictText({ passes, pays, maxPayback, path, canary, report }: Verdict): string {
  const isTried = canary === undefined ? "" : ", and is not tried in the gateway";
  if (!passes) {
    const why = pays
      ? "its answers are not known to be good enough"
      : `it does not pay back within ${maxPayback} months`;
    return `the student is not adopted${isTried}: ${why}`;
  }
  if (report === undefined) return `the student passes: ${path}`;
  if (report.state !== "passed") return "the student is taken back: all requests go to the model's own instances";
  return `the canary has passed and ended: name ${path} as the model of ${canary} in the gateway's file, and reload`;
}
