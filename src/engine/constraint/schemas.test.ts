/** Two hundred random schemas: whatever a random model writes under them at temperature 1 is valid, by a validator that is not ours. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv2020 from "ajv/dist/2020.js";
import { expect, test } from "vitest";
import { type Completion, collect, request } from "../../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { randomSchema } from "../../../test/helpers/random-schema.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { loadKernels } from "../../kernels/load.js";
import { grammarOfSchema } from "../../text/grammar/json-schema.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api.js";
import { EngineCore } from "../engine-core.js";
import { openModel } from "../model/open-model.js";
import { readTokenBytes } from "./token-bytes.js";

const NUM_SCHEMAS = 200;
const OUTPUTS_PER_SCHEMA = 3;
const MAX_TOKENS = 700;

test("random outputs under random schemas are valid", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-schemas-"));
  const model = writeRandomModel(join(folder, "model.gguf"), { architecture: "llama", seed: 3, contextLength: 1024 });
  const device = loadKernels().createDevice({ numThreads: 1 });
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath: model.path, numThreads: 1, maxNumSeqs: 32 };
  const core = new EngineCore(openModel(model.path), options, device, 2 ** 28);
  try {
    const { bytes } = readTokenBytes(model.path);
    // A random model hardly ever closes what it opens.
    const logitBias = bytes.flatMap((token, id) =>
      token.length === 1 && '"}]'.includes(String.fromCharCode(token[0]!)) ? [[id, 5] as const] : [],
    );
    const rng = new TestRng(11);
    const schemas = Array.from({ length: NUM_SCHEMAS }, () => randomSchema(rng));
    schemas.forEach((schema, i) => {
      const constraint = { grammar: grammarOfSchema(schema, "json") };
      for (let j = 0; j < OUTPUTS_PER_SCHEMA; j++) {
        const stopTokenIds = [model.eosTokenId];
        const sampling = { temperature: 1, seed: BigInt(j), maxTokens: MAX_TOKENS, stopTokenIds, logitBias };
        core.add(1 + i * OUTPUTS_PER_SCHEMA + j, { ...request([1, 2, 3], sampling), constraint });
      }
    });
    const completions = new Map<number, Completion>();
    while (core.hasWork) {
      for (const { requestId, output } of core.step()) collect(completions, requestId, output);
      expect(core.takeFailures()).toEqual([]);
    }
    const ajv = new Ajv2020.default({ strict: false });
    let numCut = 0;
    for (const [requestId, { tokenIds, finishReason }] of completions) {
      if (finishReason === "length") {
        numCut++;
        continue;
      }
      const text = new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(tokenIds.map((id) => bytes[id]!)));
      const schema = schemas[Math.floor((requestId - 1) / OUTPUTS_PER_SCHEMA)]!;
      expect(ajv.validate(schema, JSON.parse(text)), `${JSON.stringify(schema)}\n${text}`).toBe(true);
    }
    console.log(`schemas: ${JSON.stringify({ outputs: completions.size, numCut, ...core.stats().constraints })}`);
    expect(completions.size).toBe(NUM_SCHEMAS * OUTPUTS_PER_SCHEMA);
    expect(numCut).toBeLessThanOrEqual(completions.size / 10);
  } finally {
    await core.close();
    device.destroy();
    rmSync(folder, { recursive: true, force: true });
  }
}, 240_000);
