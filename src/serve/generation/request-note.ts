/**
 * The server's record of one request: the times of its parts, its counts and its end. It has no text, so that no text
 * outlives its request.
 */
import type { MillraceError } from "../../core/errors.js";
import type { RequestLog } from "../../observe/live/request-log.js";
import type { Outcome, RequestRow } from "../../observe/live/request-rows.js";
import type { RequestTimer } from "./metrics.js";

interface NoteStart {
  readonly id: string;
  readonly path: string;
  readonly model: string;
  readonly tenant: string;
  /** `performance.now()` at the request's arrival. */
  readonly startMs: number;
}

type Figures = Partial<RequestRow>;

export class RequestNote {
  /** Unix milliseconds of the start, which precedes this note's creation. */
  readonly #atMs: number;
  readonly #start: NoteStart;
  /** Set while the request runs. */
  #timers: readonly RequestTimer[] = [];
  /** One timer per prompt. */
  #prompts: readonly RequestTimer[] = [];
  #outcome: Outcome = "running";
  #end: Figures = {};
  #isKept = false;

  /** @param log called with the request's row at its end, if the row is kept */
  constructor(
    start: NoteStart,
    private readonly log?: RequestLog,
  ) {
    this.#start = start;
    this.#atMs = Math.ceil(Date.now() - (performance.now() - start.startMs));
  }

  get id(): string {
    return this.#start.id;
  }

  get tenant(): string {
    return this.#start.tenant;
  }

  /** Calls `keep` once. */
  keepIn(ring: { keep(note: RequestNote): void }): void {
    if (!this.#isKept) ring.keep(this);
    this.#isKept = true;
  }

  /** The engine has the request. @param prompts one timer per prompt, since a prompt may have several answers */
  submitted(timers: readonly RequestTimer[], prompts: readonly RequestTimer[]): void {
    if (this.#outcome !== "running") return;
    this.#timers = timers;
    this.#prompts = prompts;
  }

  /** @param finishReason absent: an answer without tokens */
  answered(finishReason?: string): void {
    this.#ended("answered", { status: 200, ...(finishReason === undefined ? {} : { finish_reason: finishReason }) });
  }

  failed({ code, status }: MillraceError): void {
    this.#ended(code === "client_closed" ? "cancelled" : "failed", { status, error_code: code });
  }

  /** The client left. */
  cancelled(): void {
    this.#ended("cancelled", { status: 499, error_code: "client_closed" });
  }

  row(): RequestRow {
    const { id, path, model, tenant } = this.#start;
    const figures = this.#outcome === "running" ? this.#figures() : this.#end;
    return { id, at_ms: this.#atMs, path, model, tenant, outcome: this.#outcome, ...figures };
  }

  /** Only the first end counts. */
  #ended(outcome: Outcome, end: Figures): void {
    if (this.#outcome !== "running") return;
    this.#end = { ...end, ...this.#figures() };
    this.#outcome = outcome;
    this.#timers = [];
    this.#prompts = [];
    if (this.#isKept) this.log?.(this.row());
  }

  #figures(): Figures {
    const { startMs } = this.#start;
    const nowMs = performance.now();
    const total = { total_ms: nowMs - startMs };
    const times = this.#timers.map((timer) => timer.times());
    if (times.length === 0) return total;
    const prompts = this.#prompts.map((timer) => timer.times());
    const sum = (of: typeof times, key: "numPromptTokens" | "numCachedTokens" | "numTokens" | "numDraftTokens") =>
      of.reduce((all, each) => all + each[key], 0);
    const first = times.reduce((a, b) => ((b.firstTokenAtMs ?? nowMs) < (a.firstTokenAtMs ?? nowMs) ? b : a));
    const { submittedAtMs, queueMs, firstTokenAtMs } = first;
    const lastTokenAtMs = Math.max(...times.map((each) => each.lastTokenAtMs ?? 0));
    const longest = Math.max(...times.map(({ numTokens }) => numTokens));
    const decodeMs = firstTokenAtMs === undefined ? undefined : lastTokenAtMs - firstTokenAtMs;
    return {
      ...total,
      prompt_tokens: sum(prompts, "numPromptTokens"),
      cached_tokens: sum(prompts, "numCachedTokens"),
      output_tokens: sum(times, "numTokens"),
      draft_tokens: sum(times, "numDraftTokens"),
      prepare_ms: submittedAtMs - startMs,
      queue_ms: queueMs,
      prefill_ms: queueMs === undefined ? undefined : (firstTokenAtMs ?? nowMs) - submittedAtMs - queueMs,
      decode_ms: decodeMs,
      ttft_ms: firstTokenAtMs === undefined ? undefined : firstTokenAtMs - startMs,
      tpot_ms: decodeMs === undefined || longest < 2 ? undefined : decodeMs / (longest - 1),
    };
  }
}
