/** `millrace eval`: lets a model answer held-out chats, many at once, and scores the last answers. */
import { Command } from "commander";
import { silentStages } from "../../core/stages.js";
import type { TaskResult } from "../../quality/run-task.js";
import type { EvalTask } from "../../quality/tasks.js";
import { addEngineOptions, type EngineFlags, engineSettingsFrom } from "../flags/engine-options.js";
import { modelOption } from "../flags/model-option.js";
import { integerIn, listOf, numberIn } from "../flags/option-values.js";
import { formatTable, jsonText } from "../output/format.js";
import { stagesTo } from "../output/stages.js";

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
const MANY = Number.MAX_SAFE_INTEGER;

export function evalCommand(): Command {
  const command = new Command("eval")
    .description("Score a model's answers to the last turns of held-out chats, by task.")
    .addOption(modelOption())
    .option(
      "--tasks <names>",
      "tasks, separated by commas (default: all; an unknown name lists them)",
      listOf("--tasks"),
    )
    .option("--count <n>", "items of each task", integerIn("--count", 1, MANY), 100)
    .option("--seed <n>", "seed of the held-out chats and of sampling", integerIn("--seed", 0, MANY), HELD_OUT_SEED)
    .option("--chats <file>", "file of chats as JSON lines, instead of the corpus; their families are the tasks")
    .option("--temperature <t>", "0 = greedy", numberIn("--temperature", 0, 100), 0)
    .option("--max-tokens <n>", "longest answer in tokens", integerIn("--max-tokens", 1, MANY), 1024)
    .option("--chat-template <file>", "use this template instead of the model's own")
    .option("--json", "print one JSON object with every prompt, answer and score instead of a table");
  return addEngineOptions(command).action(runEval);
}

async function runEval(flags: EvalFlags): Promise<void> {
  const [{ requireConfinementFor, UNCONFINED_WARNING }, { seedOf }, { runTask }, { askOf, openLocalSession }] =
    await Promise.all([
      import("../../quality/code-score.js"),
      import("../../quality/ask.js"),
      import("../../quality/run-task.js"),
      import("../../local/session.js"),
    ]);
  const tasks = await tasksFor(flags);
  const isConfined = await requireConfinementFor(tasks.flatMap(({ chats }) => chats.map(({ check }) => check)));
  if (!isConfined) process.stderr.write(`${UNCONFINED_WARNING}\n`);
  const startStage = flags.json && !process.stderr.isTTY ? silentStages : stagesTo(process.stderr);
  const { seed, temperature, maxTokens } = flags;
  const sampling = { temperature, maxTokens, topP: 1, topK: 0, minP: 0, seed: BigInt(seed) };
  const session = await openLocalSession({ ...flags, engine: engineSettingsFrom(flags) }, sampling, startStage);
  try {
    const ask = askOf(session, (messages) => seedOf(seed, messages));
    const results: TaskResult[] = [];
    for (const task of tasks) {
      const stage = startStage(task.name);
      const tell = (numDone: number): void => stage.update(`${numDone} of ${task.chats.length}`);
      const result = await runTask(ask, task, flags.maxNumSeqs, tell);
      stage.done(`${percent(result.exact)} of ${result.numItems} right`);
      results.push(result);
    }
    const report = { model: { name: session.name }, seed, temperature, engine: session.engine.info, tasks: results };
    process.stdout.write(flags.json ? `${jsonText(report)}\n` : `${tableOf(results)}\n`);
  } finally {
    await session.close();
  }
}

/** Only this command knows the corpus, which belongs to the models. */
async function tasksFor({ chats, tasks, count, seed }: EvalFlags): Promise<readonly EvalTask[]> {
  const { assertKnownTasks, scorableChats, tasksOfFile } = await import("../../quality/tasks.js");
  if (chats !== undefined) return tasksOfFile(chats, tasks, count);
  const { chatAt, families, readMixture } = await import("../../../models/corpus/families.js");
  const names = families.map(({ name }) => name);
  assertKnownTasks(tasks, names);
  return (tasks ?? names).map((name) => {
    const mixture = readMixture(name);
    return { name, chats: scorableChats(count, (index) => chatAt(seed, index, mixture)) };
  });
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
