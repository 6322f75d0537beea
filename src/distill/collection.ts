/** The folder of a distillation: one teacher's answers under fixed terms, and the files for trainers. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keepTerms } from "../core/kept-terms.js";
import { type AnsweredPrompt, type AnswerFile, answered, corpusOf, openAnswers } from "./answers.js";
import type { Split } from "./prompts.js";

/** All conditions of an answer beside its prompt. */
interface CollectionTerms {
  readonly teacher: string;
  /** SHA-256 of the model's files; undefined for a model behind a URL. */
  readonly contentHash: string | undefined;
  readonly temperature: number;
  readonly maxTokens: number;
  readonly seed: number;
  /** Further settings of the server or the engine: its address, a template, lossy types. */
  readonly settings: Readonly<Record<string, string | number | undefined>>;
}

const TERMS_FILE = "collection.json";

/** The terms of a folder's answers; undefined for a new folder, or one without answers. */
export function termsOf(folder: string): Partial<CollectionTerms> | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, TERMS_FILE), "utf8")) as Partial<CollectionTerms>;
  } catch {
    return undefined;
  }
}

/** Throws invalid_option if the folder's answers have other terms. */
export function openCollection(folder: string, terms: CollectionTerms): AnswerFile {
  keepTerms(folder, TERMS_FILE, terms);
  return openAnswers(join(folder, "answers.jsonl"));
}

export interface Corpora {
  readonly training: readonly AnsweredPrompt[];
  readonly heldOut: readonly AnsweredPrompt[];
  /** Files of complete answers, for models/training/train.py. */
  readonly trainingPath: string;
  readonly heldOutPath: string;
}

export function writeCorpora(folder: string, file: AnswerFile, split: Split): Corpora {
  const training = answered(file, split.training);
  const heldOut = answered(file, split.heldOut);
  const [trainingPath, heldOutPath] = [join(folder, "train.jsonl"), join(folder, "holdout.jsonl")];
  writeFileSync(trainingPath, corpusOf(training, "train on"));
  writeFileSync(heldOutPath, corpusOf(heldOut, "hold out"));
  return { training, heldOut, trainingPath, heldOutPath };
}

/** Writes the same data for TRL (conversational prompt-completion). @returns the folder */
export function writeTrlFiles(folder: string, { training, heldOut }: Corpora): string {
  const trlFolder = join(folder, "trl");
  mkdirSync(trlFolder, { recursive: true });
  const linesOf = (items: readonly AnsweredPrompt[]): string =>
    items
      .filter(({ answer }) => answer.end === "stop")
      .map(({ prompt, answer }) => {
        const completion = [{ role: "assistant", content: answer.text }];
        return `${JSON.stringify({ prompt: prompt.messages, completion })}\n`;
      })
      .join("");
  writeFileSync(join(trlFolder, "train.jsonl"), linesOf(training));
  writeFileSync(join(trlFolder, "eval.jsonl"), linesOf(heldOut));
  return trlFolder;
}
