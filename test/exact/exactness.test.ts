/**
 * The promise: batching, prefixes from disk, chunked prefill, prefix caching, pre-emption, speculation, block size and
 * thread count never change a bit, on no instruction set, with and without a grammar, in the background and not. Where
 * entries are evicted, the size of blocks counts. Random requests run one by one with everything off, then together
 * with everything on and too little KV memory; every token and log-probability must be equal. MILLRACE_EXACT_MINUTES
 * makes it longer, MILLRACE_EXACT_SEED repeats a failing round.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Backend } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import type { Isa } from "../../src/backend/cpu/library/kernels.js";
import { KV_TYPES } from "../../src/backend/ops.js";
import { OracleDrafter } from "../../src/bench/engine/oracle-drafter.js";
import { EVICTION_POLICIES, type EvictionOptions } from "../../src/engine/api/kv-eviction.js";
import type { EngineOptions } from "../../src/engine/api/options.js";
import { DEFAULT_ENGINE_OPTIONS, SCHEDULING_POLICIES } from "../../src/engine/api/options.js";
import type { EngineRequest } from "../../src/engine/api/request.js";
import {
  DEFAULT_SPECULATIVE_CONFIG,
  HEAD_KINDS,
  type HeadKind,
  NO_SPECULATION,
  type SpeculativeConfig,
} from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import type { Drafter } from "../../src/engine/speculative/drafter.js";
import { openModel } from "../../src/model/open-model.js";
import { writeEagle3 } from "../helpers/eagle3-folder.js";
import type { Completion } from "../helpers/engine-requests.js";
import { collect, runAlone } from "../helpers/engine-requests.js";
import { leastKvBudget } from "../helpers/kv-memory.js";
import { cases } from "../helpers/long.js";
import { randomMedusa, writeMedusa } from "../helpers/medusa-folder.js";
import type { RandomModelOptions } from "../helpers/random-model.js";
import { writeRandomHeads, writeRandomModel } from "../helpers/random-model.js";
import {
  DRAFTING_MODELS,
  isLatentModel,
  isRecurrentModel,
  isWindowedModel,
  RANDOM_MODELS,
  randomIds,
  randomRequest,
} from "../helpers/random-requests.js";
import { TestRng } from "../helpers/rng.js";
import { ISAS } from "../reference/compare.js";

const ISAS_HERE = ISAS.filter(({ isMissing }) => !isMissing).map(({ isa }) => isa);
const MODELS = [...RANDOM_MODELS, ...DRAFTING_MODELS];
const MAX_MODEL_LEN = 320;
const KV_BYTES_AMPLE = 64 * 1024 * 1024;

const minutes = Number(process.env.MILLRACE_EXACT_MINUTES ?? "0.1");
const onlySeed = process.env.MILLRACE_EXACT_SEED;

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-exact-"));
  for (const options of MODELS) {
    writeRandomModel(modelPath(options), { ...options, contextLength: 512 });
    for (const kind of HEAD_KINDS) writeRandomHeads(headsPath(options, kind), kind, options);
    const sizes = { width: options.width ?? 128, vocab: 384, draftVocab: 200, inputLayers: [1, 0, 1] };
    writeEagle3(headsPath(options, "eagle3"), sizes, options.seed);
    const medusa = randomMedusa({ width: sizes.width, vocab: 384, numHeads: 3, numBlocks: 1 }, options.seed);
    writeMedusa(headsPath(options, "medusa-folder"), medusa);
  }
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test(
  "together with everything on equals one by one with everything off, bit for bit",
  async () => {
    const endMs = performance.now() + minutes * 60_000;
    const totals = {
      rounds: 0,
      requests: 0,
      tokens: 0,
      preemptions: 0,
      hits: 0,
      cancelled: 0,
      drafted: 0,
      accepted: 0,
      fromDisk: 0,
      outgrown: 0,
      background: 0,
      constrained: 0,
      ended: 0,
      evicted: 0,
    };
    let seed = onlySeed === undefined ? 1 : Number(onlySeed);
    // A run without these would prove nothing; a slow machine takes more time to meet them.
    const isTelling = () =>
      totals.preemptions > cases(4, 10) &&
      totals.hits > 100 &&
      totals.cancelled > 10 &&
      totals.drafted - totals.accepted > 100 &&
      totals.accepted > 100 &&
      totals.fromDisk > cases(40, 100) &&
      totals.outgrown > cases(2, 5) &&
      totals.background > cases(400, 1000) &&
      totals.constrained > 10 &&
      totals.ended > 5 &&
      totals.evicted > 100;
    do {
      await runRound(seed, totals);
      totals.rounds++;
      seed++;
    } while (onlySeed === undefined && (performance.now() < endMs || !isTelling()));
    console.log(`exactness: ${JSON.stringify(totals)}`);
  },
  minutes * 60_000 + 300_000,
);

interface Planned {
  readonly request: EngineRequest;
  readonly arriveAtStep: number;
  readonly cancelAtStep: number | undefined;
}

type Totals = Record<
  | "requests"
  | "tokens"
  | "preemptions"
  | "hits"
  | "cancelled"
  | "drafted"
  | "accepted"
  | "fromDisk"
  /** Requests longer than all blocks of a group together: they have written to blocks that they had given back. */
  | "outgrown"
  /** Tokens of background requests. */
  | "background"
  | "constrained"
  | "ended"
  | "evicted",
  number
>;

async function runRound(seed: number, totals: Totals): Promise<void> {
  const rng = new TestRng(seed);
  const model = rng.pick(MODELS);
  const kvCacheDtype = rng.pick(KV_TYPES);
  const activationDtype = rng.pick(["auto", "int8"] as const);
  const isa = rng.pick(ISAS_HERE);
  const blockSize = rng.pick([8, 16, 32]);
  const speculative = randomSpeculation(rng, model);
  // What is evicted depends on the size of blocks, and on nothing else.
  const draftsByModel = speculative.draftModelPath !== undefined || speculative.method === "mtp";
  const mayEvict = !draftsByModel && !isRecurrentModel(model) && !isWindowedModel(model);
  const kvEviction = mayEvict && rng.chance(0.6) ? randomEviction(rng) : undefined;
  const plain = await openCore(isa, model, {
    kvEviction,
    blockSize,
    kvCacheDtype,
    activationDtype,
    numThreads: 1,
    maxNumSeqs: 1,
    maxNumBatchedTokens: MAX_MODEL_LEN,
    enablePrefixCaching: false,
    enableChunkedPrefill: false,
    kvLayout: kvEviction === undefined ? "contiguous" : "paged",
    kvCacheMemoryBytes: KV_BYTES_AMPLE,
    speculative: NO_SPECULATION,
  });
  const numBlocks = Math.ceil(MAX_MODEL_LEN / blockSize) + rng.int(0, 12);
  const maxNumSeqs = rng.int(2, 12);
  const outputs: Completion[] = [];
  const oracle = new OracleDrafter(
    (id) => outputs[id]?.tokenIds,
    rng.pick([0, 0.5, 0.9, 1]),
    () => rng.next(),
    rng.chance(0.7),
  );
  const maxNumBatchedTokens = Math.max(maxNumSeqs, rng.int(8, 96));
  const kvOptions = {
    kvCacheDtype,
    activationDtype,
    blockSize,
    maxNumSeqs,
    maxNumBatchedTokens,
    maxModelLen: MAX_MODEL_LEN,
  };
  const budget = leastKvBudget(modelPath(model), numBlocks, kvOptions);
  /** Of the smallest window, in tokens. */
  const poolTokens = Math.min(...budget.numBlocks) * blockSize;
  const fullOptions = {
    ...kvOptions,
    numThreads: rng.int(1, 3),
    kvCacheMemoryBytes: budget.kvBytes,
    kvEviction,
    speculative,
    schedulingPolicy: rng.pick(SCHEDULING_POLICIES),
    maxStepMs: rng.pick(["auto", 0, 0.01] as const),
    prefixCacheDisk:
      rng.chance(0.3) && !isRecurrentModel(model) ? { folder: join(folder, "prefixes"), maxBytes: 2 ** 30 } : undefined,
  };
  const planned = planRequests(rng, plain.core.info.vocabSize);
  for (const { request: engineRequest } of planned) outputs.push(await runAlone(plain.core, engineRequest));
  expect(plain.core.takeFailures()).toEqual([]);
  await plain.core.close();
  plain.backend.destroy();
  // With a disk, a second process finds what the first one left.
  for (let run = 0; run < (fullOptions.prefixCacheDisk === undefined ? 1 : 2); run++) {
    const full = await openCore(isa, model, fullOptions, rng.chance(0.5) ? oracle : undefined);
    try {
      const together = await runTogether(full.core, planned);
      expect(full.core.takeFailures(), `seed ${seed}, run ${run}, ${model.architecture}, ${isa}`).toEqual([]);
      planned.forEach(({ cancelAtStep }, index) => {
        const got = together.get(index);
        const what = `seed ${seed}, run ${run}, request ${index}, ${model.architecture}, ${isa}`;
        expectEqual(got, outputs[index]!, cancelAtStep !== undefined, what);
        totals.tokens += got?.tokenIds.length ?? 0;
        if (cancelAtStep !== undefined) totals.cancelled++;
        const numTokens = planned[index]!.request.promptIds.length + outputs[index]!.tokenIds.length;
        if (cancelAtStep === undefined && numTokens > poolTokens) totals.outgrown++;
        if (planned[index]!.request.isBackground) totals.background += got?.tokenIds.length ?? 0;
        if (planned[index]!.request.constraint !== undefined) {
          totals.constrained++;
          if (outputs[index]!.finishReason === "stop") totals.ended++;
        }
      });
      const stats = full.core.stats();
      expect(stats.numUsedKvBlocks).toBe(0);
      totals.requests += planned.length;
      totals.preemptions += stats.numPreemptions;
      totals.hits += stats.prefixCacheHitTokens;
      totals.drafted += stats.speculation.numDraftTokens;
      totals.accepted += stats.speculation.numAcceptedTokens;
      totals.fromDisk += stats.prefixCacheDisk.numHits;
      totals.evicted += stats.numEvictedTokens;
    } finally {
      await full.core.close();
      full.backend.destroy();
    }
  }
}

function expectEqual(got: Completion | undefined, alone: Completion, isCancelled: boolean, what: string): void {
  if (isCancelled) {
    const numTokens = got?.tokenIds.length ?? 0;
    expect(got?.tokenIds ?? [], what).toEqual(alone.tokenIds.slice(0, numTokens));
    expect(got?.logprobs ?? [], what).toEqual(alone.logprobs.slice(0, numTokens));
    return;
  }
  expect(got?.tokenIds, what).toEqual(alone.tokenIds);
  expect(got?.logprobs, what).toEqual(alone.logprobs);
  expect(got?.promptLogprobs, what).toEqual(alone.promptLogprobs);
  expect(got?.pooled, what).toEqual(alone.pooled);
  expect(got?.finishReason, what).toBe(alone.finishReason);
}

async function runTogether(core: EngineCore, planned: readonly Planned[]): Promise<Map<number, Completion>> {
  const completions = new Map<number, Completion>();
  const lastStep = Math.max(
    ...planned.map(({ arriveAtStep, cancelAtStep }) => Math.max(arriveAtStep, cancelAtStep ?? 0)),
  );
  for (let step = 0; step <= lastStep || core.hasWork; step++) {
    planned.forEach(({ request: engineRequest, arriveAtStep, cancelAtStep }, index) => {
      if (arriveAtStep === step) core.add(index, { ...engineRequest, promptIds: engineRequest.promptIds.slice() });
      if (cancelAtStep === step) core.abort(index);
    });
    if (!core.hasWork) continue;
    for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
  }
  return completions;
}

function planRequests(rng: TestRng, vocabSize: number): Planned[] {
  // Every such round starts two grammar threads.
  const isConstraining = rng.chance(0.4);
  const prefixes = Array.from({ length: 3 }, () => randomIds(rng, rng.int(1, 120), vocabSize));
  const earlier: number[][] = [];
  return Array.from({ length: rng.int(6, 20) }, (): Planned => {
    const prefix = rng.chance(0.7) ? rng.pick(prefixes).slice(0, rng.int(0, 120)) : [];
    const own = [...prefix, ...randomIds(rng, rng.int(1, rng.chance(0.15) ? 140 : 60), vocabSize)];
    // Recurrent layers find a state where a prompt goes on from another's end, and where two prompts have parted.
    const isAgain = earlier.length > 0 && rng.chance(0.3);
    const promptIds = isAgain ? [...rng.pick(earlier), ...randomIds(rng, rng.int(0, 9), vocabSize)] : own;
    if (!isAgain) earlier.push(own);
    const arriveAtStep = rng.int(0, 25);
    return {
      request: {
        ...randomRequest(rng, promptIds, vocabSize, isConstraining),
        ...(rng.chance(0.2) ? { cacheSalt: "tenant", tenant: "tenant" } : {}),
        priority: rng.int(-1, 1),
        isBackground: rng.chance(0.3),
      },
      arriveAtStep,
      cancelAtStep: rng.chance(0.2) ? arriveAtStep + rng.int(0, 20) : undefined,
    };
  });
}

function randomSpeculation(rng: TestRng, model: RandomModelOptions): SpeculativeConfig {
  const others = RANDOM_MODELS.filter((other) => !isRecurrentModel(other));
  const picked = rng.pick(["none", "auto", "ngram", "suffix", "draft_model", "heads", "eagle3"] as const);
  // Each second round of a model with a layer that drafts has its drafts, some by the default method.
  const method = model.draftLayers === undefined || rng.chance(0.5) ? picked : rng.pick(["mtp", "auto"] as const);
  const hasModel = method === "draft_model" || (method === "auto" && rng.chance(0.4));
  const hasHeads = method === "heads" || method === "eagle3" || (method === "auto" && rng.chance(0.4));
  // A draft model has no recurrent layers.
  const isOwnDrafter = rng.chance(0.5) && !isRecurrentModel(model);
  // The model itself guesses right, another one of the same vocabulary wrong, and so do heads that were not trained.
  // Heads that read a layer's keys and values find none beside latent vectors.
  const kinds = isLatentModel(model) ? (["medusa"] as const) : HEAD_KINDS;
  const kind = method === "eagle3" ? method : rng.pick([...kinds, "eagle3", "medusa-folder"] as const);
  const path = hasHeads ? headsPath(model, kind) : modelPath(isOwnDrafter ? model : rng.pick(others));
  return {
    ...DEFAULT_SPECULATIVE_CONFIG,
    method,
    draftModelPath: hasModel || hasHeads ? path : undefined,
    numSpeculativeTokens: rng.int(1, 16),
    promptLookupMin: rng.int(1, 3),
    alternatives: rng.int(0, 3),
    isAdaptive: rng.chance(0.3),
  };
}

const randomEviction = (rng: TestRng): EvictionOptions => ({
  policy: rng.pick(EVICTION_POLICIES),
  budget: rng.chance(0.5) ? { share: rng.pick([0.12, 0.25, 0.5]) } : { tokens: rng.int(1, 128) },
});

async function openCore(
  isa: Isa,
  model: RandomModelOptions,
  options: Partial<EngineOptions>,
  drafter?: Drafter,
): Promise<{ core: EngineCore; backend: Backend }> {
  const backend = createCpuBackend({ numThreads: 1, ...options, isa });
  const path = modelPath(model);
  const core = await EngineCore.create(
    openModel(path),
    { ...DEFAULT_ENGINE_OPTIONS, modelPath: path, numThreads: 1, maxModelLen: MAX_MODEL_LEN, ...options },
    backend,
    undefined,
    drafter,
  );
  return { core, backend };
}

function modelPath({ architecture, seed }: RandomModelOptions): string {
  return join(folder, `${architecture}-${seed}.gguf`);
}

function headsPath({ architecture, seed }: RandomModelOptions, kind: HeadKind | "eagle3" | "medusa-folder"): string {
  const isFile = HEAD_KINDS.some((known) => known === kind);
  return join(folder, `${architecture}-${seed}.${kind}${isFile ? ".gguf" : ""}`);
}
