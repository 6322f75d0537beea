/**
 * Copies of models without their text side, and greedy answers of a model to fixed prompts, with log-probabilities,
 * computed in process from activations, keys and values that are not rounded.
 */
import { expect } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { openForCopy, writeCopy } from "../../src/convert/convert.js";
import { type CopyNote, type FolderStorage, plainStorage, type Storage } from "../../src/convert/weights/tensors.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { NO_SPECULATION } from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { type OpenModel, openModel } from "../../src/model/open-model.js";
import { inTurn, request, runAlone } from "./engine-requests.js";

const PROMPTS = [[1, 5, 9, 2, 7, 40, 41], Array.from({ length: 40 }, (_, i) => (i * 37) % 200), [3]];

export async function completionsOf(path: string, prompts: readonly (readonly number[])[] = PROMPTS) {
  const backend = createCpuBackend({ numThreads: 1, activationDtype: "f32" });
  const model = openModel(path);
  const options = {
    modelPath: path,
    numThreads: 1,
    maxModelLen: 128,
    kvCacheMemoryBytes: 1 << 25,
    kvCacheDtype: "f32",
    speculative: NO_SPECULATION,
  } as const;
  try {
    const core = await EngineCore.create(model, { ...DEFAULT_ENGINE_OPTIONS, ...options }, backend);
    const answers = await inTurn(prompts, (prompt) =>
      runAlone(core, request(prompt, { numLogprobs: 2, maxTokens: 12 })),
    );
    await core.close();
    return answers.map(({ tokenIds, logprobs }) => ({ tokenIds, logprobs }));
  } finally {
    backend.destroy();
  }
}

type Completions = Awaited<ReturnType<typeof completionsOf>>;

/** The order of a head's rows is another, and so is the order in which attention sums their products. */
export function expectClose(got: Completions, expected: Completions): void {
  expect(got.map(({ tokenIds }) => tokenIds)).toEqual(expected.map(({ tokenIds }) => tokenIds));
  const logprobs = (completions: Completions) => completions.flatMap((each) => each.logprobs.map((one) => one.logprob));
  const wanted = logprobs(expected);
  for (const [i, logprob] of logprobs(got).entries()) expect(Math.abs(logprob - wanted[i]!)).toBeLessThan(1e-3);
}

/** The tiny models' tokenizers have other sizes than their embeddings, or characters without a token. */
export function weightsOnly(
  path: string,
  out: string,
  change = (model: OpenModel): OpenModel => model,
  storageOf = (_: OpenModel): Storage | FolderStorage => plainStorage("F32"),
): void {
  const source = { path, model: change(openForCopy(path, out)), text: undefined };
  const progress = { onWritten: () => {}, onNote: () => {} };
  for (const _ of writeCopy(out, out.endsWith(".gguf"), source, storageOf(source.model), progress));
}

/** What is noted while a file is written. */
export function notesOfFile(path: string, out: string): readonly string[] {
  const notes: string[] = [];
  const source = { path, model: openForCopy(path, out), text: undefined };
  const onNote = ({ text }: CopyNote) => void notes.push(text);
  for (const _ of writeCopy(out, true, source, plainStorage("F32"), { onWritten: () => {}, onNote }));
  return notes;
}
