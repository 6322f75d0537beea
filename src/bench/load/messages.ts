/** Messages between the generator and its worker processes. */
import type { Traffic } from "../workload/traffic.js";
import type { LoopLag } from "./loop-watch.js";
import type { RequestRecord } from "./record.js";
import type { ShareSpec } from "./share.js";

/** The argument that makes a worker poll. */
export const POLL = "poll";

export interface RunMessage {
  readonly kind: "run";
  /** The server's address, without an endpoint's path. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly traffic: Traffic;
  readonly share: ShareSpec;
}

/** stop: send nothing more; abort: drop requests in progress too. */
export type ToWorker = RunMessage | { readonly kind: "stop" | "abort" };

export interface Progress {
  readonly numSent: number;
  readonly numDone: number;
  readonly numFailed: number;
  readonly numOutputTokens: number;
}

export interface ShareResult {
  readonly records: readonly RequestRecord[];
  readonly lag: LoopLag;
  readonly hasGivenUp: boolean;
}

export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "progress"; readonly progress: Progress }
  | ({ readonly kind: "done" } & ShareResult);
