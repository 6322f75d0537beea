/**
 * Large bodies on their way through the thread that looks them over (body-thread.ts): one at a time, by turns between tenants, so that nobody waits for all
 * that somebody else has sent, and of each tenant a bounded number of bytes.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { FromBodyThread, LookedOver, ToBodyThread } from "./body-thread.js";
import { errorFromRecord, MillraceError } from "./errors.js";
import { FairTurns } from "./fair-turns.js";
import { idFieldOf } from "./json-body.js";
import { packageRoot } from "./package-root.js";

/** Compiled: tests run the rest from source, which a thread of its own could not. */
const THREAD = "dist/src/core/body-thread.js";

/** Of one tenant, beside the body that the thread is at: sixteen of the largest bodies that an engine takes, four of a gateway's. */
export const MAX_WAITING_BYTES = 128 * 1024 * 1024;

/** The thread takes a few seconds for so many bytes. */
const RETRY_AFTER_SECONDS = 5;

interface Waiting {
  /** They go to the thread with their memory. */
  readonly message: ToBodyThread;
  readonly numBytes: number;
  readonly tenant: string;
  readonly resolve: (body: LookedOver) => void;
  readonly reject: (error: MillraceError) => void;
}

export interface BodyOrigin {
  /** That the body was sent to: it says which field may hold lists of token ids. */
  readonly path: string;
  /** Large bodies are read by turns between tenants. */
  readonly tenant: string;
  /** Gets the call that gives up waiting for the turn, where there is one. */
  readonly onWait: (leave: () => void) => void;
}

export class BodyQueue {
  /** By bytes. There is one thread, so a tenant's debt is bounded by its largest body. */
  readonly #turns = new FairTurns<Waiting>(0, Number.POSITIVE_INFINITY);
  #worker: Worker | undefined;
  /** In the thread, even if nobody waits for it any more. */
  #current: Waiting | undefined;

  /**
   * Rejects with the fault of the body, or with body_queue.
   * @param bytes may be somewhere else afterwards
   */
  read(bytes: Uint8Array, { path, tenant, onWait }: BodyOrigin): Promise<LookedOver> {
    return new Promise((resolve, reject) => {
      const before = this.#turns.waitingOf(tenant);
      const numBytes = before.reduce((sum, each) => sum + each.numBytes, bytes.length);
      if (before.length > 0 && numBytes > MAX_WAITING_BYTES) throw tooMuch(numBytes);
      const message = { bytes: movable(bytes), idField: idFieldOf(path) };
      const waiting: Waiting = { message, numBytes: bytes.length, tenant, resolve, reject };
      this.#turns.add(waiting, tenant);
      onWait(() => this.#leave(waiting));
      this.#startNext();
    });
  }

  #leave(waiting: Waiting): void {
    this.#turns.remove(waiting);
    waiting.reject(
      new MillraceError("client_closed", "expected the client to wait until its body is read, got a closed connection"),
    );
  }

  #startNext(): void {
    if (this.#current !== undefined) return;
    this.#current = this.#turns.next();
    if (this.#current === undefined) {
      this.#worker?.unref();
      return;
    }
    this.#worker ??= this.#startThread();
    // As long as a body is in the thread, the process stays.
    this.#worker.ref();
    const { message } = this.#current;
    this.#worker.postMessage(message, [message.bytes.buffer]);
  }

  #startThread(): Worker {
    const worker = new Worker(join(packageRoot(), THREAD));
    const onEnd = (reason: string) => {
      // An error comes before the end, by which another thread has its place.
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#finish((waiting) => {
        const message = `expected the thread that reads bodies to go on, got: ${reason}`;
        waiting.reject(new MillraceError("internal_error", message));
      });
    };
    worker.on("message", (message: FromBodyThread) => {
      this.#finish((waiting) => {
        if (message.kind === "read") waiting.resolve(message);
        else waiting.reject(errorFromRecord(message.error));
      });
    });
    worker.on("error", (error) => onEnd(String(error)));
    worker.on("exit", () => onEnd("it ended"));
    return worker;
  }

  #finish(settle: (waiting: Waiting) => void): void {
    const current = this.#current;
    if (current !== undefined) {
      this.#current = undefined;
      this.#turns.charge(current.tenant, current.numBytes);
      settle(current);
    }
    this.#startNext();
  }
}

/** What other bytes share its memory with is not to go with it. */
function movable(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const isWhole = bytes.byteLength === bytes.buffer.byteLength && bytes.buffer instanceof ArrayBuffer;
  return isWhole ? new Uint8Array(bytes.buffer as ArrayBuffer) : new Uint8Array(bytes);
}

function tooMuch(numBytes: number): MillraceError {
  return new MillraceError(
    "body_queue",
    `expected at most ${MAX_WAITING_BYTES} bytes of a key's large bodies to wait to be read, got ${numBytes}`,
    { retryAfterSeconds: RETRY_AFTER_SECONDS, hint: "Send fewer large requests at once." },
  );
}
