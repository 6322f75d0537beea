/**
 * A model that compares two answers, behind a server or in this process. It judges each pair in both orders, so that no
 * position is an advantage.
 */
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { visible } from "../core/visible-text.js";
import { askOf, openLocalSession } from "../local/session.js";
import type { EngineSettings } from "../local/start-engine.js";
import { isRefusal, type Message, runAll } from "../quality/ask.js";
import type { LabelledPair } from "../quality/judge/calibration.js";
import type { JudgedPair } from "../quality/judge/judged-pair.js";
import type { Label } from "../quality/judge/labels.js";
import { completionSchema, openRemoteModel } from "../quality/remote-model.js";
import { REFUSED_STATUSES, type Reply } from "../quality/remote-server.js";
import {
  JUDGE_SAMPLING,
  judgeMessage,
  judgementOf,
  preferenceOf,
  REPLIES,
  REPLY_FORMAT,
} from "../text/judge/preference.js";
import type { EvalSource } from "./eval-target.js";

export interface Judge {
  readonly name: string;
  /** Facts about the server or the engine, for the report. */
  readonly facts: object;
  /** Concurrent pairs. */
  readonly concurrency: number;
  /** The judge's reply; undefined if it is missing or unreadable. */
  ask(message: Message, signal: AbortSignal): Promise<string | undefined>;
  /** The reason of the first refusal; undefined: there was none. */
  refusal(): string | undefined;
  close(): Promise<void>;
}

export interface JudgeSettings {
  readonly apiKey: string | undefined;
  /** Concurrent requests, for a judge behind a server. */
  readonly concurrency: number;
  /** Settings of the engine, for a judge in this process. */
  readonly engine: EngineSettings;
}

/** Throws the errors of opening a model, and endpoint_failed. */
export function openJudge(
  source: Exclude<EvalSource, { kind: "recorded" }>,
  settings: JudgeSettings,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Judge> {
  return source.kind === "server"
    ? openServerJudge(source, settings, signal)
    : openLocalJudge(source, settings, startStage);
}

const { max_tokens: MAX_TOKENS } = JUDGE_SAMPLING;
/** A reply that takes longer counts as missing. */
const LONGEST_REPLY_MS = 300_000;

const FORM = { response_format: REPLY_FORMAT };
/**
 * Tried in this order until the server accepts one, which is used from then on: some servers have no response formats,
 * and reasoning models have no temperature.
 */
const FIELDS: readonly object[] = [{ ...JUDGE_SAMPLING, ...FORM }, JUDGE_SAMPLING, FORM, {}];

async function openServerJudge(
  { url, model }: Extract<EvalSource, { kind: "server" }>,
  { apiKey, concurrency }: JudgeSettings,
  signal: AbortSignal,
): Promise<Judge> {
  const remote = await openRemoteModel({ url, model, apiKey, temperature: 0, maxTokens: MAX_TOKENS, seed: 0 }, signal);
  /**
   * Index of the fields that the server has accepted. After that, a refusal is about the pair, for instance because it
   * is too long.
   */
  let taken: number | undefined;
  let refusal: string | undefined;
  async function ask(message: Message, stop: AbortSignal): Promise<string | undefined> {
    const body = { model: remote.name, messages: [message] };
    let reply: Reply | undefined;
    for (const [index, fields] of FIELDS.entries()) {
      if (taken !== undefined && index !== taken) continue;
      reply = await remote.post("/v1/chat/completions", { ...body, ...fields }, stop);
      if (reply.status === 200) taken ??= index;
      if (!REFUSED_STATUSES.includes(reply.status)) break;
    }
    const { status, text } = reply!;
    if (status === 200) return textOf(text);
    const got = `${status}: ${text.slice(0, 300)}`;
    if (REFUSED_STATUSES.includes(status)) {
      refusal ??= got;
      return undefined;
    }
    throw new MillraceError("endpoint_failed", `expected a verdict from ${url}, got ${got}`, {
      hint: "check the judge's address, --judge-model and --judge-key",
    });
  }
  const facts = { url };
  const close = (): Promise<void> => remote.close();
  return { name: remote.name, facts, concurrency, ask: withinTime(ask), refusal: () => refusal, close };
}

function textOf(body: string): string | undefined {
  try {
    return completionSchema.safeParse(JSON.parse(body)).data?.choices[0]?.message.content ?? undefined;
  } catch {
    return undefined;
  }
}

const withinTime =
  (ask: Judge["ask"]): Judge["ask"] =>
  async (message, signal) => {
    const late = AbortSignal.timeout(LONGEST_REPLY_MS);
    try {
      return await ask(message, AbortSignal.any([signal, late]));
    } catch (thrown) {
      if (late.aborted && !signal.aborted) return undefined;
      throw thrown;
    }
  };

async function openLocalJudge(
  { model }: Extract<EvalSource, { kind: "local" }>,
  { engine }: JudgeSettings,
  startStage: StartStage,
): Promise<Judge> {
  const sampling = { temperature: 0, maxTokens: MAX_TOKENS, topP: 1, topK: 0, minP: 0, seed: 0n };
  const session = await openLocalSession({ ...(model && { model }), engine }, sampling, startStage);
  let refusal: string | undefined;
  try {
    const ofMessages = askOf(session, () => 0, { kind: "choice", choices: REPLIES });
    const ask: Judge["ask"] = async (message, signal) => {
      try {
        return (await ofMessages([message], signal)).text;
      } catch (thrown) {
        // The model refuses this pair, for instance because it exceeds the context.
        if (!isRefusal(thrown)) throw thrown;
        refusal ??= thrown.message;
        return undefined;
      }
    };
    const facts = { engine: session.engine.info };
    const close = (): Promise<void> => session.close();
    return { name: session.name, facts, concurrency: engine.maxNumSeqs, ask, refusal: () => refusal, close };
  } catch (thrown) {
    await session.close();
    throw thrown;
  }
}

export interface AnswerPair {
  readonly prompt: readonly Message[];
  /** The judged answer, and the answer that it is compared with. */
  readonly own: string;
  readonly other: string;
}

/** Judgements in the order of the pairs. @param onProgress called with the number of pairs done */
export async function judgePairs(
  judge: Judge,
  pairs: readonly AnswerPair[],
  onProgress: (numDone: number) => void,
  signal: AbortSignal,
): Promise<JudgedPair[]> {
  const judged: JudgedPair[] = new Array(pairs.length);
  let numDone = 0;
  await runAll(pairs, judge.concurrency, async (pair, index) => {
    judged[index] = await judgePair(judge, pair, signal);
    onProgress(++numDone);
  });
  return judged;
}

async function judgePair(judge: Judge, { prompt, own, other }: AnswerPair, signal: AbortSignal): Promise<JudgedPair> {
  const lengths = [own.length, other.length] as const;
  if (own.trim() === other.trim()) return { judgement: "tied", replies: [], lengths };
  const ask = async (first: string, second: string) => {
    signal.throwIfAborted();
    return preferenceOf(await judge.ask(judgeMessage(prompt, first, second), signal));
  };
  const [there, back] = [await ask(own, other), await ask(other, own)];
  return { judgement: judgementOf(there, back), replies: [there, back], lengths };
}

/** The judge's verdicts on pairs with human verdicts. */
export async function judgeLabels(
  judge: Judge,
  labels: readonly Label[],
  startStage: StartStage,
  signal: AbortSignal,
): Promise<LabelledPair[]> {
  const pairs = labels.map(({ prompt, answers: [own, other] }) => ({ prompt, own, other }));
  const judged = await judgeInStage(judge, pairs, `labels, judged by ${judge.name}`, startStage, signal);
  return judged.map((pair, index) => ({ ...pair, human: labels[index]!.human }));
}

export async function judgeInStage(
  judge: Judge,
  pairs: readonly AnswerPair[],
  name: string,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<JudgedPair[]> {
  const stage = startStage(name);
  const judged = await judgePairs(judge, pairs, (numDone) => stage.update(`${numDone} of ${pairs.length}`), signal);
  stage.done(`${pairs.length} pairs`);
  const refusal = judge.refusal();
  if (refusal !== undefined) stage.note(`the judge refused a pair: ${visible(refusal)}`);
  return judged;
}
