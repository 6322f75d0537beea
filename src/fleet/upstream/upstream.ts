/** What routing and proxying see of the fleet: OpenAI-compatible servers with a state, whatever engine runs in them and whoever started it. */
import type { EngineMetrics, EngineName } from "./engine.js";

/** Where requests go. */
export interface UpstreamTarget {
  /** Without a path, for instance http://127.0.0.1:8101. */
  readonly url: string;
  readonly apiKey: string | undefined;
  /** The name the engine itself answers to, which takes the place of the request's `model`; undefined: sent as it came. */
  readonly modelName: string | undefined;
}

/** What an engine can hold, as far as it says. */
export interface Capacity {
  /** Sequences at once. */
  readonly seats: number | undefined;
  /** Tokens of KV memory, which bound what its prefix cache can know. */
  readonly kvTokens: number | undefined;
  /** Tokens per block of its prefix cache. */
  readonly blockSize: number | undefined;
}

/**
 * starting → ready → draining → stopped; ready ⇄ asleep where the engine can; ready ⇄ suspect while its health is not answered as it should be;
 * failed when that goes on, and after a crash until the next start. Requests go to ready ones only; those that a suspect or failed one has not begun to
 * answer are sent elsewhere.
 */
export const INSTANCE_STATES = ["starting", "ready", "suspect", "draining", "asleep", "stopped", "failed"] as const;
export type InstanceState = (typeof INSTANCE_STATES)[number];

export interface Upstream {
  /** Unique in the fleet, for instance "mill-base-0". */
  readonly id: string;
  /** The fleet's name of the model, which clients send. */
  readonly model: string;
  readonly engine: EngineName;
  readonly state: InstanceState;
  /** It takes no requests, but is about to by itself: it starts, is about to be started again, or its health is being asked. */
  readonly isComing: boolean;
  /** Defined from the first ready on. */
  readonly target: UpstreamTarget | undefined;
  /** Process starts so far: what was known of an earlier process (its cache, its load) is void. */
  readonly starts: number;
  readonly capacity: Capacity;
  /** Of the last scrape; undefined where the engine has none or none came yet. */
  readonly metrics: EngineMetrics | undefined;
}

/** Names the process that an instance is now. */
export function processOf({ id, starts }: Upstream): string {
  return `${id} ${starts}`;
}

/** The instances as a set that changes. Values are snapshots: ask again, or listen. */
export interface UpstreamPool {
  /** Every model the fleet serves, loaded or not. */
  models(): readonly string[];
  /** All instances of a model, in any state; empty for a model the fleet does not serve. */
  upstreams(model: string): readonly Upstream[];
  /** @param listener called after any instance's state, target or metrics changed @returns ends it */
  onChange(listener: (upstream: Upstream) => void): () => void;
  /** Told by the proxy that an instance broke a connection or refused it: its health is asked at once. Resolves when its state says what came of it. */
  reportFailure(id: string): Promise<void>;
}
