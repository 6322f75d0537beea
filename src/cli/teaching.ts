/** What `distill` and `train-drafter` share: their options, a local model's answers to a file of prompts, and the trainer's command line. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { Command } from "commander";
import { MillraceError } from "../core/errors.js";
import { acquireFileLock } from "../core/file-lock.js";
import { type Ask, type Collected, type Collecting, collectAnswers } from "../distill/answers.js";
import type { Corpora } from "../distill/collection.js";
import { type Split, seedOf } from "../distill/prompts.js";
import type { HeldOutLog } from "../distill/trainer.js";
import type { ChatTemplate } from "../text/template/chat-template.js";
import { cpuCores, defaultNumThreads } from "./cpu.js";
import { addEngineOptions, type EngineFlags } from "./engine-options.js";
import { chatPromptIds, type LocalSession, openLocalSession } from "./local-session.js";
import { readTemplateFile } from "./model.js";
import { integerIn, numberIn, oneOf, optionError } from "./option-values.js";
import type { StartStage } from "./stages.js";

export interface TeachingFlags extends EngineFlags {
  readonly prompts: string;
  readonly out: string;
  readonly holdoutShare: number;
  readonly maxTokens: number;
  readonly seed: number;
  readonly steps: number;
  readonly initFrom?: string;
  readonly lrScale: number;
  readonly device: "cpu" | "cuda";
  readonly chatTemplate?: string;
}

const MANY = Number.MAX_SAFE_INTEGER;

export function addTeachingOptions(command: Command, defaultSteps: number): Command {
  command
    .requiredOption(
      "--prompts <file>",
      'JSON lines of {"messages"}, perhaps with "family" and "check"; a last answer is not asked for',
    )
    .requiredOption("--out <folder>", "folder of answers, checkpoints, the trained file and the report")
    .option(
      "--holdout-share <share>",
      "share of the prompts that is held out of training, chosen by their text",
      numberIn("--holdout-share", 0, 1),
      0.1,
    )
    .option("--max-tokens <n>", "tokens of an answer at most", integerIn("--max-tokens", 1, MANY), 1024)
    .option("--seed <n>", "seed of sampling and training", integerIn("--seed", 0, 2 ** 31 - 1), 1)
    .option("--steps <n>", "of training", integerIn("--steps", 1, MANY), defaultSteps)
    .option("--init-from <gguf>", "start from this file's weights instead of new ones")
    .option(
      "--lr-scale <factor>",
      "factor on the usual learning rates; about 0.3 for weights that need little more",
      numberIn("--lr-scale", 0.001, 10),
      1,
    )
    .option("--device <name>", "device that trains: cpu or cuda", oneOf("--device", ["cpu", "cuda"]), "cpu");
  return addEngineOptions(command);
}

/** Throws template_missing where the model has none. */
export function templateOf({ name, chatTemplate }: LocalSession): ChatTemplate {
  if (chatTemplate !== undefined) return chatTemplate;
  throw new MillraceError("template_missing", `expected a model with a chat template, got ${name} without`, {
    hint: "give --chat-template",
  });
}

/** Sampling is the session's, but for the seed, from which each prompt gets its own. */
export function askOf(session: LocalSession, seed: number): Ask {
  const template = templateOf(session);
  return async (messages, signal) => {
    const promptIds = chatPromptIds(session.tokenizer, template, messages);
    const { text, end, numPromptTokens, numOutputTokens } = await session.answer(
      promptIds,
      () => {},
      signal,
      seedOf(seed, messages),
    );
    if (end === "cancelled") throw signal.reason;
    return { text, end, numPromptTokens, numOutputTokens };
  };
}

export async function collectInStage(what: Collecting, name: string, startStage: StartStage): Promise<Collected> {
  const stage = startStage(name);
  const startMs = performance.now();
  const collected = await collectAnswers(what, ({ numDone, numAll, numOutputTokens }) => {
    const seconds = (performance.now() - startMs) / 1000;
    const left = Math.round((seconds / numDone) * (numAll - numDone));
    stage.update(`${numDone} of ${numAll}, ${(numOutputTokens / seconds).toFixed(0)} tokens/s, ${left} s left`);
  });
  const { numAnswers, numResumed, numRefused, refusal } = collected;
  if (refusal !== undefined) stage.note(`${numRefused} prompts refused, the first: ${refusal}`);
  if (numAnswers === 0 && refusal !== undefined) {
    throw new MillraceError("teacher_failed", `expected ${name} to some prompt, got refusals of all: ${refusal}`, {
      hint: "give shorter prompts; a server may also want --max-tokens to fit into the context behind them",
    });
  }
  stage.done(`${numAnswers} of ${what.prompts.length}${numResumed === 0 ? "" : `, ${numResumed} of them from before`}`);
  return collected;
}

/** Who answers: a model of this machine, or whoever `ask` reaches. */
export interface AnswerSource {
  readonly name: string;
  readonly path: string | undefined;
  readonly contentHash: string | undefined;
  readonly url?: string | undefined;
  readonly ask?: Ask | undefined;
  /** Of `ask`. */
  readonly concurrency?: number;
}

/** What changes a local model's answers beside its file and the sampling. */
function engineSettings({ chatTemplate, maxModelLen, activationDtype, kvCacheDtype }: TeachingFlags) {
  const template = chatTemplate === undefined ? undefined : sha256(Buffer.from(readTemplateFile(chatTemplate)));
  return { chatTemplate: template, maxModelLen, activationDtype, kvCacheDtype };
}

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Runs it while no other run writes into the folder of --out; where one does, waits for its end. */
export async function inOwnFolder<T>(
  { out }: TeachingFlags,
  startStage: StartStage,
  signal: AbortSignal,
  run: () => Promise<T>,
): Promise<T> {
  const release = await acquireFileLock(
    join(out, "lock"),
    () => startStage("lock").note(`another run writes into ${out}; this one waits for its end`),
    signal,
  );
  try {
    return await run();
  } finally {
    release();
  }
}

/** As `openLocalSession` takes them. */
export const sessionFlags = <T extends TeachingFlags>(flags: T, model: string) => ({
  ...flags,
  model,
  topP: 1,
  topK: 0,
  minP: 0,
  seed: BigInt(flags.seed),
});

/** Has all prompts answered and writes what trainers read. A local model is only started where answers are missing. */
export async function collectCorpora(
  { name, path, contentHash, url, ask, concurrency = 1 }: AnswerSource,
  split: Split,
  flags: TeachingFlags & { readonly temperature: number },
  startStage: StartStage,
  signal: AbortSignal,
): Promise<{ readonly corpora: Corpora; readonly numRefused: number }> {
  const { openCollection, writeCorpora } = await import("../distill/collection.js");
  const { temperature, maxTokens, seed, out } = flags;
  const settings = path === undefined ? { url } : engineSettings(flags);
  const file = openCollection(out, { teacher: name, contentHash, temperature, maxTokens, seed, settings });
  const prompts = [...split.heldOut, ...split.training];
  const job = { file, prompts, signal };
  const isOpen = prompts.some(({ id }) => file.get(id) === undefined);
  if (path === undefined || !isOpen) {
    const missing: Ask = () => Promise.reject(new Error("every prompt has its answer"));
    const { numRefused } = await collectInStage({ ...job, ask: ask ?? missing, concurrency }, "answers", startStage);
    return { corpora: writeCorpora(out, file, split), numRefused };
  }
  const session = await openLocalSession(sessionFlags(flags, path), startStage);
  try {
    const local = { ...job, ask: askOf(session, seed), concurrency: flags.maxNumSeqs };
    const { numRefused } = await collectInStage(local, "answers", startStage);
    return { corpora: writeCorpora(out, file, split), numRefused };
  } finally {
    await session.close();
  }
}

/** SHA-256 of what a model's path leads to: its shards, or a folder's weights and descriptions. */
export async function modelHash(path: string, startStage: StartStage): Promise<string> {
  const [{ contentHashOf }, { readGguf }] = await Promise.all([
    import("../formats/content-hash.js"),
    import("../formats/gguf/read.js"),
  ]);
  const stage = startStage("checksum");
  const inFolder = (): string[] =>
    readdirSync(path)
      .filter((name) => /\.(safetensors|json|jinja)$/.test(name))
      .sort()
      .map((name) => join(path, name));
  const files = statSync(path).isDirectory() ? inFolder() : readGguf(path).shards.map((shard) => shard.path);
  const hash = contentHashOf(files, (fraction) => stage.update(`${Math.round(100 * fraction)} %`));
  stage.done(hash.slice(0, 12));
  return hash;
}

/**
 * Throws invalid_option where --init-from names what the trainer cannot start from.
 * @param tokenizerPath of the model whose tokens are learnt; undefined where the trainer makes its own
 */
export async function checkInitFrom(
  { initFrom, out }: TeachingFlags,
  tokenizerPath: string | undefined,
): Promise<void> {
  if (initFrom === undefined) return;
  if (dirname(resolve(initFrom)) === resolve(out)) {
    throw optionError("--init-from", "a file outside the folder of --out, where it would be overwritten", initFrom);
  }
  const [{ untrainable }, { readGguf }] = await Promise.all([
    import("../distill/trainer.js"),
    import("../formats/gguf/read.js"),
  ]);
  const file = readGguf(initFrom);
  const problem = untrainable(file, "network");
  if (problem !== undefined) throw optionError("--init-from", `a model of the mill family, not ${problem}`, initFrom);
  const tokensOf = ({ metadata }: typeof file) => metadata.get("tokenizer.ggml.tokens");
  if (tokenizerPath !== undefined && !isDeepStrictEqual(tokensOf(file), tokensOf(readGguf(tokenizerPath)))) {
    throw optionError("--init-from", `a model with the tokens of ${tokenizerPath}`, initFrom);
  }
}

interface TrainPlan {
  readonly python: string;
  /** Of train.py: the command, and what is special about it. */
  readonly args: readonly string[];
  /** The model it reads: the option that names it, and what it is wherever it lies. */
  readonly model: { readonly flag: string; readonly path: string; readonly contentHash: string };
  readonly corpora: Corpora;
  readonly outPath: string;
}

export interface Trained extends HeldOutLog {
  readonly runFolder: string;
}

/** Runs train.py. What is trained on, and how, names the run's folder: the same again goes on from its checkpoint, anything else begins anew. */
export async function trainInStage(
  { python, args, model, corpora, outPath }: TrainPlan,
  flags: TeachingFlags,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Trained> {
  const { train, trainerSource } = await import("../distill/trainer.js");
  const { steps, seed, device, initFrom, lrScale } = flags;
  const terms = [...args, "--steps", String(steps), "--seed", String(seed), "--device", device];
  terms.push("--lr-scale", String(lrScale));
  const contents = [
    model.contentHash,
    sha256(readFileSync(corpora.trainingPath)),
    initFrom === undefined ? "" : sha256(readFileSync(initFrom)),
    sha256(Buffer.from(trainerSource())),
  ];
  const hash = sha256(Buffer.from(JSON.stringify([terms, contents])));
  const runFolder = join(flags.out, `run-${hash.slice(0, 8)}`);
  const files = [
    model.flag,
    model.path,
    "--corpus",
    corpora.trainingPath,
    "--run",
    runFolder,
    "--out",
    outPath,
    "--holdout",
    corpora.heldOutPath,
    "--holdout-chats",
    String(Math.max(1, corpora.heldOut.length)),
    ...(initFrom === undefined ? [] : ["--init-from", initFrom]),
  ];
  const threads = ["--threads", String(flags.threads ?? defaultNumThreads(cpuCores()))];
  const stage = startStage("training");
  const job = {
    python,
    args: [...terms, ...files, ...threads],
    runFolder,
    steps,
    onLine: (line: string) => stage.update(line),
  };
  const log = await train(job, signal);
  stage.done(`${steps} steps, held-out loss ${log.losses.all ?? "unknown"}, ${outPath}`);
  return { ...log, runFolder };
}
