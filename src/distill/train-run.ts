/** One run of the trainer: its command line, and a folder named after everything that determines the result. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defaultNumThreads } from "../core/cpu.js";
import type { StartStage } from "../core/stages.js";
import type { Corpora } from "./collection.js";
import { sha256, type TeachingOptions } from "./teaching.js";
import { type HeldOutLog, train, trainerSource } from "./trainer.js";

export interface TrainPlan {
  readonly python: string;
  /** Arguments of train.py: its command, and the options of this kind of training. */
  readonly args: readonly string[];
  /** The model that the trainer reads, and the option that names it. */
  readonly model: { readonly flag: string; readonly path: string; readonly contentHash: string };
  readonly corpora: Corpora;
  readonly outPath: string;
}

export interface Trained extends HeldOutLog {
  readonly runFolder: string;
}

/**
 * Runs train.py. The corpus and the settings determine the folder's name: the same run resumes from its checkpoint, any
 * other begins anew.
 */
export async function trainInStage(
  { python, args, model, corpora, outPath }: TrainPlan,
  options: TeachingOptions,
  startStage: StartStage,
  signal: AbortSignal,
): Promise<Trained> {
  const { steps, seed, device, initFrom, lrScale } = options;
  const terms = [...args, "--steps", String(steps), "--seed", String(seed), "--device", device];
  terms.push("--lr-scale", String(lrScale));
  const contents = [
    model.contentHash,
    sha256(readFileSync(corpora.trainingPath)),
    initFrom === undefined ? "" : sha256(readFileSync(initFrom)),
    sha256(Buffer.from(trainerSource())),
  ];
  const hash = sha256(Buffer.from(JSON.stringify([terms, contents])));
  const runFolder = join(options.out, `run-${hash.slice(0, 8)}`);
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
  const threads = ["--threads", String(options.engine.numThreads ?? defaultNumThreads())];
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
