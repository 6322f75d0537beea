/** A fleet of given instances, for tests of what stands in front of it. */
import type { Capacity, Upstream, UpstreamPool } from "../../src/fleet/upstream/upstream.js";

export type UpstreamFields = Partial<Upstream> & { readonly url?: string };

const UNKNOWN: Capacity = { seats: undefined, kvTokens: undefined, blockSize: undefined };

/** Ready, of engine vllm and model "m", unless `fields` say otherwise. */
export function upstreamOf(id: string, { url = "http://127.0.0.1:9", ...fields }: UpstreamFields = {}): Upstream {
  const target = { url, apiKey: undefined, modelName: undefined };
  return {
    id,
    model: "m",
    engine: "vllm",
    state: "ready",
    isComing: false,
    target,
    starts: 1,
    capacity: UNKNOWN,
    metrics: undefined,
    ...fields,
  };
}

export class TestPool implements UpstreamPool {
  readonly failures: string[] = [];
  readonly #upstreams = new Map<string, Upstream>();
  readonly #listeners = new Set<(upstream: Upstream) => void>();

  constructor(upstreams: readonly Upstream[]) {
    for (const upstream of upstreams) this.#upstreams.set(upstream.id, upstream);
  }

  models(): readonly string[] {
    return [...new Set([...this.#upstreams.values()].map(({ model }) => model))];
  }

  upstreams(model: string): readonly Upstream[] {
    return [...this.#upstreams.values()].filter((upstream) => upstream.model === model);
  }

  onChange(listener: (upstream: Upstream) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** What comes of a reported failure, where anything does. */
  onReport: (id: string) => Promise<void> = async () => {};

  reportFailure(id: string): Promise<void> {
    this.failures.push(id);
    return this.onReport(id);
  }

  change(id: string, fields: Partial<Upstream>): void {
    const upstream = { ...this.#upstreams.get(id)!, ...fields };
    this.#upstreams.set(id, upstream);
    for (const listener of this.#listeners) listener(upstream);
  }

  add(upstream: Upstream): void {
    this.#upstreams.set(upstream.id, upstream);
  }

  /** Without telling anybody. */
  remove(id: string): void {
    this.#upstreams.delete(id);
  }
}
