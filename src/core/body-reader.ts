/**
 * Bodies of requests as JSON. Large ones are looked over and decoded by a thread of their own, which also takes out lists of token ids: what is left for
 * the main thread to parse is bounded by its parts, since each of them costs more than its bytes.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import type { FromBodyThread, IdLists, ToBodyThread } from "./body-thread.js";
import { errorFromRecord, MillraceError } from "./errors.js";
import {
  assertShape,
  type JsonObject,
  LARGE_BODY_BYTES,
  MAX_JSON_MARKS,
  objectOf,
  shapeOf,
  textOf,
} from "./json-body.js";
import { packageRoot } from "./package-root.js";

/** Compiled: tests run the rest from source, which a thread of its own could not. */
const THREAD = "dist/src/core/body-thread.js";

export interface ReadBody {
  /** Long lists of token ids in `prompt`, `input` and `tokens` are Int32Arrays. */
  readonly body: JsonObject;
  /** Those that were given may be somewhere else by now. */
  readonly bytes: Buffer;
}

/** @example const { body } = await readBody(Buffer.from('{"model":"mill"}')); // { model: "mill" } */
export async function readBody(bytes: Uint8Array): Promise<ReadBody> {
  if (bytes.length <= LARGE_BODY_BYTES) {
    const shape = shapeOf(bytes);
    assertShape(shape, true);
    if (shape.numMarks <= MAX_JSON_MARKS) {
      return {
        body: objectOf(textOf(bytes), bytes.length),
        bytes: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length),
      };
    }
  }
  thread ??= new BodyThread();
  const answer = await thread.read(bytes);
  const body = objectOf(answer.text, answer.bytes.length);
  return { body: withLists(body, answer.lists), bytes: Buffer.from(answer.bytes.buffer) };
}

/** The lists where they were taken from. */
function withLists(body: JsonObject, lists: IdLists): JsonObject {
  if (Object.keys(lists).length === 0) return body;
  const whole: Record<string, unknown> = { ...body };
  for (const [field, { ids, lengths }] of Object.entries(lists)) {
    whole[field] = lengths === undefined ? ids : splitBy(ids, lengths);
  }
  return whole;
}

function splitBy(ids: Int32Array, lengths: Int32Array): Int32Array[] {
  let end = 0;
  return Array.from(lengths, (length) => {
    end += length;
    return ids.subarray(end - length, end);
  });
}

type Answer = FromBodyThread & { readonly kind: "read" };

interface Waiting {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: MillraceError) => void;
}

let thread: BodyThread | undefined;

class BodyThread {
  readonly #worker = new Worker(join(packageRoot(), THREAD));
  readonly #waiting = new Map<number, Waiting>();
  #id = 0;

  constructor() {
    this.#worker.unref();
    this.#worker.on("message", (message: FromBodyThread) => this.#take(message));
    this.#worker.on("error", (error) => this.#end(String(error)));
    this.#worker.on("exit", () => this.#end("it ended"));
  }

  read(given: Uint8Array): Promise<Answer> {
    // What other bytes share its memory with is not to go with it.
    const isWhole = given.byteLength === given.buffer.byteLength && given.buffer instanceof ArrayBuffer;
    const bytes = (isWhole ? new Uint8Array(given.buffer) : Uint8Array.from(given)) as Uint8Array<ArrayBuffer>;
    const message: ToBodyThread = { id: ++this.#id, bytes };
    // As long as somebody waits, the process does.
    this.#worker.ref();
    return new Promise((resolve, reject) => {
      this.#waiting.set(message.id, { resolve, reject });
      this.#worker.postMessage(message, [bytes.buffer]);
    });
  }

  #take(message: FromBodyThread): void {
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    if (message.kind === "read") waiting?.resolve(message);
    else waiting?.reject(errorFromRecord(message.error));
  }

  #end(reason: string): void {
    if (thread === this) thread = undefined;
    const error = new MillraceError("internal_error", `expected the thread that reads bodies to go on, got: ${reason}`);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
