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
  /** Ends the request within one step, without further callbacks. Safe at any time, any number of times. */
  abort(): void;
}

/** The engine as the main thread sees it. `engine.ts` implements it over a worker thread. */
/** "stuck": a thread waits for a disk that does not answer, so that only SIGKILL ends the process. */
export type Closed = "ended" | "stuck";

export interface Engine {
  readonly info: EngineInfo;
  /**
   * Never blocks. Throws at once: shutting_down, queue_full (with retryAfterSeconds), context_length_exceeded,
   * kv_capacity_exceeded, token_out_of_range, empty_prompt, engine_failed. Callbacks arrive later, in order.
   */
  submit(request: EngineRequest, listener: EngineListener): EngineHandle;
  stats(): EngineStats;
  /**
   * Milliseconds for which the engine's loop has stood still with requests open; 0 while that is within the time of a
   * step.
   */
  stalledMs(): number;
  /** Contents of the prefix cache after the latest step. */
  readonly cachedBlocks: CachedBlocks;
  /**
   * @param listener gets each step's changes of the prefix cache before the step's outputs go out
   * @returns a function that removes the listener
   */
  onCacheChanges(listener: (changes: BlockChanges) => void): () => void;
  /** Refuses new requests and resolves when the accepted ones have ended. */
  drain(): Promise<void>;
  /** Ends at once; open requests get shutting_down. */
  close(): Promise<Closed>;
  /** Rejects when the engine's thread dies; never resolves. */
  readonly failure: Promise<never>;
}
