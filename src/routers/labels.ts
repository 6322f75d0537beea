/** Says how good both answers of a pair are: by the prompts' checks, by equality, or by a judge. */
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { isSame, judgePrompt, preferenceOf } from "../gateway/cascade/compare.js";
import { lastText } from "../gateway/routes/request-facts.js";
import { runAll } from "../quality/ask.js";
import { requireConfinementFor } from "../quality/code-score.js";
import { scoreAnswer } from "../quality/score-answer.js";
import type { ModelClient } from "./ask-model.js";
import type { Pair } from "./pairs.js";

export type Label = "check" | "equal" | "judge";

/** From 0 to 1 each. */
export interface Qualities {
  readonly small: number;
  readonly large: number;
}

const MAX_JUDGE_TOKENS = 16;

/** The default: checks where every prompt has one, else equality. */
export function labelFor(pairs: readonly Pair[]): Label {
  const hasChecks = pairs.every(({ prompt: { check, expected } }) => check !== undefined && expected !== undefined);
  return hasChecks ? "check" : "equal";
}

/** Fully right is 1, everything else 0. */
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

/** The large model's answer is right by definition. */
export function byEquality(pairs: readonly Pair[]): Qualities[] {
  return pairs.map(({ small, large }) => ({ small: Number(isSame(small.text, large.text)), large: 1 }));
}

/** A model compares both answers in both orders; only what it prefers in both counts. */
export async function byJudge(
  pairs: readonly Pair[],
  client: ModelClient,
  model: string,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Qualities[]> {
  const stage = startStage(`judgements of ${model}`);
  const qualities: Qualities[] = new Array(pairs.length);
  let numDone = 0;
  await runAll(pairs, 4, async ({ prompt, small, large }, index) => {
    qualities[index] = isSame(small.text, large.text)
      ? { small: 1, large: 1 }
      : await judged(lastText({ messages: prompt.messages }), small.text, large.text);
    stage.update(`${++numDone} of ${pairs.length}`);
  });
  stage.done(`${pairs.length}`);
  return qualities;

  async function judged(question: string, small: string, large: string): Promise<Qualities> {
    const ask = async (first: string, second: string) => {
      const messages = [{ role: "user" as const, content: judgePrompt(question, first, second) }];
      const { signals } = await client.ask(model, messages, { temperature: 0, max_tokens: MAX_JUDGE_TOKENS }, signal);
      return preferenceOf(signals.text);
    };
    const [there, back] = [await ask(small, large), await ask(large, small)];
    if (there === "second" && back === "first") return { small: 0, large: 1 };
    if (there === "first" && back === "second") return { small: 1, large: 0 };
    return { small: 1, large: 1 };
  }
}
