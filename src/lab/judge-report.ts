/** Two models' answers to the same items, compared by a judge: the report of `millrace eval --judge`. */
import type { StartStage } from "../core/stages.js";
import { pairItems } from "../quality/compare.js";
import {
  type Calibration,
  type CorrectedRate,
  calibrate,
  correctedRate,
  type GateVerdict,
  judgeGate,
} from "../quality/judge/calibration.js";
import { biasOf, type JudgeBias, type JudgedPair, type WinRate, winRateOf } from "../quality/judge/judged-pair.js";
import type { Label } from "../quality/judge/labels.js";
import type { Judgement, Preference } from "../text/judge/preference.js";
import type { PairedResults } from "./evaluate.js";
import { type Judge, judgeInStage, judgeLabels } from "./judge.js";

export interface JudgeReport {
  readonly judge: { readonly name: string };
  readonly tasks: readonly ({ readonly task: string } & WinRate)[];
  readonly overall: WinRate;
  readonly bias: JudgeBias;
  /** Absent without human verdicts. */
  readonly calibration?: Calibration | undefined;
  /** The estimated win rate by human verdicts; absent if the judge is uncalibrated or unfit. */
  readonly corrected?: CorrectedRate | undefined;
  readonly maxDrop: number;
  /** Absent if the judge is uncalibrated. */
  readonly verdict?: GateVerdict | undefined;
  readonly pairs: readonly {
    readonly judgement: Judgement;
    /** For both orders: the preferred place; null: no verdict. */
    readonly replies: readonly (Preference | null)[];
    readonly task: string;
    readonly prompt: readonly { readonly role: string; readonly content: string }[];
    readonly before: string;
    readonly after: string;
  }[];
}

export async function calibrateJudge(
  judge: Judge,
  labels: readonly Label[],
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Calibration> {
  return calibrate(await judgeLabels(judge, labels, startStage, signal));
}

/** @param maxDrop most losses minus wins that a gate permits, as a share of the pairs */
export async function judgeResults(
  judge: Judge,
  { before, after }: Pick<PairedResults, "before" | "after">,
  calibration: Calibration | undefined,
  maxDrop: number,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<JudgeReport> {
  const { pairs } = pairItems(before, after);
  const answers = pairs.map((pair) => ({
    prompt: pair.after.prompt,
    own: pair.after.answer,
    other: pair.before.answer,
  }));
  const judged = await judgeInStage(judge, answers, `pairs, judged by ${judge.name}`, startStage, signal);
  const overall = winRateOf(judged);
  const ofTask = (task: string): JudgedPair[] => judged.filter((_, index) => pairs[index]!.task === task);
  return {
    judge: { name: judge.name, ...judge.facts },
    tasks: after.map(({ task }) => ({ task, ...winRateOf(ofTask(task)) })),
    overall,
    bias: biasOf(judged),
    calibration,
    corrected: calibration && correctedRate(overall, calibration),
    maxDrop,
    verdict: calibration && judgeGate(overall, calibration, maxDrop),
    pairs: pairs.map((pair, index) => {
      const { judgement, replies } = judged[index]!;
      const [{ prompt, answer }, other] = [pair.after, pair.before];
      // JSON lists cannot contain undefined.
      const said = replies.map((reply) => reply ?? null);
      return { task: pair.task, prompt, before: other.answer, after: answer, judgement, replies: said };
    }),
  };
}
