/** A self-contained folder that trains a student of any family, here or on a machine with GPUs. */
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { mergeAdapter } from "../convert/lora/merge-adapter.js";
import { MillraceError } from "../core/errors.js";
import { packageRoot } from "../core/package-root.js";
import type { StartStage } from "../core/stages.js";
import { openModel } from "../model/open-model.js";
import { loadTextSide } from "../text/text-side.js";
import type { Corpora } from "./collection.js";
import { type Example, type Examples, examplesOf } from "./student-examples.js";
import { modelHash, sha256, type TeachingOptions } from "./teaching.js";
import type { Trained } from "./train-run.js";
import { runScript } from "./trainer.js";

export type TrainMethod = "lora" | "full";

/** Usual learning rates: adapters start at zero, and need ten times the rate. */
const RATES = { lora: 2e-4, full: 2e-5 } as const satisfies Readonly<Record<TrainMethod, number>>;
const BATCH = 4;
const SCRIPT = "student.py";

/** Python packages that a student's training needs. */
export const STUDENT_PACKAGES = "torch transformers peft accelerate";

interface RecipeOptions extends Pick<TeachingOptions, "out" | "seed" | "steps" | "lrScale"> {
  readonly trainMethod: TrainMethod;
  readonly rank: number;
  /** Longest chat in tokens; absent: the student's context. */
  readonly maxLength?: number;
}

interface Recipe {
  readonly folder: string;
  /** The student before training: a Hugging Face folder. */
  readonly base: string;
  readonly method: TrainMethod;
  /** Name of the run: the same settings and data give the same name. */
  readonly run: string;
  readonly numUsed: number;
  readonly numTooLong: number;
}

/**
 * Writes the recipe's folder: settings, token ids, and the program that trains. Throws template_missing, and
 * invalid_option if no chat remains.
 */
export async function writeRecipe(
  base: string,
  { training, heldOut }: Pick<Corpora, "training" | "heldOut">,
  options: RecipeOptions,
  startStage: StartStage,
): Promise<Recipe> {
  const { out, seed, steps, lrScale, trainMethod: method, rank } = options;
  const folder = join(resolve(out), "recipe");
  const { contextLength } = openModel(base).config;
  const { tokenizer, chatTemplate, asyncTokenizer } = await loadTextSide(base);
  asyncTokenizer.end();
  if (chatTemplate === undefined) {
    throw new MillraceError("template_missing", `expected a student with a chat template, got ${base} without`, {
      hint: "give the instruct version of the model, or add chat_template.jinja to its folder",
    });
  }
  const reader = { tokenizer, template: chatTemplate };
  const maxLength = Math.min(contextLength, options.maxLength ?? contextLength);
  const train = examplesOf(training, reader, maxLength);
  const evaluation = examplesOf(heldOut, reader, maxLength);
  requireSome(train, "train on", maxLength);
  requireSome(evaluation, "hold out", maxLength);
  const texts = { "train.jsonl": linesOf(train.examples), "eval.jsonl": linesOf(evaluation.examples) };
  const settings = { method, rank, rate: RATES[method] * lrScale, steps, batch: BATCH, seed };
  const terms = JSON.stringify([settings, modelHash(base, startStage), texts]);
  const run = sha256(Buffer.from(terms)).slice(0, 8);
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(texts)) writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, "recipe.json"), `${JSON.stringify({ base, run, ...settings }, undefined, 1)}\n`);
  copyFileSync(join(packageRoot(), "models", "training", SCRIPT), join(folder, SCRIPT));
  return { folder, base, method, run, numUsed: train.examples.length, numTooLong: train.numTooLong };
}

const linesOf = (examples: readonly Example[]): string => examples.map((each) => `${JSON.stringify(each)}\n`).join("");

function requireSome({ examples, numTooLong }: Examples, what: string, maxLength: number): void {
  if (examples.length > 0) return;
  const got = `none of ${numTooLong} within ${maxLength} tokens`;
  throw new MillraceError("invalid_option", `expected complete answers to ${what}, got ${got}`, {
    hint: "give shorter prompts, a longer --max-length, or a student with a longer context",
  });
}

/** Commands that copy the folder to a machine with GPUs, train there, and bring the result back. */
export const elsewhere = ({ folder, base }: Recipe, teacher: string): string =>
  [
    `to train elsewhere, copy ${folder} and the student to a machine with GPUs, and run there:`,
    `  torchrun --standalone --nproc-per-node=gpu ${SCRIPT} --base STUDENT`,
    "to bring the result back:",
    `  millrace adopt ${join(folder, "student")} --base ${base} --out STUDENT-TRAINED --teacher ${teacher} --evals EVALS.jsonl`,
  ].join("\n");

/** Trains here; a stopped run resumes. @returns the trained model's folder @throws training_failed */
export async function trainStudent(
  python: string,
  { folder, base, method, run, numUsed, numTooLong }: Recipe,
  out: string,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<{ readonly path: string; readonly trained: Trained }> {
  const stage = startStage("training");
  const result = join(folder, "student");
  if (trainedRun(result)?.run !== run) {
    await runScript(python, join(folder, SCRIPT), [], (line) => stage.update(line), signal);
  }
  const { eval_loss: loss } = trainedRun(result) ?? {};
  if (loss === undefined) {
    throw new MillraceError("training_failed", `expected a trained student in ${result}, got none`, {
      hint: "the same command goes on from the last checkpoint",
    });
  }
  stage.done(`held-out loss ${loss.toFixed(4)}, ${result}`);
  const path = join(resolve(out), "student");
  if (method === "lora") {
    rmSync(path, { recursive: true, force: true });
    await mergeAdapter({ base, adapter: result, out: path }, () => {}, signal);
  }
  const runFolder = join(folder, `run-${run}`);
  mkdirSync(runFolder, { recursive: true });
  const trained = { runFolder, losses: { all: loss }, numUsed: numUsed + numTooLong, numCut: numTooLong };
  return { path: method === "lora" ? path : result, trained };
}

/** The program's record beside the weights; undefined: the training has not finished. */
function trainedRun(folder: string): { readonly run: string; readonly eval_loss: number } | undefined {
  const path = join(folder, "training.json");
  return existsSync(path) ? JSON.parse(readFileSync(path, "utf8")) : undefined;
}
