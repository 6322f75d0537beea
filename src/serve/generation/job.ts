/** All generations of one HTTP request: submitted, measured and ended together. */
import { type MillraceError, toMillraceError } from "../../core/errors.js";
import type { Engine } from "../../engine/api/engine.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { type Deadline, deadlineExceeded } from "./deadline.js";
import { Generation, type GenerationRequest, type GenerationUpdate } from "./generation.js";
import type { RequestTimer, ServeMetrics } from "./metrics.js";
import type { RequestNote } from "./request-note.js";

/** The server's parts that a job needs. */
interface JobContext {
  readonly engine: Engine;
  readonly tokenizer: Tokenizer;
  readonly metrics: Pick<ServeMetrics, "startRequest">;
}

/** The figures of the answer's `usage`; arrays are indexed like the job's requests. */
export interface JobTotals {
  readonly numOutputTokens: number;
  /** undefined for unsplit answers. */
  readonly numReasoningTokens: number | undefined;
  readonly numCachedTokens: readonly number[];
  /** Tokens whose keys and values were evicted before the answers ended; 0: the answers saw their complete context. */
  readonly numEvictedTokens: number;
}

/** A field of `usage` for answers that did not see their complete context. */
export const evictedField = ({ numEvictedTokens }: JobTotals) =>
  numEvictedTokens === 0 ? {} : { kv_evicted_tokens: numEvictedTokens };

interface JobListener {
  onUpdate(index: number, update: GenerationUpdate): void;
  onDone(totals: JobTotals): void;
  /** The first failure; the other generations are aborted. */
  onError(error: MillraceError): void;
}

export class Job {
  readonly #context: JobContext;
  readonly #generations: readonly Generation[];
  readonly #timers: readonly RequestTimer[];
  readonly #numCachedTokens: number[];
  readonly #numEvictedTokens: number[];
  readonly #open: Set<number>;
  readonly #listener: JobListener;
  readonly #deadline: Deadline;
  readonly #note: RequestNote;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    context: JobContext,
    requests: readonly GenerationRequest[],
    listener: JobListener,
    deadline: Deadline,
    note: RequestNote,
  ) {
    this.#context = context;
    this.#listener = listener;
    this.#deadline = deadline;
    this.#note = note;
    this.#numCachedTokens = requests.map(() => 0);
    this.#numEvictedTokens = requests.map(() => 0);
    this.#open = new Set(requests.keys());
    this.#timers = requests.map((request) => context.metrics.startRequest(request.engineRequest, deadline.arrivedAtMs));
    const firstOf = new Map(requests.map(({ engineRequest }, i) => [engineRequest.promptIds, this.#timers[i]!]));
    note.submitted(this.#timers, [...firstOf.values()]);
    this.#generations = requests.map(
      (request, index) =>
        new Generation(request, context.tokenizer, {
          onUpdate: (update) => this.#update(index, update),
          onError: (error) => this.#fail(index, error),
        }),
    );
  }

  /**
   * Submits all requests or none: if the engine refuses one, the earlier ones are aborted and the refusal is thrown.
   */
  start(): void {
    try {
      const leftMs = this.#timeLeftMs();
      for (const generation of this.#generations) generation.start(this.#context.engine);
      if (leftMs !== undefined) this.#timer = setTimeout(() => this.#expire(), leftMs);
    } catch (thrown) {
      // A refused request never runs, so it does not count as finished.
      for (const generation of this.#generations) generation.abort();
      this.#open.clear();
      throw toMillraceError(thrown);
    }
  }

  /** Ends all generations, for instance when the client disconnects. Safe at any time. */
  abort(): void {
    this.#note.cancelled();
    this.#endAll("abort");
  }

  /** Throws if the deadline passes before submission, for instance during a slow body. */
  #timeLeftMs(): number | undefined {
    const { arrivedAtMs, timeoutMs } = this.#deadline;
    if (timeoutMs === undefined) return undefined;
    const leftMs = arrivedAtMs + timeoutMs - performance.now();
    if (leftMs <= 0) throw deadlineExceeded(timeoutMs, 0);
    return leftMs;
  }

  #expire(): void {
    const { numOutputTokens } = this.#totals();
    this.#failAll(deadlineExceeded(this.#deadline.timeoutMs ?? 0, numOutputTokens));
  }

  #update(index: number, update: GenerationUpdate): void {
    this.#numCachedTokens[index] = update.numCachedTokens;
    this.#numEvictedTokens[index] = update.numEvictedTokens;
    this.#timers[index]!.onTokens(update);
    if (update.end !== undefined) this.#timers[index]!.onEnd(update.end.reason);
    this.#listener.onUpdate(index, update);
    if (update.end === undefined) return;
    this.#open.delete(index);
    if (this.#open.size > 0) return;
    clearTimeout(this.#timer);
    this.#note.answered(update.end.reason);
    this.#listener.onDone(this.#totals());
  }

  #totals(): JobTotals {
    let numOutputTokens = 0;
    let numReasoningTokens: number | undefined;
    for (const generation of this.#generations) {
      numOutputTokens += generation.numTokens;
      if (generation.numReasoningTokens === undefined) continue;
      numReasoningTokens = (numReasoningTokens ?? 0) + generation.numReasoningTokens;
    }
    const numEvictedTokens = this.#numEvictedTokens.reduce((sum, count) => sum + count, 0);
    return { numOutputTokens, numReasoningTokens, numCachedTokens: this.#numCachedTokens, numEvictedTokens };
  }

  #fail(index: number, error: MillraceError): void {
    if (this.#open.has(index)) this.#failAll(error);
  }

  #failAll(error: MillraceError): void {
    this.#note.failed(error);
    this.#endAll("error");
    this.#listener.onError(error);
  }

  #endAll(reason: "abort" | "error"): void {
    clearTimeout(this.#timer);
    for (const index of this.#open) {
      this.#generations[index]!.abort();
      this.#timers[index]!.onEnd(reason);
    }
    this.#open.clear();
  }
}
