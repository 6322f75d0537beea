/** A judge's verdicts as a table, with lines about the judge's reliability. */
import { visible } from "../../core/visible-text.js";
import type { JudgeReport } from "../../lab/judge-report.js";
import { points } from "../../quality/compare.js";
import type { Calibration, GateVerdict } from "../../quality/judge/calibration.js";
import type { Correlation, JudgeBias, WinRate } from "../../quality/judge/judged-pair.js";
import { percent } from "./eval-text.js";
import { formatTable } from "./format.js";

type Interval = readonly [low: number, high: number];

const HEADER = ["task", "pairs", "won", "tied", "lost", "no verdict", "win rate", "95 % interval"];

export function judgeText(report: JudgeReport): string {
  const { judge, tasks, overall, bias, calibration, corrected } = report;
  const rows = [...(tasks.length === 1 ? [] : tasks), { task: "all", ...overall }].map(rowOf);
  return [
    formatTable([HEADER, ...rows]),
    "",
    `judge: ${visible(judge.name)}, each pair in both orders; verdicts that change with the order are ties`,
    ...biasLines(bias),
    ...(calibration === undefined ? [UNCALIBRATED] : calibrationLines(calibration)),
    ...(corrected === undefined
      ? []
      : [`win rate that people would give: ${percent(corrected.rate)} (${within(corrected.interval)})`]),
    ...(report.verdict === undefined ? [] : [gateText(report.verdict, report)]),
  ].join("\n");
}

const UNCALIBRATED = "how far people agree with the judge is not known: give --judge-labels";

const within = ([low, high]: Interval): string => `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`;

const rowOf = ({ task, numPairs, numWon, numTied, numLost, numNone, rate, interval }: JudgeReport["tasks"][number]) => [
  task,
  ...[numPairs, numWon, numTied, numLost, numNone].map(String),
  percent(rate),
  within(interval),
];

function biasLines({ firstShare, firstInterval, consistency, length }: JudgeBias): string[] {
  const choices = firstShare === undefined ? "none" : `${percent(firstShare)} (${within(firstInterval)})`;
  return [
    `place: ${choices} of its choices are the answer shown first; it says the same in both orders for ${percent(consistency)} of the pairs`,
    `length: ${correlationText(length)} between its verdicts and longer answers`,
  ];
}

const correlationText = (correlation: Correlation | undefined): string => {
  if (correlation === undefined) return "no correlation known";
  const [low, high] = correlation.interval;
  return `a correlation of ${correlation.value.toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`;
};

function calibrationLines(calibration: Calibration): string[] {
  const { numLabels, numNone, agreement, agreementInterval, chance, kappa, kappaInterval, bias, humanLength } =
    calibration;
  const [low, high] = kappaInterval.map((value) => value.toFixed(2));
  const without = numNone === 0 ? "" : `, ${numNone} without a verdict`;
  return [
    `people: it agrees with them on ${percent(agreement)} (${within(agreementInterval)}) of ${numLabels} pairs${without}; chance gives ${percent(chance)}; kappa ${kappa.toFixed(2)} (${low} to ${high})`,
    `people and length: ${correlationText(humanLength)} for people, ${correlationText(bias.length)} for the judge, on the same pairs`,
    ...(calibration.isFit
      ? []
      : ["this judge is not surely better than chance: its win rate says nothing about people's"]),
  ];
}

function gateText(verdict: GateVerdict, { maxDrop, overall }: Pick<JudgeReport, "maxDrop" | "overall">): string {
  const margin = points(maxDrop);
  const texts: Readonly<Record<GateVerdict, string>> = {
    passes: `passes: people would see losses above wins by less than ${margin} points, with 95 % confidence`,
    fails: `fails: people would see losses above wins by more than ${margin} points, with 95 % confidence`,
    undecided: `undecided: whether people would see losses above wins by ${margin} points is open after ${numPairsText(overall)}`,
    refused: "refused: a judge that is not surely better than chance decides nothing",
  };
  return texts[verdict];
}

const numPairsText = ({ numPairs }: Pick<WinRate, "numPairs">): string => `${numPairs} pairs`;
