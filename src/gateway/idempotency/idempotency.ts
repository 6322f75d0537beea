/**
 * Idempotency-Key: a request that is repeated under its key gets the first one's answer. While the first runs, the
 * repetition joins it; for a day after, it gets the kept answer. Another body under the same key is refused.
 */
import { MillraceError } from "../../core/errors.js";
import { type AnswerSink, HeaderSink } from "../answer.js";
import { sha256, tenantScope } from "../cache/answer-key.js";
import type { AnswerStore } from "../cache/answer-store.js";
import { canonicalJson } from "../cache/canonical-json.js";
import { replay } from "../cache/replay.js";
import type { StoredAnswer } from "../cache/stored-answer.js";
import type { Cancellation } from "../cancellation.js";
import type { Ending, Handler, Policy } from "../pipeline.js";
import type { GatewayRequest } from "../request.js";
import { type RunAnswer, SharedRun } from "../shared-run.js";

const IDEMPOTENCY_HEADER = "idempotency-key";
/** Marks an answer that was given before. */
const REPLAYED_HEADER = "idempotent-replayed";

const KEY = /^[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?$/;
/** Failed runs of others before a request under the same key goes on alone. */
const MAX_FAILED_RUNS = 2;

interface IdempotencySettings {
  readonly ttlMs: number;
  /** Time for which a run continues without a client. */
  readonly graceMs: number;
  readonly maxAnswerBytes: number;
}

interface IdempotencyOptions {
  readonly store: AnswerStore;
  settings(): IdempotencySettings;
  /** See ExactCacheOptions. */
  hasOwnKeys(): boolean;
  readonly now?: () => number;
}

/** A request with a key, before it is known how it will be answered. */
interface KeyedRequest {
  /** The key as the client wrote it. */
  readonly key: string;
  /** The key's owner and the request's path: in another scope, the same key means another request. */
  readonly scope: readonly string[];
  /** Hash of the request's address and body. */
  readonly bodyHash: string;
  readonly tenant: string;
  readonly cancellation: Cancellation;
}

/** Makes the answer. Its cancellation follows all waiting requests together, not a single one. */
type Answering = (sink: AnswerSink, cancellation: Cancellation) => Promise<Ending>;

interface Running {
  readonly bodyHash: string;
  readonly run: SharedRun;
}

export class Idempotency implements Policy {
  readonly name = "idempotency";
  readonly #running = new Map<string, Running>();
  readonly #now: () => number;

  constructor(private readonly options: IdempotencyOptions) {
    this.#now = options.now ?? Date.now;
  }

  handle(request: GatewayRequest, sink: AnswerSink, next: Handler): Promise<Ending> {
    const key = request.headers[IDEMPOTENCY_HEADER];
    if (key === undefined || request.route.method === "GET") return next(request, sink);
    const { caller, path, url, body, bytes, cancellation } = request;
    const { name, credentials } = tenantScope(request, this.options.hasOwnKeys());
    const keyed: KeyedRequest = {
      key: String(key),
      scope: [name, credentials, path],
      // Clients may write the same body anew; its bytes count only if parsing lost a part of them.
      bodyHash: sha256(JSON.stringify([url, canonicalJson(body).text ?? bytes.toString("latin1")])),
      tenant: caller.tenant,
      cancellation,
    };
    const answer: Answering = (into, own) => next({ ...request, cancellation: own }, into);
    return this.answer(keyed, sink, answer, (note) => request.record.notes.set(this.name, note));
  }

  /** @param onNote gets the outcome of the request: first, joined, replayed or alone */
  async answer(
    keyed: KeyedRequest,
    sink: AnswerSink,
    answering: Answering,
    onNote: (note: string) => void = () => {},
  ): Promise<Ending> {
    if (!KEY.test(keyed.key)) {
      throw new MillraceError(
        "invalid_request",
        `expected ${IDEMPOTENCY_HEADER} to be 1 to 255 printable ASCII characters, got ${keyed.key.length} others`,
      );
    }
    const id = sha256(JSON.stringify(["idempotency", ...keyed.scope, keyed.key]));
    for (let numFailed = 0; numFailed < MAX_FAILED_RUNS; numFailed++) {
      const ending = await this.#answerAgain(id, keyed, sink, onNote);
      if (ending !== undefined) return ending;
      // During the look into the store, another request may have begun.
      if (!this.#running.has(id)) return await this.#lead(id, keyed, sink, answering, onNote);
    }
    onNote("alone");
    return await answering(sink, keyed.cancellation);
  }

  async close(): Promise<void> {
    await this.options.store.close();
  }

  /** @returns undefined if there is no answer to repeat, or if the joined run failed */
  async #answerAgain(
    id: string,
    keyed: KeyedRequest,
    sink: AnswerSink,
    onNote: (note: string) => void,
  ): Promise<Ending | undefined> {
    const running = this.#running.get(id);
    if (running !== undefined) {
      assertSame(running.bodyHash, keyed);
      const ending = await running.run.read(replayed(sink), keyed.cancellation);
      if (ending !== undefined) onNote("joined");
      return ending;
    }
    const kept = await this.options.store.get(id);
    if (kept === undefined || this.#running.has(id)) return undefined;
    assertSame(kept.check, keyed);
    onNote("replayed");
    return await replay(kept, { [REPLAYED_HEADER]: "true" }, sink, keyed.cancellation, "none");
  }

  async #lead(
    id: string,
    keyed: KeyedRequest,
    sink: AnswerSink,
    answering: Answering,
    onNote: (note: string) => void,
  ): Promise<Ending> {
    const { ttlMs, graceMs, maxAnswerBytes } = this.options.settings();
    onNote("first");
    const forget = () => {
      if (this.#running.get(id)?.run === run) this.#running.delete(id);
    };
    // The key stays taken until the answer is kept, so that every request finds the run or the kept answer.
    const run = new SharedRun(answering, { maxBytes: maxAnswerBytes, lingerMs: graceMs, staysOpen: true }, forget);
    this.#running.set(id, { bodyHash: keyed.bodyHash, run });
    void run.result.then(async ({ answer }) => {
      if (answer !== undefined && answer.head.status >= 200 && answer.head.status < 300) {
        await this.options.store.put(id, this.#stored(answer, keyed, ttlMs));
      }
      run.close();
    });
    return (await run.read(sink, keyed.cancellation, true))!;
  }

  #stored({ head, body, marks }: RunAnswer, { tenant, bodyHash }: KeyedRequest, ttlMs: number): StoredAnswer {
    const createdMs = this.#now();
    return {
      model: "",
      tenant,
      tags: [],
      createdMs,
      expiresMs: createdMs + ttlMs,
      status: head.status,
      headers: head.headers,
      isEventStream: head.isEventStream,
      marks: head.isEventStream ? marks : [],
      usage: undefined,
      check: bodyHash,
      body,
    };
  }
}

function replayed(sink: AnswerSink): AnswerSink {
  return new HeaderSink(sink, () => ({ [REPLAYED_HEADER]: "true" }));
}

function assertSame(bodyHash: string, keyed: KeyedRequest): void {
  if (bodyHash === keyed.bodyHash) return;
  throw new MillraceError(
    "idempotency_conflict",
    `expected the request that ${IDEMPOTENCY_HEADER} ${JSON.stringify(keyed.key.slice(0, 80))} was first sent with, got another body`,
    { hint: "use a new key for each new request" },
  );
}
