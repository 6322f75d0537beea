/** With each sampler of llama.cpp, drafts that come true and drafts that do not change no token and no probability. */
import { expect, test } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { OracleDrafter } from "../../src/bench/engine/oracle-drafter.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import type { DryPenalty, SamplingParams } from "../../src/engine/api/request.js";
import {
  DEFAULT_SPECULATIVE_CONFIG,
  NO_SPECULATION,
  type SpeculativeConfig,
} from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import type { Drafter } from "../../src/engine/speculative/drafter.js";
import { openModel } from "../../src/model/open-model.js";
import { type Completion, collect, request, runAlone } from "../helpers/engine-requests.js";
import { fixture } from "../helpers/fixtures.js";
import { TestRng } from "../helpers/rng.js";

const modelPath = fixture("models/stories260k.gguf");

async function withCore<Result>(
  speculative: SpeculativeConfig,
  drafter: Drafter | undefined,
  use: (core: EngineCore) => Promise<Result>,
): Promise<Result> {
  const backend = createCpuBackend({ isa: "portable", numThreads: 1 });
  const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, kvCacheMemoryBytes: 2 ** 24, speculative };
  const core = await EngineCore.create(openModel(modelPath), options, backend, undefined, drafter);
  try {
    return await use(core);
  } finally {
    await core.close();
    backend.destroy();
  }
}

const PROMPT = [1, 403, 407, 261, 378, 403, 407, 261, 403, 407];
const DRY: DryPenalty = { multiplier: 3, base: 1.75, allowedLength: 1, breakers: [{ heads: [261], tail: [] }] };
const HOT = { temperature: 1.2, seed: 99n };
const SAMPLERS: readonly Partial<SamplingParams>[] = [
  { repetitionPenalty: 1.5, presencePenalty: 1, penaltyWindow: 4 },
  { dry: DRY },
  { ...HOT, dry: { ...DRY, window: 9 } },
  { ...HOT, topNSigma: 1 },
  { ...HOT, typicalP: 0.5 },
  { ...HOT, xtc: { probability: 0.5, threshold: 0.05 } },
  { xtc: { probability: 0.5, threshold: 0.1 } },
  { ...HOT, dynamicTemperature: { range: 1, exponent: 1 } },
];
const requestOf = (sampling: Partial<SamplingParams>) =>
  request(PROMPT, { maxTokens: 60, numLogprobs: 1, ...sampling });

test("drafts change nothing", async () => {
  const alone = await withCore(NO_SPECULATION, undefined, async (core) => {
    const all: Completion[] = [];
    for (const sampling of SAMPLERS) all.push(await runAlone(core, requestOf(sampling)));
    return all;
  });
  const rng = new TestRng(214);
  const drafter = new OracleDrafter(
    (id) => alone[id]!.tokenIds,
    0.8,
    () => rng.next(),
    true,
  );
  const speculative = { ...DEFAULT_SPECULATIVE_CONFIG, numSpeculativeTokens: 6, isAdaptive: false };
  await withCore(speculative, drafter, async (core) => {
    for (const [id, sampling] of SAMPLERS.entries()) {
      const { speculation: before } = core.stats();
      const drafted = new Map<number, Completion>();
      core.add(id, requestOf(sampling));
      while (core.hasWork) for (const { requestId, output } of await core.step()) collect(drafted, requestId, output);
      const { tokenIds, logprobs } = drafted.get(id)!;
      expect([tokenIds, logprobs], JSON.stringify(Object.keys(sampling))).toEqual([
        alone[id]!.tokenIds,
        alone[id]!.logprobs,
      ]);
      const { speculation } = core.stats();
      const numDrafted = speculation.numDraftTokens - before.numDraftTokens;
      const numAccepted = speculation.numAcceptedTokens - before.numAcceptedTokens;
      expect(numAccepted).toBeGreaterThan(15);
      expect(numDrafted - numAccepted).toBeGreaterThan(5);
    }
  });
});
