/**
 * The promise for encoders: a text's vector is the same bit for bit alone, among any others, in any order, on any
 * number of threads, and whoever is cancelled beside it, on every instruction set. MILLRACE_EXACT_MINUTES makes it
 * longer, MILLRACE_EXACT_SEED repeats a failing round.
 */
import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import type { Isa } from "../../src/backend/cpu/library/kernels.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../../src/engine/api/options.js";
import type { EngineRequest } from "../../src/engine/api/request.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { type Completion, collect, poolingRequest, runAlone } from "../helpers/engine-requests.js";
import { fixture } from "../helpers/fixtures.js";
import { TestRng } from "../helpers/rng.js";
import { ISAS } from "../reference/compare.js";

const NAMES = readdirSync(fixture("hf-encoders"));
const ISAS_HERE = ISAS.filter(({ isMissing }) => !isMissing).map(({ isa }) => isa);
/** Ids that every fixture's vocabulary has and none gives a meaning to. */
const [FIRST_ID, LAST_ID] = [5, 89];
const LONGEST_TEXT = 45;

/** A share of the whole run's time: rounds are short. */
const minutes = Number(process.env.MILLRACE_EXACT_MINUTES ?? "0.4") / 5;
const onlySeed = process.env.MILLRACE_EXACT_SEED;

test(
  "texts together equal texts one by one, bit for bit",
  async () => {
    const endMs = performance.now() + minutes * 60_000;
    const totals = { rounds: 0, texts: 0, steps: 0, cancelled: 0 };
    // Every model has its turn, however slow the machine.
    for (let seed = onlySeed === undefined ? 1 : Number(onlySeed); ; seed++) {
      await runRound(seed, totals);
      totals.rounds++;
      if (onlySeed !== undefined || (seed >= NAMES.length && performance.now() > endMs)) break;
    }
    console.log(`exactness of encoders: ${JSON.stringify(totals)}`);
    // Otherwise nothing was packed.
    if (onlySeed === undefined) expect(totals.steps).toBeLessThan(totals.texts / 2);
  },
  minutes * 60_000 + 120_000,
);

async function runRound(seed: number, totals: Record<"texts" | "steps" | "cancelled", number>): Promise<void> {
  const rng = new TestRng(seed);
  const name = NAMES[seed % NAMES.length]!;
  const fixed = {
    isa: rng.pick(ISAS_HERE),
    activationDtype: rng.pick(["auto", "f32", "int8"] as const),
    kvCacheDtype: rng.pick(["f32", "f16"] as const),
  };
  const texts = Array.from({ length: rng.int(5, 40) }, () => {
    const tokens = Array.from({ length: rng.int(1, LONGEST_TEXT) }, () => rng.int(FIRST_ID, LAST_ID));
    return { tokens, secondTextStart: rng.chance(0.5) ? rng.int(0, tokens.length) : undefined };
  });
  const alone: Completion[] = [];
  await withCore(name, { ...fixed, numThreads: 1, maxNumSeqs: 1 }, async (core) => {
    for (const text of texts) alone.push(await runAlone(core, requestFor(core, text)));
  });
  const shape = {
    numThreads: rng.int(1, 3),
    maxNumSeqs: rng.int(2, 64),
    maxNumBatchedTokens: rng.pick([64, 90, 4096]),
    blockSize: rng.pick([8, 16, 32]),
  };
  await withCore(name, { ...fixed, ...shape }, async (core) => {
    const order = shuffled(texts, rng);
    const together = new Map<number, Completion>();
    const cancelled = new Set(order.filter(() => rng.chance(0.1)));
    for (const index of order) core.add(index, requestFor(core, texts[index]!));
    for (; core.hasWork; totals.steps++) {
      for (const { requestId, output } of await core.step()) collect(together, requestId, output);
      for (const index of cancelled) core.abort(index);
    }
    expect(core.takeFailures()).toEqual([]);
    expect(core.stats().numUsedKvBlocks).toBe(0);
    for (const [index, { pooled }] of alone.entries()) {
      const got = together.get(index)?.pooled;
      if (got === undefined && cancelled.has(index)) continue;
      expect(got, `seed ${seed}, text ${index}, ${name}, ${fixed.isa}`).toEqual(pooled);
    }
    totals.texts += texts.length;
    totals.cancelled += cancelled.size;
  });
}

function shuffled(items: readonly unknown[], rng: TestRng): number[] {
  const keys = items.map(() => rng.next());
  return [...items.keys()].sort((a, b) => keys[a]! - keys[b]!);
}

async function withCore(
  name: string,
  options: Partial<EngineOptions> & { readonly isa: Isa; readonly numThreads: number },
  use: (core: EngineCore) => Promise<void>,
): Promise<void> {
  const backend = createCpuBackend(options);
  const path = fixture(`hf-encoders/${name}`);
  const shape = { ...DEFAULT_ENGINE_OPTIONS, modelPath: path, kvCacheMemoryBytes: 2 ** 22, ...options };
  const core = await EngineCore.create(openModel(path), shape, backend);
  try {
    await use(core);
  } finally {
    await core.close();
    backend.destroy();
  }
}

function requestFor(
  { info }: EngineCore,
  { tokens, secondTextStart }: { readonly tokens: readonly number[]; readonly secondTextStart: number | undefined },
): EngineRequest {
  const asked = poolingRequest(tokens, info.pooling);
  return secondTextStart === undefined ? asked : { ...asked, secondTextStart };
}
