/**
 * Collects the answers to all prompts, and writes the corpora for trainers. A model in this process starts only if
 * answers are missing.
 */
import { MillraceError } from "../core/errors.js";
import type { StartStage } from "../core/stages.js";
import { askOf, openLocalSession } from "../local/session.js";
import { type Ask, seedOf } from "../quality/ask.js";
import { type Collected, type Collecting, collectAnswers } from "./answers.js";
import { type Corpora, openCollection, writeCorpora } from "./collection.js";
import type { Split } from "./prompts.js";
import { samplingOf, sourceOf, type TeachingOptions, templateHash } from "./teaching.js";

/** The answering model: in this process, or behind `ask`. */
export interface AnswerSource {
  readonly name: string;
  /** Path of a model in this process. */
  readonly path: string | undefined;
  readonly contentHash: string | undefined;
  readonly url?: string | undefined;
  readonly ask?: Ask | undefined;
  /** Concurrent requests to `ask`. */
  readonly concurrency?: number;
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
    throw new MillraceError("endpoint_failed", `expected ${name} to some prompt, got refusals of all: ${refusal}`, {
      hint: "give shorter prompts; a server may also want --max-tokens to fit into the rest of the context",
    });
  }
  stage.done(`${numAnswers} of ${what.prompts.length}${numResumed === 0 ? "" : `, ${numResumed} of them from before`}`);
  return collected;
}

/** Settings that change a local model's answers, beside its file and the sampling. */
function engineTerms({ chatTemplate, engine, kvCacheDtype }: TeachingOptions) {
  const { maxModelLen, activationDtype } = engine;
  return { chatTemplate: templateHash(chatTemplate), maxModelLen, activationDtype, kvCacheDtype };
}

export async function collectCorpora(
  { name, path, contentHash, url, ask, concurrency = 1 }: AnswerSource,
  split: Split,
  options: TeachingOptions & { readonly temperature: number },
  startStage: StartStage,
  signal: AbortSignal,
): Promise<{ readonly corpora: Corpora; readonly numRefused: number }> {
  const { temperature, maxTokens, seed, out } = options;
  const settings = path === undefined ? { url } : engineTerms(options);
  const file = openCollection(out, { teacher: name, contentHash, temperature, maxTokens, seed, settings });
  const prompts = [...split.heldOut, ...split.training];
  const job = { file, prompts, signal };
  const isOpen = prompts.some(({ id }) => file.get(id) === undefined);
  if (path === undefined || !isOpen) {
    const missing: Ask = () => Promise.reject(new Error("every prompt has its answer"));
    const { numRefused } = await collectInStage({ ...job, ask: ask ?? missing, concurrency }, "answers", startStage);
    return { corpora: writeCorpora(out, file, split), numRefused };
  }
  const session = await openLocalSession(sourceOf(options, path), samplingOf(options, temperature), startStage);
  try {
    const askHere = askOf(session, (messages) => seedOf(seed, messages));
    const local = { ...job, ask: askHere, concurrency: options.engine.maxNumSeqs };
    const { numRefused } = await collectInStage(local, "answers", startStage);
    return { corpora: writeCorpora(out, file, split), numRefused };
  } finally {
    await session.close();
  }
}
