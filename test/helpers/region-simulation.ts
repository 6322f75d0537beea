/**
 * Regions of gateways with instances of their own, in virtual time and behind the real router. Each gateway knows its
 * instances and, farther away, the other regions, whose gateways take turns. A region may lose its instances for a
 * while: its gateways then send everything to the next region.
 */
import type { PrefixKeys } from "../../src/fleet/routing/key-source.js";
import { DEFAULT_ROUTING, type RoutedRequest, Router } from "../../src/fleet/routing/router.js";
import { TestPool, upstreamOf } from "./fleet-pool.js";
import {
  CACHE_BLOCKS,
  MS_PER_OUTPUT_TOKEN,
  MS_PER_PROMPT_TOKEN,
  SEATS,
  SimulatedInstance,
  type SimulatedRequest,
  TOKENS_PER_BLOCK,
} from "./fleet-simulation.js";

interface RegionPlan {
  readonly numRegions: number;
  readonly gatewaysPerRegion: number;
  readonly instancesPerGateway: number;
  /** One way between two regions. */
  readonly wayMs: number;
  /** The region without instances in between. */
  readonly outage: { readonly region: number; readonly fromMs: number; readonly toMs: number };
}

/** A request's fate. */
export interface Fate {
  readonly arrivalMs: number;
  /** Region whose gateway the client asked, and region whose instance answered. */
  readonly home: number;
  readonly served: number;
  readonly firstTokenMs: number;
  readonly numBlocks: number;
  readonly numHits: number;
}

/** A queue of events by time. */
class Heap {
  readonly #events: { readonly atMs: number; readonly act: () => void }[] = [];
  nowMs = 0;

  at(atMs: number, act: () => void): void {
    const events = this.#events;
    events.push({ atMs, act });
    for (let i = events.length - 1; i > 0; ) {
      const parent = (i - 1) >> 1;
      if (events[parent]!.atMs <= events[i]!.atMs) break;
      [events[i], events[parent]] = [events[parent]!, events[i]!];
      i = parent;
    }
  }

  run(): void {
    for (let event = this.#pop(); event !== undefined; event = this.#pop()) {
      this.nowMs = event.atMs;
      event.act();
    }
  }

  #pop() {
    const events = this.#events;
    const [first] = events;
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    events[0] = last;
    for (let i = 0; ; ) {
      const [left, right] = [2 * i + 1, 2 * i + 2];
      let least = i;
      if (left < events.length && events[left]!.atMs < events[least]!.atMs) least = left;
      if (right < events.length && events[right]!.atMs < events[least]!.atMs) least = right;
      if (least === i) return first;
      [events[i], events[least]] = [events[least]!, events[i]!];
      i = least;
    }
  }
}

interface Pending {
  readonly request: SimulatedRequest;
  readonly home: number;
  readonly isFromAfar: boolean;
  /** Ends the lease of the gateway that sent the request here. */
  readonly onEnd: () => void;
}

interface Gateway {
  readonly region: number;
  readonly pool: TestPool;
  readonly router: Router;
  readonly waiting: Pending[];
}

/** @param requests with the region each is asked in, by turns */
export function simulateRegions(requests: readonly SimulatedRequest[], plan: RegionPlan): readonly Fate[] {
  const { numRegions, gatewaysPerRegion, instancesPerGateway, wayMs, outage } = plan;
  const heap = new Heap();
  const fates: Fate[] = [];
  const instances = new Map<string, SimulatedInstance>();
  const turns = new Array<number>(numRegions).fill(0);
  const idsOf = (name: string) => Array.from({ length: instancesPerGateway }, (_, i) => `${name}-${i}`);

  const gatewayOf = (region: number, index: number): Gateway => {
    const ids = idsOf(`r${region}g${index}`);
    for (const id of ids) instances.set(id, new SimulatedInstance());
    const capacity = { seats: SEATS, kvTokens: CACHE_BLOCKS * TOKENS_PER_BLOCK, blockSize: 16 };
    const own = ids.map((id) => upstreamOf(id, { capacity }));
    const others = Array.from({ length: numRegions - 1 }, (_, i) => {
      const target = { url: "http://127.0.0.1:9", apiKey: undefined, modelName: undefined, distance: i + 1 };
      return upstreamOf(`region-${(region + i + 1) % numRegions}`, { target });
    });
    const pool = new TestPool([...own, ...others]);
    const gateway: Gateway = {
      region,
      pool,
      waiting: [],
      router: new Router(
        pool,
        () => DEFAULT_ROUTING,
        () => TOKENS_PER_BLOCK,
        () => admit(gateway),
        () => heap.nowMs,
      ),
    };
    return gateway;
  };
  const regions = Array.from({ length: numRegions }, (_, region) =>
    Array.from({ length: gatewaysPerRegion }, (_, index) => gatewayOf(region, index)),
  );
  const nextGateway = (region: number) => regions[region]![turns[region]!++ % gatewaysPerRegion]!;

  const admit = (gateway: Gateway): void => {
    while (gateway.waiting.length > 0 && send(gateway, gateway.waiting[0]!)) gateway.waiting.shift();
  };
  const enter = (gateway: Gateway, pending: Pending): void => {
    if (gateway.waiting.length > 0 || !send(gateway, pending)) gateway.waiting.push(pending);
  };
  /** @returns whether there was a seat */
  const send = (gateway: Gateway, pending: Pending): boolean => {
    const { request, home, isFromAfar, onEnd } = pending;
    const { keys, outputTokens } = request;
    const prefix: PrefixKeys = { keys, numBlocks: keys.length + 0.5, promptTokens: keys.length * TOKENS_PER_BLOCK };
    const routed: RoutedRequest = { model: "m", prefix, outputTokens, numSequences: 1, session: undefined, isFromAfar };
    const lease = gateway.router.acquire(routed, []);
    if (typeof lease === "string") return false;
    const instance = instances.get(lease.upstream.id);
    if (instance === undefined) {
      const region = Number(lease.upstream.id.split("-")[1]);
      const forwarded = {
        request,
        home,
        isFromAfar: true,
        onEnd: () => heap.at(heap.nowMs + wayMs, () => lease.end("answered")),
      };
      heap.at(heap.nowMs + wayMs, () => enter(nextGateway(region), forwarded));
      return true;
    }
    const numHits = instance.cache.numMatched(keys);
    instance.cache.add(keys);
    const promptMs = (keys.length - numHits) * TOKENS_PER_BLOCK * MS_PER_PROMPT_TOKEN;
    const prefilledMs = Math.max(heap.nowMs, instance.prefillFreeMs) + promptMs;
    instance.prefillFreeMs = prefilledMs;
    heap.at(prefilledMs, () => {
      lease.promptDone(true);
      const firstTokenMs = heap.nowMs + (isFromAfar ? wayMs : 0) - request.arrivalMs;
      const numBlocks = keys.length;
      fates.push({ arrivalMs: request.arrivalMs, home, served: gateway.region, firstTokenMs, numBlocks, numHits });
    });
    heap.at(prefilledMs + outputTokens * MS_PER_OUTPUT_TOKEN, () => {
      lease.end("answered");
      onEnd();
    });
    return true;
  };

  for (const [i, request] of requests.entries()) {
    const home = i % numRegions;
    heap.at(request.arrivalMs, () => enter(nextGateway(home), { request, home, isFromAfar: false, onEnd: () => {} }));
  }
  const setOutage = (state: "failed" | "ready") => {
    for (const [index, { pool }] of regions[outage.region]!.entries()) {
      for (const id of idsOf(`r${outage.region}g${index}`)) {
        if (state === "ready") instances.get(id)!.cache.clear();
        pool.change(id, { state });
      }
    }
  };
  heap.at(outage.fromMs, () => setOutage("failed"));
  heap.at(outage.toMs, () => setOutage("ready"));
  heap.run();
  for (const { router } of regions.flat()) router.close();
  return fates;
}
