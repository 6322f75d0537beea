/** Short convolutions of a width that no published model has. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { changedFolder } from "../../../test/helpers/changed-folder.js";
import { request } from "../../../test/helpers/engine-requests.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api/options.js";
import { EngineCore } from "../engine-core.js";

const root = mkdtempSync(join(tmpdir(), "millrace-convolution-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const backend = createCpuBackend({ numThreads: 1 });
afterAll(() => backend.destroy());

/** @param taps of each column, the oldest token's first */
async function tokensOf(taps: readonly number[]): Promise<readonly number[]> {
  const modelPath = changedFolder(fixture("hf/lfm2"), join(root, `${taps.length}`), {
    settings: { conv_L_cache: taps.length },
    tensors: (tensors) =>
      Object.fromEntries(
        Object.entries(tensors).map(([name, tensor]) => {
          if (!name.endsWith("conv.conv.weight")) return [name, tensor];
          const columns = tensor.shape[0]!;
          const values = Float32Array.from({ length: columns * taps.length }, (_, i) => taps[i % taps.length]!);
          return [name, { dtype: "F32", shape: [columns, 1, taps.length], data: new Uint8Array(values.buffer) }];
        }),
      ),
  });
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 22, maxModelLen: 40 };
  const core = await EngineCore.create(openModel(modelPath), options, backend);
  core.add(1, request([5, 6, 7, 8], { maxTokens: 12 }));
  const tokens: number[] = [];
  while (core.hasWork) for (const { output } of await core.step()) tokens.push(...output.tokenIds);
  expect(core.takeFailures()).toEqual([]);
  return tokens;
}

test("a convolution of one token is that of two whose earlier one counts nothing", async () => {
  const tokens = await tokensOf([0.75]);
  expect(tokens).toHaveLength(12);
  expect(tokens).toEqual(await tokensOf([0, 0.75]));
  expect(tokens).not.toEqual(await tokensOf([0.25, 0.5, 0.75]));
});
