import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { poolingRequest, runAlone } from "../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { EngineCore } from "./engine-core.js";
import { ModelStates } from "./model-states.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-states-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const IDS = Array.from({ length: 37 }, (_, i) => (i * 31 + 5) % 300);

test("a model with recurrent layers has some, too", async () => {
  const modelPath = join(folder, "recurrent.gguf");
  writeRandomModel(modelPath, { architecture: "qwen35", seed: 1, layers: 3 });
  const read = async (maxNumBatchedTokens: number) => {
    const shape = { modelPath, numThreads: 1, maxModelLen: 64, maxNumBatchedTokens };
    const states = await ModelStates.open({ ...DEFAULT_ENGINE_OPTIONS, ...shape });
    const rows: number[] = [];
    for (const ids of [IDS, IDS.slice(0, 3)]) await states.read(ids, (values) => rows.push(...values));
    states.close();
    return { rows, inputLayers: states.facts.inputLayers, numValues: states.numValues };
  };
  const { rows, inputLayers, numValues } = await read(64);
  expect((await read(5)).rows).toEqual(rows);
  expect(inputLayers).toEqual([2, 1, 2]);
  expect(rows).toHaveLength((IDS.length + 3) * numValues);
  expect(rows.slice(IDS.length * numValues)).toEqual(rows.slice(0, 3 * numValues));
});

test("states are those of the layers' inputs and of the final norm, whatever the chunks", async () => {
  const modelPath = join(folder, "model.gguf");
  writeRandomModel(modelPath, { architecture: "llama", seed: 1, type: "F32", width: 64, ff: 96, layers: 1 });
  const shape = { modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 22, maxModelLen: 64 };
  const read = async (maxNumBatchedTokens: number) => {
    const states = await ModelStates.open({ ...DEFAULT_ENGINE_OPTIONS, ...shape, maxNumBatchedTokens });
    const rows: number[] = [];
    await states.read(IDS, (values) => rows.push(...values));
    await states.read(IDS.slice(0, 3), (values) => rows.push(...values));
    const { embedding, output } = states.tables();
    states.close();
    return { rows, embedding, output, facts: states.facts, numValues: states.numValues };
  };
  const { rows, embedding, output, facts, numValues } = await read(64);
  expect((await read(5)).rows).toEqual(rows);
  expect(facts).toMatchObject({ width: 64, vocabSize: 384, numHeads: 4, numKvHeads: 2, headDim: 16, ffWidth: 96 });
  // Of one layer, all three are the embeddings.
  expect(facts.inputLayers).toEqual([0, 0, 0]);
  expect([embedding.length, output.length, numValues]).toEqual([384 * 64, 384 * 64, 4 * 64]);
  const backend = createCpuBackend({ numThreads: 1 });
  const core = await EngineCore.create(openModel(modelPath), { ...DEFAULT_ENGINE_OPTIONS, ...shape }, backend);
  for (const [position, id] of IDS.entries()) {
    const at = position * numValues;
    const embedded = [...embedding.subarray(id * 64, (id + 1) * 64)];
    expect(rows.slice(at, at + 192)).toEqual([...embedded, ...embedded, ...embedded]);
    const { pooled } = await runAlone(core, poolingRequest(IDS.slice(0, position + 1), "last"));
    expect(rows.slice(at + 192, at + 256)).toEqual([...pooled!]);
  }
  expect(rows.slice(IDS.length * numValues)).toEqual(rows.slice(0, 3 * numValues));
  await core.close();
  backend.destroy();
});
