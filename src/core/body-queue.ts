/**
 * Queues large bodies for the thread that checks them (body-thread.ts). The waiting bytes of each tenant are bounded.
 */
import type { FromBodyThread, LookedOver, ToBodyThread } from "./body-thread.js";
import { errorFromRecord, MillraceError } from "./errors.js";
import { FairThread } from "./fair-thread.js";

/**
 * Upper bound for one tenant, beside the body in the thread: sixteen of an engine's largest bodies, four of a
 * gateway's.
 */
export const MAX_WAITING_BYTES = 128 * 1024 * 1024;

/** About the thread's time for MAX_WAITING_BYTES. */
const RETRY_AFTER_SECONDS = 5;

export interface BodyOrigin {
  /** The field that may hold long lists of token ids; absent: no field may. */
  readonly idField?: string | undefined;
  /** Tenants take turns in reading large bodies. */
  readonly tenant: string;
  /** Receives a function that gives up the wait. Not called for small bodies, which do not wait. */
  readonly onWait: (leave: () => void) => void;
}

export class BodyQueue {
  /** Costs are bytes. */
  readonly #thread = new FairThread<ToBodyThread, FromBodyThread>({
    script: "core/body-thread.js",
    name: "the thread that reads bodies",
  });

  /**
   * Rejects with the body's fault, or with body_queue.
   * @param bytes may be moved to the thread, so the caller must not use them afterwards
   */
  async read(bytes: Uint8Array, { idField, tenant, onWait }: BodyOrigin): Promise<LookedOver> {
    const numBytes = bytes.length;
    const numBefore = this.#thread.waitingCost(tenant);
    if (numBefore > 0 && numBefore + numBytes > MAX_WAITING_BYTES) throw tooMuch(numBefore + numBytes);
    const job = { bytes: movable(bytes), idField };
    const answer = await this.#thread.run(job, { tenant, cost: numBytes, moved: [job.bytes.buffer], onWait });
    if (answer.kind === "refused") throw errorFromRecord(answer.error);
    return answer;
  }
}

/** Copies bytes that share memory with others, since moving them would take that memory along. */
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
