/**
 * Instances that exist only as arithmetic, behind the real router: requests arrive, wait for a seat, have the part of
 * their prompt computed that the instance's cache does not hold (one prompt at a time), then take a fixed time per
 * output token. Time is virtual, so a run is the same every time.
 */

import { GuessedIndex } from "../../src/fleet/routing/guessed-index.js";
import type { PrefixKeys } from "../../src/fleet/routing/key-source.js";
import type { RoutingPolicyName } from "../../src/fleet/routing/policies.js";
import { DEFAULT_ROUTING, type Lease, Router, type RoutingOptions } from "../../src/fleet/routing/router.js";
import type { EngineMetrics } from "../../src/fleet/upstream/engine.js";
import { TestPool, upstreamOf } from "./fleet-pool.js";

export interface SimulatedRequest {
  readonly arrivalMs: number;
  readonly keys: readonly number[];
  readonly outputTokens: number;
}

interface SimulationOptions {
  readonly policy: RoutingPolicyName;
  readonly numInstances: number;
  readonly beta?: number;
  /**
   * Routers that know nothing of each other and take turns at the requests; more than one sees the others' work only in
   * scrapes.
   */
  readonly numGateways?: number;
  readonly scrapeEveryMs?: number;
  /** The last instance is ready only from then on. */
  readonly lastReadyAtMs?: number;
}

interface SimulationResult {
  /** Where each request went, in the order of arrival. */
  readonly chosen: readonly { readonly atMs: number; readonly instance: number }[];
  /** Share of all prompt blocks that were in the cache of the instance they came to. */
  readonly hitRate: number;
  readonly meanFirstTokenMs: number;
  /** Of each instance ÷ mean of all: prompt and output tokens it was given to do. */
  readonly relativeWork: readonly number[];
  /** Of each instance ÷ mean of all: requests on it, averaged over time. */
  readonly relativeLoad: readonly number[];
}

export const TOKENS_PER_BLOCK = 32;
export const SEATS = 16;
export const CACHE_BLOCKS = 2_000;
export const MS_PER_PROMPT_TOKEN = 0.1;
export const MS_PER_OUTPUT_TOKEN = 10;

interface Running {
  readonly request: SimulatedRequest;
  readonly lease: Lease;
}

export class SimulatedInstance {
  readonly cache = new GuessedIndex(CACHE_BLOCKS);
  readonly waiting: Running[] = [];
  numRunning = 0;
  prefillFreeMs = 0;
  work = 0;
  /** Requests × milliseconds. */
  presence = 0;

  get metrics(): EngineMetrics {
    return { ...NO_METRICS, numRunning: this.numRunning, numWaiting: this.waiting.length };
  }
}

const NO_METRICS: EngineMetrics = {
  numRunning: undefined,
  numWaiting: undefined,
  kvUsage: undefined,
  preemptions: undefined,
  promptTokens: undefined,
  generationTokens: undefined,
  prefixQueries: undefined,
  prefixHits: undefined,
  draftTokens: undefined,
  acceptedTokens: undefined,
};

class Agenda {
  readonly #events: { readonly atMs: number; readonly act: () => void }[] = [];
  nowMs = 0;

  at(atMs: number, act: () => void): void {
    let index = this.#events.length;
    while (index > 0 && this.#events[index - 1]!.atMs <= atMs) index--;
    this.#events.splice(index, 0, { atMs, act });
  }

  run(): void {
    for (let event = this.#events.pop(); event !== undefined; event = this.#events.pop()) {
      this.nowMs = event.atMs;
      event.act();
    }
  }
}

export function simulate(requests: readonly SimulatedRequest[], options: SimulationOptions): SimulationResult {
  const { policy, numInstances, beta = 1, numGateways = 1, lastReadyAtMs = 0 } = options;
  const agenda = new Agenda();
  const ids = Array.from({ length: numInstances }, (_, i) => `instance-${i}`);
  const instances = new Map(ids.map((id) => [id, new SimulatedInstance()]));
  // The instances' own queues are what is simulated, so none is kept in front of them.
  const routing = { ...DEFAULT_ROUTING, policy, beta, seatFactor: Number.POSITIVE_INFINITY };
  const gateways = Array.from({ length: numGateways }, () => gatewayOf(ids, routing, agenda));
  const last = ids.at(-1)!;
  if (lastReadyAtMs > 0) for (const { pool } of gateways) pool.change(last, { state: "starting" });
  agenda.at(lastReadyAtMs, () => {
    for (const { pool } of gateways) pool.change(last, { state: "ready" });
  });
  const endMs = requests.at(-1)!.arrivalMs;
  for (let atMs = 0; options.scrapeEveryMs !== undefined && atMs < endMs; atMs += options.scrapeEveryMs) {
    agenda.at(atMs, () => {
      for (const { pool } of gateways) {
        for (const [id, { metrics }] of instances) pool.change(id, { metrics });
      }
    });
  }
  const chosen: { atMs: number; instance: number }[] = [];
  let [numBlocks, numHits, firstTokenMs] = [0, 0, 0];

  const start = (instance: SimulatedInstance, { request, lease }: Running): void => {
    instance.numRunning++;
    const numCached = instance.cache.numMatched(request.keys);
    instance.cache.add(request.keys);
    numBlocks += request.keys.length;
    numHits += numCached;
    const promptTokens = (request.keys.length - numCached) * TOKENS_PER_BLOCK;
    const prefilledMs = Math.max(agenda.nowMs, instance.prefillFreeMs) + promptTokens * MS_PER_PROMPT_TOKEN;
    instance.prefillFreeMs = prefilledMs;
    instance.work += promptTokens + request.outputTokens;
    agenda.at(prefilledMs, () => {
      lease.promptDone(true);
      firstTokenMs += agenda.nowMs - request.arrivalMs;
    });
    agenda.at(prefilledMs + request.outputTokens * MS_PER_OUTPUT_TOKEN, () => {
      lease.end("answered");
      instance.numRunning--;
      instance.presence += agenda.nowMs - request.arrivalMs;
      const next = instance.waiting.shift();
      if (next !== undefined) start(instance, next);
    });
  };
  const arrive = (request: SimulatedRequest): void => {
    const { keys, outputTokens } = request;
    const prefix: PrefixKeys = { keys, numBlocks: keys.length + 0.5, promptTokens: keys.length * TOKENS_PER_BLOCK };
    const { router } = gateways[chosen.length % numGateways]!;
    const lease = router.acquire({ model: "m", prefix, outputTokens, numSequences: 1, session: undefined }, []);
    if (typeof lease === "string") throw new Error(`expected a lease, got ${lease}`);
    const instance = instances.get(lease.upstream.id)!;
    chosen.push({ atMs: agenda.nowMs, instance: ids.indexOf(lease.upstream.id) });
    if (instance.numRunning < SEATS) start(instance, { request, lease });
    else instance.waiting.push({ request, lease });
  };
  for (const request of requests) agenda.at(request.arrivalMs, () => arrive(request));
  agenda.run();
  for (const { router } of gateways) router.close();
  const all = [...instances.values()];
  return {
    chosen,
    hitRate: numHits / numBlocks,
    meanFirstTokenMs: firstTokenMs / requests.length,
    relativeWork: relative(all.map(({ work }) => work)),
    relativeLoad: relative(all.map(({ presence }) => presence)),
  };
}

function gatewayOf(ids: readonly string[], routing: RoutingOptions, agenda: Agenda) {
  const capacity = { seats: SEATS, kvTokens: CACHE_BLOCKS * TOKENS_PER_BLOCK, blockSize: 16 };
  const pool = new TestPool(ids.map((id) => upstreamOf(id, { capacity })));
  const router = new Router(
    pool,
    () => routing,
    () => TOKENS_PER_BLOCK,
    () => {},
    () => agenda.nowMs,
  );
  return { pool, router };
}

function relative(values: readonly number[]): number[] {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value / mean);
}
