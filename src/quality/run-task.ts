/** Evaluates a model on one task: it answers all prompts, many at once, and each answer is scored when it arrives. */
import { setMaxListeners } from "node:events";
import { MillraceError } from "../core/errors.js";
import { type Ask, type AskedAnswer, isRefusal, runAll, type ToolCall } from "./ask.js";
import type { ScoredChat } from "./check.js";
import { aggregated, type MetricResult, type MetricValues } from "./harness/metrics.js";
import type { TextModel } from "./harness/text-model.js";
import { scoreAnswer } from "./score-answer.js";
import type { EvalChat, EvalTask } from "./tasks.js";
import { wilsonInterval } from "./wilson.js";

export interface ItemResult {
  readonly prompt: ScoredChat["messages"];
  readonly answer: string;
  /** The answer's tool calls; absent: none. */
  readonly calls?: readonly ToolCall[] | undefined;
  readonly expected: string;
  readonly score: number;
  readonly exact: boolean;
  readonly note?: string;
  readonly numPromptTokens: number;
  readonly numOutputTokens: number;
  readonly end: AskedAnswer["end"] | "refused";
  /** Metrics of an item of a task file. */
  readonly metrics?: MetricValues | undefined;
  /** The log-probability of each choice, or of the text. */
  readonly logprobs?: readonly number[] | undefined;
  /** The result of each filter. */
  readonly filtered?: Readonly<Record<string, string>> | undefined;
}

/** A model that answers prompts. */
export interface AskedModel {
  readonly ask: Ask;
  /** For items of task files. Absent: the model only answers chats. */
  readonly texts?: () => Promise<TextModel>;
}

export interface TaskResult {
  readonly task: string;
  readonly numItems: number;
  /** Share of fully right answers, and Wilson's 95 % interval. */
  readonly exact: number;
  readonly exactInterval: readonly [low: number, high: number];
  /** Mean over all items. */
  readonly score: number;
  /** Metrics of a task file, by metric and filter. */
  readonly metrics?: Readonly<Record<string, MetricResult>>;
  readonly numOutputTokens: number;
  readonly seconds: number;
  readonly tokensPerS: number;
  readonly items: readonly ItemResult[];
}

/**
 * @param concurrency concurrent answers
 * @param onProgress called with the number of finished items, and the item just finished
 */
export async function runTask(
  model: AskedModel,
  { name, chats }: EvalTask,
  concurrency: number,
  onProgress: (numDone: number, item: ItemResult) => void,
): Promise<TaskResult> {
  const items: ItemResult[] = new Array(chats.length);
  const failing = new AbortController();
  setMaxListeners(0, failing.signal);
  const startMs = performance.now();
  let numDone = 0;
  await runAll(chats, concurrency, async (chat, index) => {
    try {
      items[index] = await runItem(model, chat, failing.signal);
    } catch (thrown) {
      failing.abort(thrown);
      throw thrown;
    }
    onProgress(++numDone, items[index]);
  });
  return resultOf(name, items, (performance.now() - startMs) / 1000);
}

/** The result of one task from items of any number of runs. */
export function resultOf(task: string, items: readonly ItemResult[], seconds: number): TaskResult {
  return { task, ...summaryOf(items), seconds, tokensPerS: seconds === 0 ? 0 : totalOf(items) / seconds, items };
}

const totalOf = (items: readonly ItemResult[]): number => items.reduce((sum, item) => sum + item.numOutputTokens, 0);

function summaryOf(
  items: readonly ItemResult[],
): Pick<TaskResult, "numItems" | "exact" | "exactInterval" | "score" | "metrics" | "numOutputTokens"> {
  const numItems = items.length;
  const metrics = aggregated(items);
  const numExact = items.filter(({ exact }) => exact).length;
  return {
    numItems,
    exact: numExact / Math.max(1, numItems),
    exactInterval: wilsonInterval(numExact, numItems),
    score: items.reduce((sum, { score }) => sum + score, 0) / Math.max(1, numItems),
    ...(Object.keys(metrics).length === 0 ? {} : { metrics }),
    numOutputTokens: totalOf(items),
  };
}

const NEEDS_SERVER = [
  "invalid_option",
  "expected a model behind a server for checks of tool calls, got one in this process",
  { hint: "serve it, and give --url http://127.0.0.1:8000: the server reads the calls of each model's format" },
] as const;

async function runItem({ ask, texts }: AskedModel, chat: EvalChat, signal: AbortSignal): Promise<ItemResult> {
  const prompt = chat.messages.slice(0, -1);
  const expected = chat.messages.at(-1)?.content ?? "";
  if (chat.item !== undefined) {
    if (texts === undefined) throw new TypeError("expected a model that continues texts, got one that answers chats");
    return { prompt, expected, ...(await chat.item.run(await texts(), signal)) };
  }
  try {
    const { text, numPromptTokens, numOutputTokens, end, calls } = await ask(prompt, signal, chat.tools);
    if (chat.check.kind === "calls" && calls === undefined) throw new MillraceError(...NEEDS_SERVER);
    const score = await scoreAnswer(chat.check, expected, text, { prompt, end, calls });
    const called = (calls ?? []).length === 0 ? {} : { calls };
    return { prompt, answer: text, ...called, expected, ...score, numPromptTokens, numOutputTokens, end };
  } catch (thrown) {
    // A prompt that exceeds the context, or that the template refuses, counts as a wrong answer; the run goes on.
    if (!isRefusal(thrown)) throw thrown;
    const failure = { answer: "", score: 0, exact: false, note: thrown.message } as const;
    return { prompt, expected, ...failure, numPromptTokens: 0, numOutputTokens: 0, end: "refused" };
  }
}
