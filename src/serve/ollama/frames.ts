/** Answers of /api/chat and /api/generate: complete, or as lines of JSON. */
import { ollamaErrorBody } from "../../core/error-body.js";
import { readArguments } from "../../text/answer/read-arguments.js";
import { AnswerClock } from "../generation/answer-clock.js";
import { type AnswerItem, addPart, itemsOf, partsOf, textOfPart } from "../generation/answer-items.js";
import type { GenerationEnd, ScoredToken } from "../generation/generation.js";
import { evictedField, type JobTotals } from "../generation/job.js";
import type { ChoiceResult, StreamFrames } from "../http/respond.js";
import { newCallId } from "../openai/chat-message.js";

/** Content of each line: a chat's message, or the text of a completion. */
export type LineShape = (news: {
  readonly content: string;
  readonly thinking: string;
  readonly calls: readonly object[];
}) => object;

export interface AnswerFacts {
  readonly model: string;
  readonly numPromptTokens: number;
  /** `performance.now()` at the request's arrival. */
  readonly startMs: number;
  readonly shape: LineShape;
  /** The field with these tokens' log-probabilities; empty for no tokens. */
  readonly logprobs: (said: readonly ScoredToken[]) => object;
  readonly requestId: string;
}

const nanoseconds = (ms: number): number => Math.round(ms * 1e6);

/** Ollama's fields, in nanoseconds. The model is loaded before the server accepts requests. */
function durationsOf(clock: AnswerClock): object {
  const { totalMs, promptMs, answerMs } = clock.times();
  return {
    total_duration: nanoseconds(totalMs),
    load_duration: 0,
    prompt_eval_duration: nanoseconds(promptMs),
    eval_duration: nanoseconds(answerMs),
  };
}

const callObject = ({ name, text }: AnswerItem, index: number): object => ({
  id: newCallId(),
  function: { index, name, arguments: readArguments(text) },
});

/** Ollama has no `usage`: its counts are in the last line, together with the number of evicted tokens. */
function lastFields(facts: AnswerFacts, clock: AnswerClock, end: GenerationEnd, totals: JobTotals): object {
  return {
    done: true,
    done_reason: end.reason,
    ...durationsOf(clock),
    prompt_eval_count: facts.numPromptTokens,
    eval_count: totals.numOutputTokens,
    ...evictedField(totals),
  };
}

const head = ({ model }: AnswerFacts): object => ({ model, created_at: new Date().toISOString() });

export function answerObject(facts: AnswerFacts, result: ChoiceResult, clock: AnswerClock, totals: JobTotals) {
  const items = itemsOf(result);
  const textOf = (kind: AnswerItem["kind"]) =>
    items
      .filter((item) => item.kind === kind)
      .map(({ text }) => text)
      .join("");
  const calls = items.filter(({ kind }) => kind === "call").map(callObject);
  const news = { content: textOf("content"), thinking: textOf("reasoning"), calls };
  const scored = facts.logprobs(result.said);
  return { ...head(facts), ...facts.shape(news), ...scored, ...lastFields(facts, clock, result.end, totals) };
}

/** The answer to a request without a prompt, with which clients load a model in advance. */
export function loadedObject(facts: AnswerFacts, isUnloaded: boolean): object {
  const news = { content: "", thinking: "", calls: [] };
  return { ...head(facts), ...facts.shape(news), done: true, done_reason: isUnloaded ? "unload" : "load" };
}

export function answerFrames(facts: AnswerFacts): StreamFrames {
  const items: AnswerItem[] = [];
  const clock = new AnswerClock(facts.startMs);
  let numCallsSent = 0;
  let end: GenerationEnd = { reason: "stop", stopReason: null };
  /** Tokens that no line has reported yet. */
  let said: ScoredToken[] = [];
  const line = (news: Parameters<LineShape>[0], last: object = { done: false }): string => {
    const scored = facts.logprobs(said);
    said = [];
    return `${JSON.stringify({ ...head(facts), ...facts.shape(news), ...scored, ...last })}\n`;
  };
  /** Calls are sent complete, since their arguments are objects. */
  const endedCalls = (isOver: boolean): string => {
    const calls = items.filter(({ kind }, i) => kind === "call" && (isOver || i < items.length - 1));
    const first = numCallsSent;
    const news = calls.slice(first);
    numCallsSent = calls.length;
    return news.length === 0
      ? ""
      : line({ content: "", thinking: "", calls: news.map((call, i) => callObject(call, first + i)) });
  };
  return {
    contentType: "application/x-ndjson",
    heartbeat: "",
    onUpdate(_index, update) {
      clock.update(update);
      if (update.end !== undefined) end = update.end;
      for (const token of update.said) said.push(token);
      let lines = "";
      for (const part of partsOf(update)) {
        if (addPart(items, part)) lines += endedCalls(false);
        const text = textOfPart(part);
        if (text === "" || part.kind === "call" || part.kind === "arguments") continue;
        const isThought = part.kind === "reasoning";
        lines += line({ content: isThought ? "" : text, thinking: isThought ? text : "", calls: [] });
      }
      return lines;
    },
    onDone(totals) {
      const last = lastFields(facts, clock, end, totals);
      return endedCalls(true) + line({ content: "", thinking: "", calls: [] }, last);
    },
    onError: (error) => `${JSON.stringify(ollamaErrorBody(error, facts.requestId))}\n`,
  };
}
