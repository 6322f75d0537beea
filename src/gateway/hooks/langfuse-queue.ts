/**
 * Sends events to Langfuse's ingestion API in batches. The queue is bounded: while Langfuse does not answer, further
 * events are dropped and counted.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { limitedText } from "../../core/limited-text.js";

interface LangfuseQueueOptions {
  /** Base URL. */
  readonly url: string;
  readonly publicKey: string;
  readonly secretKey: string;
  readonly maxEvents: number;
  readonly onProblem: (thrown: unknown, numDropped: number) => void;
  readonly flushMs?: number;
  readonly retryMs?: number;
}

export interface LangfuseEvent {
  readonly type: "trace-create" | "generation-create";
  readonly body: object;
}

const MAX_BATCH_EVENTS = 100;
/** Langfuse takes batches of 3.5 MB. */
const MAX_BATCH_BYTES = 2_500_000;
/** Langfuse's answer has an entry for each event. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const MAX_QUEUE_BYTES = 64 * 1024 * 1024;
const MAX_TRIES = 4;
const TIMEOUT_MS = 10_000;
const CLOSE_MS = 3000;

export class LangfuseQueue {
  #queue: string[] = [];
  #numBytes = 0;
  #numDropped = 0;
  #sending: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();

  constructor(private readonly options: LangfuseQueueOptions) {}

  /** Events that were lost since the start. */
  get numDropped(): number {
    return this.#numDropped;
  }

  push({ type, body }: LangfuseEvent): void {
    const json = JSON.stringify({ id: randomUUID(), type, timestamp: new Date().toISOString(), body });
    const isFull = this.#queue.length >= this.options.maxEvents || this.#numBytes + json.length > MAX_QUEUE_BYTES;
    if (isFull || json.length > MAX_BATCH_BYTES) {
      this.#numDropped++;
      return;
    }
    this.#queue.push(json);
    this.#numBytes += json.length;
    if (this.#queue.length >= MAX_BATCH_EVENTS) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.options.flushMs ?? 1000).unref();
  }

  /** Sends the queued events; gives up after three seconds. */
  async close(): Promise<void> {
    this.#send();
    const timer = setTimeout(() => this.#closing.abort(), CLOSE_MS);
    await this.#sending;
    clearTimeout(timer);
    clearTimeout(this.#timer);
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending !== undefined || this.#queue.length === 0) return;
    this.#sending = this.#drain().finally(() => {
      this.#sending = undefined;
      if (this.#queue.length > 0) this.#timer ??= setTimeout(() => this.#send(), this.options.flushMs ?? 1000).unref();
    });
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0 && !this.#closing.signal.aborted) {
      const batch = this.#next();
      try {
        await this.#post(batch);
      } catch (thrown) {
        this.#numDropped += batch.length;
        this.options.onProblem(thrown, this.#numDropped);
        // If the service is down, the remaining batches do not ask it again.
        return;
      }
    }
  }

  #next(): readonly string[] {
    let numBytes = 0;
    let count = 0;
    while (
      count < Math.min(this.#queue.length, MAX_BATCH_EVENTS) &&
      numBytes + this.#queue[count]!.length <= MAX_BATCH_BYTES
    ) {
      numBytes += this.#queue[count++]!.length;
    }
    const batch = this.#queue.slice(0, count);
    this.#queue = this.#queue.slice(count);
    this.#numBytes -= numBytes;
    return batch;
  }

  /** Rejects if the batch cannot be delivered. */
  async #post(batch: readonly string[]): Promise<void> {
    const { url, publicKey, secretKey, retryMs = 500 } = this.options;
    const authorization = `Basic ${Buffer.from(`${publicKey}:${secretKey}`).toString("base64")}`;
    const body = `{"batch":[${batch.join(",")}]}`;
    for (let tries = 1; ; tries++) {
      const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), this.#closing.signal]);
      const headers = { authorization, "content-type": "application/json" };
      try {
        const answer = await fetch(`${url}/api/public/ingestion`, {
          method: "POST",
          headers,
          body,
          redirect: "error",
          signal,
        });
        const refused = await refusedIn(answer);
        if (refused > 0) {
          this.#numDropped += refused;
          this.options.onProblem(
            new Error(`expected all events to be taken, got ${refused} refused`),
            this.#numDropped,
          );
        }
        return;
      } catch (thrown) {
        const isFinal = thrown instanceof FinalRefusal || tries === MAX_TRIES || this.#closing.signal.aborted;
        if (isFinal) throw thrown;
        await pause(retryMs * 2 ** (tries - 1), undefined, { signal: this.#closing.signal }).catch(() => {});
      }
    }
  }
}

/** An error that another try would repeat. */
class FinalRefusal extends Error {}

/** @returns the number of events that were refused. Throws if the batch was */
async function refusedIn(answer: Response): Promise<number> {
  const text = await limitedText(answer, MAX_ANSWER_BYTES);
  if (answer.status === 207 || answer.ok) {
    try {
      const { errors } = JSON.parse(text) as { readonly errors?: unknown };
      return Array.isArray(errors) ? errors.length : 0;
    } catch {
      return 0;
    }
  }
  const message = `expected Langfuse to take events, got ${answer.status}`;
  throw answer.status >= 500 || answer.status === 429 ? new Error(message) : new FinalRefusal(message);
}
