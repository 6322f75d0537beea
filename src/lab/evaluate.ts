/**
 * Evaluates one model, or two on the same items: in one go, or in rounds until the question about the drop is answered.
 */
import type { StartStage } from "../core/stages.js";
import { promptId } from "../quality/ask.js";
import { type Comparison, compare, pairItems, pairOf } from "../quality/compare.js";
import { SequentialGate } from "../quality/paired.js";
import { type ItemResult, resultOf, type TaskResult } from "../quality/run-task.js";
import type { EvalTask } from "../quality/tasks.js";
import type { EvalTarget } from "./eval-target.js";

/**
 * Each task's result, in the order of the tasks.
 * @param stop an abort ends the run with the items answered so far; absent: an unfinished run gives no result
 */
export async function evaluate(
  target: EvalTarget,
  tasks: readonly EvalTask[],
  startStage: StartStage,
  stop?: AbortSignal,
): Promise<TaskResult[]> {
  const results: TaskResult[] = [];
  for (const task of tasks) {
    const stage = startStage(task.name);
    const tell = (numDone: number): void => stage.update(`${numDone} of ${task.chats.length}`);
    const result = await runUntil(stop, target, task, tell);
    if (result.numItems === 0 && stop?.aborted) break;
    const share = `${(100 * result.exact).toFixed(1)} % of ${result.numItems} right`;
    stage.done(task.isJudged === false ? `${result.numItems} texts` : share);
    results.push(result);
  }
  return results;
}

/** The task's result, or the result of the items answered before `stop`. */
async function runUntil(
  stop: AbortSignal | undefined,
  target: EvalTarget,
  task: EvalTask,
  tell: (numDone: number) => void,
): Promise<TaskResult> {
  const items: ItemResult[] = [];
  const startMs = performance.now();
  try {
    return await target.run(task, (numDone, item) => {
      if (item !== undefined) items.push(item);
      tell(numDone);
    });
  } catch (thrown) {
    if (!stop?.aborted) throw thrown;
    return resultOf(task.name, items, (performance.now() - startMs) / 1000);
  }
}

export interface Gate {
  /** The largest permitted drop, as a share of 1. */
  readonly maxDrop: number;
  /** Whether to stop as soon as the verdict is certain. */
  readonly isSequential: boolean;
}

export interface PairedResults {
  readonly before: readonly TaskResult[];
  readonly after: readonly TaskResult[];
  readonly comparison: Comparison;
}

/** Items between two looks of a sequential gate. */
const ROUND_ITEMS = 64;

/**
 * Both models answer the same items; the comparison leaves out items without a right answer. A sequential gate takes
 * the items of all tasks in an order that depends only on the prompts.
 * @param stop as in `evaluate`
 */
export async function evaluatePair(
  before: EvalTarget,
  after: EvalTarget,
  tasks: readonly EvalTask[],
  gate: Gate,
  startStage: StartStage,
  stop?: AbortSignal,
): Promise<PairedResults> {
  if (!gate.isSequential) {
    const earlier = await evaluate(before, tasks, namedStages(startStage, `baseline ${before.name}`), stop);
    const later = await evaluate(after, tasks, namedStages(startStage, after.name), stop);
    const unscored = new Set(tasks.filter(({ isJudged }) => isJudged === false).map(({ name }) => name));
    const [scoredBefore, scoredAfter] = [earlier, later].map((all) => all.filter(({ task }) => !unscored.has(task)));
    return { before: earlier, after: later, comparison: compare(scoredBefore!, scoredAfter!, gate.maxDrop) };
  }
  const rounds = roundsOf(tasks);
  const numItems = tasks.reduce((sum, { chats }) => sum + chats.length, 0);
  const judge = new SequentialGate(gate.maxDrop, numItems);
  const stage = startStage("items");
  const earlier = new Map<string, TaskResult>();
  const later = new Map<string, TaskResult>();
  let numDone = 0;
  for (const round of rounds) {
    const results = { before: [] as TaskResult[], after: [] as TaskResult[] };
    for (const task of round) {
      results.before.push(await runUntil(stop, before, task, () => {}));
      results.after.push(await runUntil(stop, after, task, () => {}));
      numDone += task.chats.length;
      stage.update(`${numDone} of at most ${numItems}`);
    }
    add(earlier, results.before);
    add(later, results.after);
    for (const pair of pairItems(results.before, results.after).pairs) judge.add(pairOf(pair));
    if (judge.verdict !== "undecided" || stop?.aborted) break;
  }
  stage.done(`${numDone} of at most ${numItems}: ${judge.verdict}`);
  const inOrder = (results: ReadonlyMap<string, TaskResult>): TaskResult[] =>
    tasks.flatMap(({ name }) => results.get(name) ?? []);
  const [first, second] = [inOrder(earlier), inOrder(later)];
  return { before: first, after: second, comparison: compare(first, second, gate.maxDrop, judge.verdict) };
}

const namedStages =
  (startStage: StartStage, name: string): StartStage =>
  (stage) =>
    startStage(`${name}: ${stage}`);

/** All items in the order of their prompts' hashes, in rounds, each grouped by task. */
function roundsOf(tasks: readonly EvalTask[]): EvalTask[][] {
  const items = tasks
    .flatMap(({ name, chats }) => chats.map((chat) => ({ name, chat, id: promptId(chat.messages) })))
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  const rounds: EvalTask[][] = [];
  for (let start = 0; start < items.length; start += ROUND_ITEMS) {
    const round = items.slice(start, start + ROUND_ITEMS);
    const names = new Set(round.map(({ name }) => name));
    rounds.push(
      [...names].map((name) => ({
        name,
        chats: round.filter((item) => item.name === name).map(({ chat }) => chat),
      })),
    );
  }
  return rounds;
}

function add(results: Map<string, TaskResult>, news: readonly TaskResult[]): void {
  for (const { task, items, seconds } of news) {
    const known = results.get(task);
    results.set(task, resultOf(task, [...(known?.items ?? []), ...items], (known?.seconds ?? 0) + seconds));
  }
}
