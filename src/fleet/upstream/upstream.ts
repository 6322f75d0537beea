/**
 * The fleet as routing and the proxy see it: OpenAI-compatible servers with a state, independent of their engine and of
 * their start.
 */
import type { Provider } from "../../gateway/dialects/provider.js";
import type { EngineMetrics, EngineName } from "./engine.js";

/** ZeroMQ addresses for an engine that publishes the changes of its prefix cache, as vLLM does. */
export interface CacheEventSockets {
  readonly events: string;
  /** Sends earlier events again on request. */
  readonly replay: string;
}

/** Address of a running engine. */
export interface UpstreamTarget {
  /** Base URL without a path, for instance http://127.0.0.1:8101. */
  readonly url: string;
  readonly apiKey: string | undefined;
  /**
   * The engine's own name for the model, which replaces the request's `model`; undefined: `model` is sent unchanged.
   */
  readonly modelName: string | undefined;
  readonly cacheEvents?: CacheEventSockets;
  /**
   * Rank of the server's region, 0 for the gateway's own. A farther server gets a request only if no nearer one has a
   * free seat. Absent: 0.
   */
  readonly distance?: number;
  /** A paid API, or a server treated as one: it is not probed, and requests and answers are translated. */
  readonly provider?: Provider;
  /** Limit of concurrent requests; undefined: as the server reports, or unlimited. */
  readonly maxConcurrency?: number | undefined;
}

/** The capacity that an engine reports; undefined fields are not reported. */
export interface Capacity {
  /** Sequences that the engine computes at once. */
  readonly seats: number | undefined;
  /** Size of the KV memory in tokens; it bounds the prefix cache. */
  readonly kvTokens: number | undefined;
  /** Tokens per block of the prefix cache. */
  readonly blockSize: number | undefined;
  /** Limit of a prompt and its answer together, in tokens. Absent: the list of models does not state it. */
  readonly maxModelLen?: number | undefined;
  /** Tokens that the chat template writes for a conversation without text. Absent: not reported. */
  readonly templateTokens?: number | undefined;
}

/**
 * starting → ready → draining → stopped; ready ⇄ asleep if the engine supports it; ready ⇄ suspect while health checks
 * fail; failed when they keep failing, and from a crash until the next start. Only ready instances get requests.
 * Requests whose answer a suspect or failed instance has not begun move to another instance.
 */
export const INSTANCE_STATES = ["starting", "ready", "suspect", "draining", "asleep", "stopped", "failed"] as const;
export type InstanceState = (typeof INSTANCE_STATES)[number];

export interface Upstream {
  /** Unique in the fleet, for instance "mill-base-0". */
  readonly id: string;
  /** The model's name in the fleet and in requests. */
  readonly model: string;
  readonly engine: EngineName;
  readonly state: InstanceState;
  /** The instance takes no requests yet, but soon will: it is starting, about to restart, or suspect. */
  readonly isComing: boolean;
  /** Defined once the instance has been ready. */
  readonly target: UpstreamTarget | undefined;
  /** Number of process starts. A new start invalidates all knowledge of the earlier process: its cache and its load. */
  readonly starts: number;
  readonly capacity: Capacity;
  /** Metrics of the last scrape; undefined before the first scrape, or if the engine has none. */
  readonly metrics: EngineMetrics | undefined;
  /** Process id, if the fleet started the process. */
  readonly pid?: number | undefined;
}

/** Identifies the current process of an instance. */
export function processOf({ id, starts }: Upstream): string {
  return `${id} ${starts}`;
}

/** The changing set of instances. Returned values are snapshots. */
export interface UpstreamPool {
  /** Every model of the fleet, loaded or not. */
  models(): readonly string[];
  /** All instances of a model, in any state; empty if the fleet has no such model. */
  upstreams(model: string): readonly Upstream[];
  /**
   * @param listener called after a change of any instance's state, target or metrics
   * @returns a function that removes the listener
   */
  onChange(listener: (upstream: Upstream) => void): () => void;
  /**
   * Reports that an instance broke or refused a connection. Its health is checked at once; resolves when its state
   * shows
   * the result.
   */
  reportFailure(id: string): Promise<void>;
}
