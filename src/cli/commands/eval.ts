/** `millrace eval`: lets a model answer held-out chats, many at once, and scores the last answers. */
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { MillraceError } from "../../core/errors.js";
import { parseChats, type ScoredChat } from "../../quality/check.js";
import { requireConfinementFor } from "../../quality/code-score.js";
import { addEngineOptions, type EngineFlags } from "../engine-options.js";
import { type EvalTask, runTask, type TaskResult } from "../eval-run.js";
import { formatTable, jsonText } from "../format.js";
import { openLocalSession } from "../local-session.js";
import { modelOption } from "../model.js";
import { integerIn, listOf, numberIn, optionError } from "../option-values.js";
import { silentStages, stagesTo } from "../stages.js";

interface EvalFlags extends EngineFlags {
  readonly model?: string;
  readonly chatTemplate?: string;
  readonly tasks?: readonly string[];
  readonly count: number;
  readonly seed: number;
  readonly chats?: string;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly json?: boolean;
}

/** The bundled models are trained on chats of other seeds. */
const HELD_OUT_SEED = 1_000_001;
/** Of some families not every chat has a right answer. */
const MAX_TRIES_PER_ITEM = 20;
const MANY = Number.MAX_SAFE_INTEGER;

export function evalCommand(): Command {
  const command = new Command("eval")
    .description("Score a model's answers: it answers the last turns of held-out chats, by task.")
    .addOption(modelOption())
    .option(
      "--tasks <names>",
      "which tasks, separated by commas (default: all; listed when a name is unknown)",
      listOf("--tasks"),
    )
    .option("--count <n>", "items of each task", integerIn("--count", 1, MANY), 100)
    .option("--seed <n>", "seed of the held-out chats and of sampling", integerIn("--seed", 0, MANY), HELD_OUT_SEED)
    .option("--chats <file>", "chats as JSON lines instead of the corpus; tasks are their families")
    .option("--temperature <t>", "0 = always the likeliest token", numberIn("--temperature", 0, 100), 0)
    .option("--max-tokens <n>", "output tokens at most", integerIn("--max-tokens", 1, MANY), 1024)
    .option("--chat-template <file>", "use this template instead of the model's own")
    .option("--json", "print one JSON object with every prompt, answer and score instead of a table");
  return addEngineOptions(command).action(runEval);
}

async function runEval(flags: EvalFlags): Promise<void> {
  const tasks = flags.chats === undefined ? await corpusTasks(flags) : fileTasks(flags.chats, flags);
  const isConfined = await requireConfinementFor(tasks.flatMap(({ chats }) => chats.map(({ check }) => check)));
  if (!isConfined) process.stderr.write("warning: the code of answers runs unconfined: it can do whatever you can\n");
  const startStage = flags.json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const sampling = { topP: 1, topK: 0, minP: 0, seed: BigInt(flags.seed) };
  const session = await openLocalSession({ ...flags, ...sampling }, startStage);
  try {
    const { name, chatTemplate, engine } = session;
    const { seed, temperature } = flags;
    if (chatTemplate === undefined) {
      const message = `expected a model with a chat template, got ${name} without`;
      throw new MillraceError("template_missing", message, { hint: "give --chat-template" });
    }
    const results: TaskResult[] = [];
    for (const task of tasks) {
      const stage = startStage(task.name);
      const tell = (numDone: number): void => stage.update(`${numDone} of ${task.chats.length}`);
      const result = await runTask(session, chatTemplate, task, { concurrency: flags.maxNumSeqs, seed }, tell);
      stage.done(`${percent(result.exact)} of ${result.numItems} right`);
      results.push(result);
    }
    const report = { model: { name }, seed, temperature, engine: engine.info, tasks: results };
    process.stdout.write(flags.json ? `${jsonText(report)}\n` : `${tableOf(results)}\n`);
  } finally {
    await session.close();
  }
}

function assertKnown(wanted: readonly string[] | undefined, names: readonly string[]): void {
  const unknown = wanted?.find((name) => !names.includes(name));
  if (unknown !== undefined) throw optionError("--tasks", `of ${names.join(", ")}`, unknown);
}

async function corpusTasks({ tasks, count, seed }: EvalFlags): Promise<EvalTask[]> {
  const { chatAt, families, readMixture } = await import("../../../models/corpus/families.js");
  const names = families.map(({ name }) => name);
  assertKnown(tasks, names);
  return (tasks ?? names).map((name) => {
    const mixture = readMixture(name);
    const chats: ScoredChat[] = [];
    for (let index = 0; chats.length < count && index < count * MAX_TRIES_PER_ITEM; index++) {
      const chat = chatAt(seed, index, mixture);
      if (chat.check.kind !== "none") chats.push(chat);
    }
    return { name, chats };
  });
}

function fileTasks(path: string, { tasks, count }: EvalFlags): EvalTask[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new MillraceError("file_unreadable", `expected chats in ${path}, got ${String(cause)}`, { cause });
  }
  const byTask = new Map<string, ScoredChat[]>();
  for (const chat of parseChats(text, path)) {
    const chats = byTask.get(chat.family) ?? [];
    if (chat.check.kind !== "none" && chats.length < count) chats.push(chat);
    byTask.set(chat.family, chats);
  }
  if (byTask.size === 0) throw new MillraceError("invalid_option", `expected chats in ${path}, got none`);
  assertKnown(tasks, [...byTask.keys()]);
  return [...byTask]
    .filter(([name, chats]) => chats.length > 0 && (tasks === undefined || tasks.includes(name)))
    .map(([name, chats]) => ({ name, chats }));
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

function tableOf(results: readonly TaskResult[]): string {
  const header = ["task", "items", "right", "95 % interval", "mean score", "tokens/s"];
  const rows = results.map(({ task, numItems, exact, exactInterval: [low, high], score, tokensPerS }) => [
    task,
    String(numItems),
    percent(exact),
    `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`,
    score.toFixed(3),
    tokensPerS.toFixed(0),
  ]);
  return formatTable([header, ...rows]);
}
