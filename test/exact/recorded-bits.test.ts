/**
 * The same bits as ever: fixed requests to tiny models of every architecture, whose tokens, log-probabilities and
 * vectors are hashed for each instruction set and compared with those on record. A change of the kernels' arithmetic is
 * a decision: MILLRACE_RECORD_BITS=1 writes the record anew.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import type { Isa } from "../../src/backend/cpu/library/kernels.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { NO_SPECULATION } from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { runAlone } from "../helpers/engine-requests.js";
import { fixture, repositoryRoot } from "../helpers/fixtures.js";
import { writeRandomModel } from "../helpers/random-model.js";
import { RANDOM_MODELS, randomIds, randomRequest } from "../helpers/random-requests.js";
import { TestRng } from "../helpers/rng.js";
import { ISAS } from "../reference/compare.js";

const RECORD = join(repositoryRoot(), "test/fixtures/recorded-bits.json");
const NUM_REQUESTS = 12;
const KV_BYTES = 64 * 1024 * 1024;
const isRecording = process.env.MILLRACE_RECORD_BITS === "1";

/** By model, then by instruction set. */
type Bits = Record<string, Partial<Record<Isa, string>>>;
const record = JSON.parse(readFileSync(RECORD, "utf8")) as Bits;

let folder = "";
const models = new Map<string, () => string>([
  ["stories260k", () => fixture("models/stories260k.gguf")],
  ["mill-base", () => join(repositoryRoot(), "models/mill-base.gguf")],
]);
for (const options of RANDOM_MODELS) {
  const name = `${options.architecture} ${options.type}`;
  const path = () => join(folder, `${name}.gguf`);
  models.set(name, path);
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-bits-"));
  for (const options of RANDOM_MODELS)
    writeRandomModel(models.get(`${options.architecture} ${options.type}`)!(), options);
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  if (isRecording) writeFileSync(RECORD, `${JSON.stringify(record, null, 2)}\n`);
});

async function bitsOf(isa: Isa, modelPath: string): Promise<string> {
  const backend = createCpuBackend({ isa, numThreads: 2 });
  const options = {
    ...DEFAULT_ENGINE_OPTIONS,
    modelPath,
    numThreads: 2,
    maxModelLen: 256,
    kvCacheMemoryBytes: KV_BYTES,
    speculative: NO_SPECULATION,
  };
  const core = await EngineCore.create(openModel(modelPath), options, backend);
  const hash = createHash("sha256");
  const rng = new TestRng(26);
  const { vocabSize } = core.info;
  for (let i = 0; i < NUM_REQUESTS; i++) {
    const drawn = randomRequest(rng, randomIds(rng, rng.int(1, 120), vocabSize), vocabSize, false);
    // The record is older than bounds of thoughts and llama.cpp's samplers.
    const { thought, penaltyWindow, dry, topNSigma, typicalP, xtc, dynamicTemperature, ...sampling } = drawn.sampling;
    const request = { ...drawn, sampling };
    const { tokenIds, logprobs, promptLogprobs, pooled, finishReason } = await runAlone(core, request);
    // JSON writes every bit of a finite double.
    hash.update(JSON.stringify([tokenIds, logprobs, promptLogprobs, pooled && [...pooled], finishReason]));
  }
  await core.close();
  backend.destroy();
  return hash.digest("hex").slice(0, 32);
}

describe.each(ISAS)("$isa", ({ isa, isMissing }) => {
  test.skipIf(isMissing).for([...models.keys()])("%s", async (name, { skip }) => {
    // Instruction sets of other processors than those that a model's record was written on are not in it.
    skip(!isRecording && record[name] !== undefined && record[name][isa] === undefined, "not on record");
    const bits = await bitsOf(isa, models.get(name)!());
    if (isRecording) record[name] = { ...record[name], [isa]: bits };
    expect(bits).toBe(record[name]?.[isa]);
  });
});
