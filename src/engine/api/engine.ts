/** The engine as the main thread sees it: requests of token ids in, one callback per request and step out. */
import type { MillraceError } from "../../core/errors.js";
import type { BlockChanges, CachedBlocks } from "../../text/cached-blocks.js";
import type { EngineOutput } from "./output.js";
import type { EngineRequest } from "./request.js";
import type { EngineInfo, EngineStats } from "./stats.js";

export interface EngineListener {
  onOutput(output: EngineOutput): void;
  /** The request ended without a finish reason; nothing follows. Not called after abort(). */
  onError(error: MillraceError): void;
}

export interface EngineHandle {
  /** Stops costing within one step; no further callbacks. Safe at any time, any number of times. */
  abort(): void;
}

/** The engine as the main thread sees it. `engine.ts` implements it over a worker thread. */
export interface Engine {
  readonly info: EngineInfo;
  /**
   * Never blocks. Throws at once: shutting_down, queue_full (with retryAfterSeconds), context_length_exceeded, kv_capacity_exceeded,
   * token_out_of_range, empty_prompt, engine_failed. Callbacks arrive later, in order.
   */
  submit(request: EngineRequest, listener: EngineListener): EngineHandle;
  stats(): EngineStats;
  /** How long the engine's loop has stood still though it has requests; 0 where that is no longer than a step may take. */
  stalledMs(): number;
  /** What the prefix cache holds, as of the latest step. */
  readonly cachedBlocks: CachedBlocks;
  /** @param listener gets what each step changed of it, before that step's outputs go out @returns ends it */
  onCacheChanges(listener: (changes: BlockChanges) => void): () => void;
  /** Refuses new requests and resolves when the accepted ones have ended. */
  drain(): Promise<void>;
  /** Ends at once; open requests get shutting_down. */
  close(): Promise<void>;
  /** Rejects when the worker dies; never resolves otherwise. */
  readonly failure: Promise<never>;
}
