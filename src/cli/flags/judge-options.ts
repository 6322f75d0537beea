/** The flags for a judge: a model that compares two models' answers. */
import { type Command, Option } from "commander";
import { optionError } from "../../core/option-error.js";
import type { StartStage } from "../../core/stages.js";
import type { Judge, JudgeSettings } from "../../lab/judge.js";
import type { EvalTask } from "../../quality/tasks.js";

export interface JudgeFlags {
  readonly judge?: string;
  readonly judgeModel?: string;
  readonly judgeKey?: string;
  readonly judgeLabels?: string;
  readonly baseline?: string;
  readonly stopEarly?: boolean;
  readonly maxDrop?: number;
}

export const addJudgeOptions = (command: Command): Command =>
  command
    .option("--judge <url|model>", "let this model compare the answers with the baseline's, each pair in both orders")
    .option("--judge-model <name>", "the judge's name at its URL (default: the first in its list)")
    .addOption(new Option("--judge-key <key>", "API key of the judge's server").env("MILLRACE_JUDGE_KEY"))
    .option(
      "--judge-labels <file>",
      "pairs of answers with people's verdicts as JSON lines, by which the judge is calibrated",
    );

/** Throws invalid_option for flags that require or exclude each other. */
export function checkJudgeFlags(flags: JudgeFlags): void {
  const { judge, judgeModel, judgeLabels, baseline, stopEarly, maxDrop } = flags;
  if (judge === undefined) {
    const given = judgeModel === undefined ? judgeLabels && "--judge-labels" : "--judge-model";
    if (given !== undefined) throw optionError("--judge", `given, as ${given} needs it`, "nothing");
    return;
  }
  if (judge.endsWith(".json")) throw optionError("--judge", "a URL or a model", judge);
  if (judgeModel !== undefined && !isUrl(judge))
    throw optionError("--judge-model", "left out beside a model", judgeModel);
  if (baseline === undefined) throw optionError("--baseline", "given, as --judge compares two models", "nothing");
  if (stopEarly) throw optionError("--stop-early", "left out beside --judge, whose verdicts come at the end", "both");
  if (maxDrop !== undefined && judgeLabels === undefined) {
    throw optionError("--judge-labels", "given, as --max-drop needs a calibrated judge", "nothing");
  }
}

const isUrl = (text: string): boolean => /^https?:\/\//.test(text);

/** Throws invalid_option for tasks that this command cannot compare. */
export function checkComparable(tasks: readonly EvalTask[], hasJudge: boolean): void {
  const ofFile = tasks.find(({ chats }) => chats.some(({ item }) => item !== undefined));
  const unscored = tasks.find(({ isJudged }) => isJudged === false);
  if (hasJudge) {
    if (ofFile === undefined) return;
    throw optionError("--judge", "left out for task files of lm-evaluation-harness", ofFile.name);
  }
  if (unscored === undefined) return;
  throw unscored.chats.every(({ item }) => item === undefined)
    ? optionError("--judge", "given, for chats that only a judge can compare", unscored.name)
    : optionError("--baseline", "left out for tasks without right answers", unscored.name);
}

export async function openJudgeFrom(
  { judge, judgeModel, judgeKey }: JudgeFlags,
  settings: Omit<JudgeSettings, "apiKey">,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Judge | undefined> {
  if (judge === undefined) return undefined;
  const { openJudge } = await import("../../lab/judge.js");
  const named = judgeModel === undefined ? {} : { model: judgeModel };
  const source = isUrl(judge)
    ? { kind: "server" as const, url: judge, ...named }
    : { kind: "local" as const, model: judge };
  return openJudge(source, { ...settings, apiKey: judgeKey }, startStage, signal);
}
