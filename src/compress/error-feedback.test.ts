/** Rounding with feedback on the bundled student: the order of measurements, and their use. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { convertModel } from "../convert/convert.js";
import { type StartStage, silentStages } from "../core/stages.js";
import { ErrorFeedback, weightsOf } from "./error-feedback.js";
import { Importance } from "./importance.js";
import { quantisedStorage } from "./storage.js";

const STUDENT = join(repositoryRoot(), "models/mill-student.gguf");
const TEXTS = [60, 90].map((length) => Array.from({ length }, (_, i) => (i * 37 + length) % 4000));

const SETTINGS = { model: STUDENT, texts: TEXTS, isFile: false, numThreads: 1 } as const;

async function written(mostBytes: number, startStage: StartStage = silentStages): Promise<Buffer> {
  const out = join(tempTree({}), "copy.gguf");
  const encoder = createRowEncoder(1);
  const { signal } = new AbortController();
  const feedback = await ErrorFeedback.open({ ...SETTINGS, encoder, isFile: true, mostBytes }, startStage, signal);
  try {
    const type = (model: Parameters<typeof quantisedStorage>[1]) =>
      quantisedStorage("Q4_0", model, { encoder, importance: undefined, feedback });
    await convertModel({ model: STUDENT, out, type });
    return readFileSync(out);
  } finally {
    feedback.close();
    encoder.close();
  }
}

test("layer by layer or all at once, the bytes are the same, and not those of the nearest", async () => {
  const stages: string[] = [];
  const startStage: StartStage = (name) => {
    stages.push(name);
    return silentStages(name);
  };
  const one = await written(1, startStage);
  const numStages = stages.length;
  expect(stages.slice(0, 2)).toEqual(["inputs of layer 0", "inputs of layer 1"]);
  expect(one.equals(await written(2 ** 31, startStage))).toBe(true);
  expect(stages.slice(numStages)).toEqual([`inputs of layers 0 to ${numStages - 1}`]);
  const out = join(tempTree({}), "nearest.gguf");
  const encoder = createRowEncoder(1);
  const type = (model: Parameters<typeof quantisedStorage>[1]) =>
    quantisedStorage("Q4_0", model, { encoder, importance: undefined });
  await convertModel({ model: STUDENT, out, type });
  encoder.close();
  expect(readFileSync(out).length).toBe(one.length);
  expect(readFileSync(out).equals(one)).toBe(false);
});

test("a measurement that is stopped rejects, and everything can be closed", async () => {
  const encoder = createRowEncoder(1);
  const stopped = AbortSignal.abort(new Error("stopped"));
  const feedback = await ErrorFeedback.open({ ...SETTINGS, encoder }, silentStages, stopped);
  expect(feedback.needs("token_embd.weight")).toBe(false);
  expect(feedback.needs("blk.0.attn_q.weight")).toBe(true);
  await expect(feedback.prepare()).rejects.toThrow("stopped");
  expect(feedback.of("blk.0.attn_q.weight")).toBeUndefined();
  feedback.close();
  encoder.close();
});

test("importance counts by its square root where there is feedback", async () => {
  const encoder = createRowEncoder(1);
  const importance = new Importance(new Map([["blk.0.attn_q", Float64Array.of(1, 9)]]));
  const plain = importance.of("blk.0.attn_q", 2)!;
  expect(weightsOf({ encoder, importance }, "blk.0.attn_q", 2)).toEqual(plain);
  const { signal } = new AbortController();
  const feedback = await ErrorFeedback.open({ ...SETTINGS, encoder }, silentStages, signal);
  feedback.needs("blk.0.attn_q.weight");
  await feedback.prepare();
  expect(weightsOf({ encoder, importance, feedback }, "blk.0.attn_q", 2)).toEqual(plain.map(Math.sqrt));
  feedback.close();
  encoder.close();
});
