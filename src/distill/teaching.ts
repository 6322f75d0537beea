/**
 * Options of both kinds of training, and their common steps: a locked folder, checksums, and a file from which training
 * starts.
 */
import { createHash } from "node:crypto";
import { readdirSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { acquireFileLock } from "../core/file-lock.js";
import { optionError } from "../core/option-error.js";
import type { StartStage } from "../core/stages.js";
import { contentHashOf } from "../formats/content-hash.js";
import { readGguf } from "../formats/gguf/read.js";
import { textFilesOf } from "../formats/hf/folder.js";
import type { EngineSettings, ModelSource } from "../local/start-engine.js";
import { readTemplateFile } from "../text/text-side.js";
import { untrainable } from "./trainer.js";

export interface TeachingOptions {
  /** A file of JSON lines. */
  readonly prompts: string;
  /** The folder of answers, checkpoints, trained files and reports. */
  readonly out: string;
  readonly holdoutShare: number;
  /** Longest answer, in tokens. */
  readonly maxTokens: number;
  readonly seed: number;
  readonly steps: number;
  /** A GGUF file with initial weights; absent: training starts from new ones. */
  readonly initFrom?: string;
  /** Factor on the usual learning rates. */
  readonly lrScale: number;
  readonly device: "cpu" | "cuda";
  /** A file that replaces the teacher's own template. */
  readonly chatTemplate?: string;
  /** Settings of engines in this process. */
  readonly engine: EngineSettings;
  /** The user's text, which is one of the terms of saved answers. */
  readonly kvCacheDtype: string;
}

export const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Runs `run` while no other run writes to the folder; waits for another run to end first. */
export async function inOwnFolder<T>(
  { out }: Pick<TeachingOptions, "out">,
  startStage: StartStage,
  signal: AbortSignal,
  run: () => Promise<T>,
): Promise<T> {
  const release = await acquireFileLock(
    join(out, "lock"),
    () => startStage("lock").note(`another run is writing into ${out}; waiting for its end`),
    signal,
  );
  try {
    return await run();
  } finally {
    release();
  }
}

/** A model that answers or is measured in this process. */
export function sourceOf({ engine, chatTemplate }: TeachingOptions, model: string): ModelSource {
  return { model, engine, ...(chatTemplate === undefined ? {} : { chatTemplate }) };
}

/** Plain sampling at a temperature, without the model's own defaults. */
export const samplingOf = ({ maxTokens, seed }: TeachingOptions, temperature: number) => ({
  temperature,
  maxTokens,
  topP: 1,
  topK: 0,
  minP: 0,
  seed: BigInt(seed),
});

/** SHA-256 of a model's files: the shards of a GGUF file, or the weights and descriptions of a folder. */
export function modelHash(path: string, startStage: StartStage): string {
  const stage = startStage("checksum");
  const inFolder = (): string[] => {
    const weights = readdirSync(path).filter((name) => name.endsWith(".safetensors"));
    return [...weights.map((name) => join(path, name)), ...textFilesOf(path)].sort();
  };
  const files = statSync(path).isDirectory() ? inFolder() : readGguf(path).shards.map((shard) => shard.path);
  const hash = contentHashOf(files, (fraction) => stage.update(`${Math.round(100 * fraction)} %`));
  stage.done(hash.slice(0, 12));
  return hash;
}

/**
 * Throws invalid_option where the trainer cannot start from --init-from.
 *
 * @param tokenizerPath the model whose tokenizer is used; undefined where the trainer makes its own
 */
export function checkInitFrom({ initFrom, out }: TeachingOptions, tokenizerPath: string | undefined): void {
  if (initFrom === undefined) return;
  if (dirname(resolve(initFrom)) === resolve(out)) {
    throw optionError("--init-from", "a file outside the folder of --out, where it would be overwritten", initFrom);
  }
  const file = readGguf(initFrom);
  const problem = untrainable(file, "network");
  if (problem !== undefined) throw optionError("--init-from", `a model of the mill family, not ${problem}`, initFrom);
  const tokensOf = ({ metadata }: typeof file) => metadata.get("tokenizer.ggml.tokens");
  if (tokenizerPath !== undefined && !isDeepStrictEqual(tokensOf(file), tokensOf(readGguf(tokenizerPath)))) {
    throw optionError("--init-from", `a model with the tokens of ${tokenizerPath}`, initFrom);
  }
}

/** SHA-256 of a template file; undefined without one. Throws file_unreadable. */
export function templateHash(path: string | undefined): string | undefined {
  return path === undefined ? undefined : sha256(Buffer.from(readTemplateFile(path)));
}
