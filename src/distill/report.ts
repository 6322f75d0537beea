/** The report of a distillation: student against teacher on held-out prompts, which training never used. */

import { type Difference, type Estimate, pairedDifference } from "../bench/measure/intervals.js";
import type { MachineInfo, Versions } from "../bench/results/machine.js";
import type { Message } from "../quality/ask.js";
import { wilsonInterval } from "../quality/wilson.js";
import type { Verdict } from "./judge.js";
import type { AnswerSpeed, Pace, SpeedComparison } from "./speed.js";

export interface ComparedItem {
  readonly id: string;
  readonly prompt: readonly Message[];
  readonly teacher: Verdict & { readonly answer: string };
  readonly student: Verdict & { readonly answer: string };
}

export interface Quality {
  /** Mean score, 0 to 1. */
  readonly score: number;
  /** Share of fully right answers, as in `eval`, and Wilson's 95 % interval. */
  readonly right: number;
  readonly rightInterval: readonly [low: number, high: number];
}

export interface QualityComparison {
  readonly numItems: number;
  readonly teacher: Quality;
  readonly student: Quality;
  /** Student − teacher, paired by prompt, in points of score. */
  readonly difference: Difference;
}

/** @param items at least one */
export function compareQuality(items: readonly ComparedItem[]): QualityComparison {
  const [teacher, student] = [items.map((item) => item.teacher), items.map((item) => item.student)];
  const scoresOf = (verdicts: readonly Verdict[]) => verdicts.map(({ score }) => score);
  return {
    numItems: items.length,
    teacher: qualityOf(teacher),
    student: qualityOf(student),
    difference: pairedDifference(scoresOf(student), scoresOf(teacher)),
  };
}

function qualityOf(verdicts: readonly Verdict[]): Quality {
  const numRight = verdicts.filter(({ exact }) => exact).length;
  return {
    score: verdicts.reduce((sum, { score }) => sum + score, 0) / verdicts.length,
    right: numRight / verdicts.length,
    rightInterval: wilsonInterval(numRight, verdicts.length),
  };
}

export interface ModelSize {
  readonly numParameters: number;
  readonly weightBytes: number;
}

export interface DistillReport {
  readonly teacher: { readonly name: string; readonly url: string | undefined; readonly size: ModelSize | undefined };
  readonly student: { readonly path: string; readonly config: string; readonly size: ModelSize };
  /** The judge: a task's checks, or a command. */
  readonly judge: string;
  readonly sampling: { readonly temperature: number; readonly maxTokens: number; readonly seed: number };
  readonly prompts: {
    readonly file: string;
    /** Complete answers of the teacher that fit into the student's context, at least in part. */
    readonly numTrained: number;
    /** Answers among these that the context cuts off. */
    readonly numTrainedCut: number;
    readonly numHeldOut: number;
    readonly numRefused: number;
    readonly numCutOff: number;
  };
  readonly training: { readonly steps: number; readonly heldOutLoss: number | undefined };
  readonly quality: QualityComparison;
  /** undefined: the teacher runs elsewhere, or no prompt fits with an answer. */
  readonly speed: SpeedComparison | undefined;
  /** For a teacher that runs elsewhere. */
  readonly answerSpeed: AnswerSpeed | undefined;
  /** The reason why there is no speed. */
  readonly speedProblem: string | undefined;
  /** Characters per token in the held-out answers, if the models have different tokenizers. */
  readonly textPerToken: { readonly teacher: number; readonly student: number } | undefined;
  readonly items: readonly ComparedItem[];
  readonly machine: MachineInfo;
  readonly versions: Versions;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
const millions = (count: number): string => `${(count / 1e6).toFixed(2)} M`;
const mebibytes = (bytes: number): string => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

function interval({ low, high }: Difference | Estimate, digits: number): string {
  return low === undefined || high === undefined ? "" : ` (95 %: ${low.toFixed(digits)} to ${high.toFixed(digits)})`;
}

/** The table's rows: name, teacher, student. */
export function reportRows({ teacher, student, quality, speed, answerSpeed }: DistillReport): string[][] {
  const row = <T>(name: string, of: { teacher: T | undefined; student: T | undefined }, show: (value: T) => string) => [
    name,
    ...[of.teacher, of.student].map((value) => (value === undefined ? "—" : show(value))),
  ];
  const sizes = { teacher: teacher.size, student: student.size };
  const paces: { teacher: Pace | undefined; student: Pace | undefined } = speed ?? {
    teacher: undefined,
    student: undefined,
  };
  return [
    row("mean score", quality, ({ score }) => score.toFixed(3)),
    row("right", quality, ({ right, rightInterval: [low, high] }) => {
      return `${percent(right)} (95 %: ${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)})`;
    }),
    row("parameters", sizes, ({ numParameters }) => millions(numParameters)),
    row("weights", sizes, ({ weightBytes }) => mebibytes(weightBytes)),
    ...(answerSpeed === undefined
      ? []
      : [
          [
            "whole answers, per token",
            ...[answerSpeed.teacherMs, answerSpeed.studentMs].map((ms) => `${ms.toFixed(3)} ms`),
          ],
        ]),
    row("time per token", paces, ({ tokenMs }) => `${tokenMs.toFixed(3)} ms`),
    row("tokens/s", paces, ({ tokensPerS }) => tokensPerS.toFixed(0)),
    row("first token after", paces, ({ firstTokenMs }) => `${firstTokenMs.toFixed(2)} ms`),
    ...(speed?.loaded === undefined
      ? []
      : [
          [
            `machine time per token, ${speed.loaded.numSequences} at once`,
            ...[speed.loaded.teacherMs, speed.loaded.studentMs].map((ms) => `${ms.toFixed(3)} ms`),
          ],
        ]),
  ];
}

/** Conclusions from the table, one per line. */
export function findings(report: DistillReport): string[] {
  const { teacher, student, quality, speed, answerSpeed, speedProblem, textPerToken } = report;
  const { difference, numItems } = quality;
  const lines = [
    `Quality, student − teacher: ${difference.value.toFixed(3)}${interval(difference, 3)} in score, paired over ${numItems} held-out prompts.`,
  ];
  if (difference.low === undefined) lines.push("No interval: too few prompts, or equal differences.");
  if (speed !== undefined) {
    lines.push(
      `Speed, one client, each model alone, in alternation: a token is ${speed.decoding.value.toFixed(2)} times as fast${interval(speed.decoding, 2)}, the first one ${speed.firstToken.value.toFixed(2)} times${interval(speed.firstToken, 2)}.`,
    );
    const { loaded } = speed;
    if (loaded !== undefined) {
      lines.push(
        `Cost, ${loaded.numSequences} prompts at once: a token of the student, its share of the prompt included, takes ${percent(1 / loaded.ratio.value)} of the teacher's time, ${loaded.ratio.value.toFixed(2)} times less${interval(loaded.ratio, 2)}.`,
      );
    }
  } else if (answerSpeed !== undefined) {
    const { ratio } = answerSpeed;
    lines.push(
      `Speed as one client sees it, whole answers by their tokens, in alternation: ${ratio.value.toFixed(2)} times as fast as the teacher at ${teacher.url}${interval(ratio, 2)}, with its network and its machine.`,
    );
  } else lines.push(`Speed: not measured, since ${speedProblem}.`);
  const tokenRatio = speed?.decoding ?? answerSpeed?.ratio;
  if (textPerToken !== undefined && tokenRatio !== undefined) {
    const ratio = (tokenRatio.value * textPerToken.student) / textPerToken.teacher;
    lines.push(
      `Their tokens differ: ${textPerToken.teacher.toFixed(2)} characters per token for the teacher, ${textPerToken.student.toFixed(2)} for the student. By characters, the student is ${ratio.toFixed(2)} times as fast.`,
    );
  }
  if (teacher.size !== undefined) {
    const parameters = student.size.numParameters / teacher.size.numParameters;
    const bytes = student.size.weightBytes / teacher.size.weightBytes;
    lines.push(`Size: ${percent(parameters)} of the parameters, ${percent(bytes)} of the bytes.`);
  }
  return lines;
}

export function reportMarkdown(report: DistillReport): string {
  const { teacher, student, judge, sampling, prompts, training, machine, versions } = report;
  const rows = reportRows(report).map((cells) => `| ${cells.join(" | ")} |`);
  const loss =
    training.heldOutLoss === undefined ? "" : `, held-out loss ${training.heldOutLoss} nats per answer token`;
  const cut = prompts.numTrainedCut === 0 ? "" : ` The student's context cuts off ${prompts.numTrainedCut}.`;
  return `${[
    `# ${student.config} student of ${teacher.name}`,
    "",
    `Trained for ${training.steps} steps on ${prompts.numTrained} answers${loss}. Prompts: \`${prompts.file}\`; ${prompts.numHeldOut} held out by a hash of their text, ${prompts.numRefused} refused, ${prompts.numCutOff} answers cut off (never trained on).${cut}`,
    `Judged by ${judge}; temperature ${sampling.temperature}, at most ${sampling.maxTokens} tokens, seed ${sampling.seed}.`,
    "",
    `| | teacher | student |`,
    "|---|---|---|",
    ...rows,
    "",
    ...findings(report).map((line) => `- ${line}`),
    "",
    `${machine.cpu}, ${machine.numCpus} CPUs, ${machine.platform}; millrace ${versions.millrace}, node ${versions.node}. Every answer with its score: \`report.json\`.`,
  ].join("\n")}\n`;
}
