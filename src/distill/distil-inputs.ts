/**
 * The inputs of a distillation, checked before any work: prompts with their judge, the teacher, and a trainer for the
 * student.
 */
import { MillraceError } from "../core/errors.js";
import { optionError } from "../core/option-error.js";
import type { StartStage } from "../core/stages.js";
import { readGguf } from "../formats/gguf/read.js";
import { locateModel } from "../formats/locate-model.js";
import { scores } from "../quality/check.js";
import { requireConfinementFor, UNCONFINED_WARNING } from "../quality/code-score.js";
import { openRemoteModel, type RemoteModel } from "../quality/remote-model.js";
import type { AnswerSource } from "./collect.js";
import { termsOf } from "./collection.js";
import { type Judge, judgeByChecks, judgeByCommand } from "./judge.js";
import { promptsOfTask, readPrompts, type Split, splitPrompts } from "./prompts.js";
import type { TrainMethod } from "./student-recipe.js";
import { modelHash, type TeachingOptions } from "./teaching.js";
import { findPython, untrainable } from "./trainer.js";

export interface DistillOptions extends TeachingOptions {
  /** A model as for --model, or the address of an OpenAI-compatible server. */
  readonly teacher: string;
  readonly teacherModel?: string;
  readonly apiKey?: string;
  readonly concurrency: number;
  readonly tokenizerFrom?: string;
  readonly studentConfig?: "tiny" | "small";
  readonly studentType: "f16" | "q8_0";
  readonly task?: string;
  readonly scorer?: string;
  readonly temperature: number;
  /** A Hugging Face folder or hf:org/repo of any family; absent: a student of the mill family is trained. */
  readonly student?: string;
  /** Method by which `student` is trained. */
  readonly trainMethod: TrainMethod;
  readonly rank: number;
  readonly maxLength?: number;
  /** False: the run only collects answers. */
  readonly train: boolean;
}

/** Output of a run: progress by stages, and lines between them. */
export interface Telling {
  readonly startStage: StartStage;
  say(line: string): void;
}

export type Teacher = Pick<AnswerSource, "name" | "path" | "contentHash" | "url">;

/** Inputs for training a student on this machine. */
export interface TrainerSide {
  readonly python: string;
  readonly tokenizer: { readonly path: string; readonly contentHash: string };
}

export interface Chosen {
  readonly split: Split;
  readonly judge?: Judge;
  readonly judgeName: string;
}

/** Reads the prompts and checks the command line, before any work. */
export async function choosePrompts(options: DistillOptions, { say }: Telling): Promise<Chosen> {
  if (options.initFrom !== undefined && options.studentConfig !== undefined) {
    throw optionError(
      "--student-config",
      "left out beside --init-from, whose shape the student has",
      options.studentConfig,
    );
  }
  checkStudent(options);
  const { task, scorer, prompts: file, holdoutShare } = options;
  if ((task === undefined) === (scorer === undefined) && (options.train || task !== undefined)) {
    const got = task === undefined ? "neither" : "both";
    throw new MillraceError("invalid_option", `expected --task or --scorer, got ${got}`, {
      hint: "answers are judged by one of the two; --no-train only collects them",
    });
  }
  const all = readPrompts(file);
  if (task === undefined) {
    const judge = scorer === undefined ? {} : { judge: judgeByCommand(scorer) };
    return { split: splitPrompts(all, holdoutShare), ...judge, judgeName: `\`${scorer}\`` };
  }
  const { training, heldOut } = splitPrompts(promptsOfTask(all, task, file), holdoutShare);
  const judged = heldOut.filter(({ check }) => check === undefined || scores(check));
  if (judged.length === 0) {
    throw new MillraceError("invalid_option", `expected held-out prompts of ${task} with checks, got none`, {
      hint: "give more prompts, or judge with --scorer",
    });
  }
  const isConfined = await requireConfinementFor(judged.map(({ check }) => check));
  if (!isConfined) say(UNCONFINED_WARNING);
  return { split: { training, heldOut: judged }, judge: judgeByChecks, judgeName: `the checks of ${task}` };
}

/** Refuses flags of the mill family's students for students of other families. */
function checkStudent({ student, studentConfig, studentType, tokenizerFrom, initFrom }: DistillOptions): void {
  if (student === undefined) return;
  const others = {
    "--student-config": studentConfig,
    "--student-type": studentType === "f16" ? undefined : studentType,
    "--tokenizer-from": tokenizerFrom,
    "--init-from": initFrom,
  };
  for (const [flag, value] of Object.entries(others)) {
    if (value !== undefined) throw optionError(flag, "left out beside --student, which has its own", value);
  }
}

export async function openRemote(url: string, options: DistillOptions, signal: AbortSignal): Promise<RemoteModel> {
  const { apiKey, temperature, maxTokens, seed } = options;
  const before = termsOf(options.out);
  // Once all answers are collected, the server is unnecessary.
  const model = options.teacherModel ?? (before?.settings?.url === url ? before.teacher : undefined);
  return openRemoteModel({ url, model, apiKey, temperature, maxTokens, seed }, signal);
}

export async function findTeacher(
  options: DistillOptions,
  remote: RemoteModel | undefined,
  startStage: StartStage,
): Promise<Teacher> {
  if (remote !== undefined) return { name: remote.name, path: undefined, contentHash: undefined };
  const { path, name } = await locateModel(options.teacher, startStage);
  return { name, path, contentHash: modelHash(path, startStage) };
}

/** undefined if the run only collects answers; a note gives the reason. Throws python_missing. */
export async function findTrainer(
  options: DistillOptions,
  { path: teacherPath, contentHash }: Teacher,
  startStage: StartStage,
): Promise<TrainerSide | undefined> {
  if (!options.train) return undefined;
  const problemOf = (path: string): string | undefined =>
    path.endsWith(".gguf") ? untrainable(readGguf(path), "tokenizer") : "a model that is no GGUF file";
  const { tokenizerFrom } = options;
  if (tokenizerFrom !== undefined) {
    const problem = problemOf(tokenizerFrom);
    if (problem !== undefined)
      throw optionError("--tokenizer-from", `a model of the mill family, not ${problem}`, tokenizerFrom);
    const python = await findPython();
    return { python, tokenizer: { path: tokenizerFrom, contentHash: modelHash(tokenizerFrom, startStage) } };
  }
  const problem = teacherPath === undefined ? "a teacher behind a URL" : problemOf(teacherPath);
  if (problem === undefined) {
    return { python: await findPython(), tokenizer: { path: teacherPath!, contentHash: contentHash! } };
  }
  startStage("student").note(
    `no student is trained: its tokenizer must be the mill family's, and this is ${problem}; give --tokenizer-from`,
  );
  return undefined;
}
