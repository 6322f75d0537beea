/** Scores both answers of a pair: by the prompts' checks, by equality, or by a judge. */
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { isSame } from "../gateway/cascade/compare.js";
import { lastText } from "../gateway/routes/request-facts.js";
import { runAll } from "../quality/ask.js";
import { requireConfinementFor } from "../quality/code-score.js";
import { scoreAnswer } from "../quality/score-answer.js";
import {
  JUDGE_SAMPLING,
  judgeMessage,
  judgementOf,
  type Preference,
  preferenceOf,
  REPLY_FORMAT,
  shownPart,
} from "../text/judge/preference.js";
import type { ModelClient } from "./ask-model.js";
import type { Pair } from "./pairs.js";

export type Label = "check" | "equal" | "judge";

/** Scores from 0 to 1. */
export interface Qualities {
  readonly small: number;
  readonly large: number;
}

/** Least share of verdicts: below it the judge cannot judge these pairs. */
const MIN_VERDICTS = 0.75;

/** The default: checks where every prompt has one, else equality. */
export function labelFor(pairs: readonly Pair[]): Label {
  const hasChecks = pairs.every(({ prompt: { check, expected } }) => check !== undefined && expected !== undefined);
  return hasChecks ? "check" : "equal";
}

/** A fully right answer scores 1, every other one 0. */
export async function byChecks(pairs: readonly Pair[]): Promise<Qualities[]> {
  const missing = pairs.find(({ prompt: { check, expected } }) => check === undefined || expected === undefined);
  if (missing !== undefined) {
    const message = `expected a check and an expected answer in line ${missing.prompt.line}, got none`;
    throw new MillraceError("invalid_option", message, { hint: "add them, or use --label equal or judge" });
  }
  await requireConfinementFor(pairs.map(({ prompt }) => prompt.check));
  const qualities: Qualities[] = new Array(pairs.length);
  await runAll(pairs, 4, async ({ prompt: { check, expected, messages }, small, large }, index) => {
    const [ofSmall, ofLarge] = await Promise.all(
      [small, large].map((answer) => scoreAnswer(check!, expected!, answer.text, { prompt: messages, end: "stop" })),
    );
    qualities[index] = { small: Number(ofSmall!.exact), large: Number(ofLarge!.exact) };
  });
  return qualities;
}

/** The large model's answer counts as right by definition. */
export function byEquality(pairs: readonly Pair[]): Qualities[] {
  return pairs.map(({ small, large }) => ({ small: Number(isSame(small.text, large.text)), large: 1 }));
}

/**
 * A model compares both answers in both orders. Both count as good unless it prefers one of them in both orders; a pair
 * without a verdict is undefined. Throws invalid_option for a judge that seldom gives a verdict.
 */
export async function byJudge(
  pairs: readonly Pair[],
  client: ModelClient,
  model: string,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<(Qualities | undefined)[]> {
  const stage = startStage(`judgements of ${model}`);
  const qualities: (Qualities | undefined)[] = new Array(pairs.length);
  let numDone = 0;
  let numWithout = 0;
  await runAll(pairs, 4, async ({ prompt, small, large }, index) => {
    qualities[index] = isSame(small.text, large.text)
      ? { small: 1, large: 1 }
      : await judged(lastText({ messages: prompt.messages }), small.text, large.text);
    stage.update(`${++numDone} of ${pairs.length}`);
  });
  stage.done(`${pairs.length}, ${numWithout} without a verdict`);
  if (numWithout > (1 - MIN_VERDICTS) * pairs.length) {
    const message = `expected verdicts of ${model}, got none on ${numWithout} of ${pairs.length} pairs`;
    throw new MillraceError("invalid_option", message, { hint: "choose another --judge-model, or another --label" });
  }
  return qualities;

  async function judged(question: string, small: string, large: string): Promise<Qualities | undefined> {
    const judgement = judgementOf(await preference(question, small, large), await preference(question, large, small));
    if (judgement === "none") {
      numWithout++;
      return undefined;
    }
    return { small: Number(judgement !== "lost"), large: Number(judgement !== "won") };
  }

  async function preference(question: string, first: string, second: string): Promise<Preference | undefined> {
    const messages = [judgeMessage([{ role: "user", content: question }], shownPart(first), shownPart(second))];
    const ask = async (form: object) =>
      preferenceOf((await client.ask(model, messages, { ...JUDGE_SAMPLING, ...form }, signal)).signals.text);
    try {
      return await ask({ response_format: REPLY_FORMAT });
    } catch (thrown) {
      // Some servers refuse a response format; the question alone asks for the same reply.
      if (!(thrown instanceof MillraceError && thrown.code === "invalid_request")) throw thrown;
      return ask({});
    }
  }
}
