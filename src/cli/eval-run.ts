/** One task of `millrace eval`: its prompts all at once through the engine, each answer scored as it comes. */
import { isRefusal } from "../distill/answers.js";
import { seedOf } from "../distill/prompts.js";
import type { ScoredChat } from "../quality/check.js";
import { scoreAnswer } from "../quality/score-answer.js";
import { wilsonInterval } from "../quality/wilson.js";
import type { ChatTemplate } from "../text/template/chat-template.js";
import { chatPromptIds, type LocalSession } from "./local-session.js";

export interface EvalTask {
  readonly name: string;
  readonly chats: readonly ScoredChat[];
}

interface ItemResult {
  readonly prompt: ScoredChat["messages"];
  readonly answer: string;
  readonly expected: string;
  readonly score: number;
  readonly exact: boolean;
  readonly note?: string;
  readonly numPromptTokens: number;
  readonly numOutputTokens: number;
  readonly end: "stop" | "length" | "cancelled" | "refused";
}

export interface TaskResult {
  readonly task: string;
  readonly numItems: number;
  /** Share of the answers that are right without reservation, and Wilson's 95 % interval for it. */
  readonly exact: number;
  readonly exactInterval: readonly [low: number, high: number];
  /** Mean over all items. */
  readonly score: number;
  readonly numOutputTokens: number;
  readonly seconds: number;
  readonly tokensPerS: number;
  readonly items: readonly ItemResult[];
}

/**
 * @param concurrency answers that are written at the same time
 * @param seed of sampling, from which each prompt gets its own
 * @param onProgress hears how many items are done
 */
export async function runTask(
  session: LocalSession,
  template: ChatTemplate,
  { name, chats }: EvalTask,
  { concurrency, seed }: { readonly concurrency: number; readonly seed: number },
  onProgress: (numDone: number) => void,
): Promise<TaskResult> {
  const items: ItemResult[] = new Array(chats.length);
  const startMs = performance.now();
  let next = 0;
  let numDone = 0;
  async function work(): Promise<void> {
    for (let index = next++; index < chats.length; index = next++) {
      items[index] = await runItem(session, template, chats[index] as ScoredChat, seed);
      onProgress(++numDone);
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, chats.length) }, work));
  const seconds = (performance.now() - startMs) / 1000;
  return { task: name, ...summaryOf(items), seconds, tokensPerS: totalOf(items) / seconds, items };
}

const totalOf = (items: readonly ItemResult[]): number => items.reduce((sum, item) => sum + item.numOutputTokens, 0);

function summaryOf(
  items: readonly ItemResult[],
): Pick<TaskResult, "numItems" | "exact" | "exactInterval" | "score" | "numOutputTokens"> {
  const numItems = items.length;
  const numExact = items.filter(({ exact }) => exact).length;
  return {
    numItems,
    exact: numExact / Math.max(1, numItems),
    exactInterval: wilsonInterval(numExact, numItems),
    score: items.reduce((sum, { score }) => sum + score, 0) / Math.max(1, numItems),
    numOutputTokens: totalOf(items),
  };
}

async function runItem(
  session: LocalSession,
  template: ChatTemplate,
  chat: ScoredChat,
  seed: number,
): Promise<ItemResult> {
  const prompt = chat.messages.slice(0, -1);
  const expected = chat.messages.at(-1)?.content ?? "";
  try {
    const promptIds = chatPromptIds(session.tokenizer, template, prompt);
    const { text, numPromptTokens, numOutputTokens, end } = await session.answer(
      promptIds,
      () => {},
      undefined,
      seedOf(seed, prompt),
    );
    const score = await scoreAnswer(chat.check, expected, text);
    return { prompt, answer: text, expected, ...score, numPromptTokens, numOutputTokens, end };
  } catch (thrown) {
    // A prompt that a model has no room for, or its template refuses, is a wrong answer of that model, not the end of the run.
    if (!isRefusal(thrown)) throw thrown;
    const failure = { answer: "", score: 0, exact: false, note: thrown.message } as const;
    return { prompt, expected, ...failure, numPromptTokens: 0, numOutputTokens: 0, end: "refused" };
  }
}
