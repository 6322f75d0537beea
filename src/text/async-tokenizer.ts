/**
 * A tokenizer for texts of any length. A text of a megabyte takes up to a second, in which a server would answer nobody: long jobs go to a thread, which reads
 * the same tokenizer when the first of them comes.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { errorFromRecord, MillraceError } from "../core/errors.js";
import { packageRoot } from "../core/package-root.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer.js";
import { type Job, type JobResult, jobSize, runJob, type TokenList } from "./tokenizer-job.js";
import type { TokenizerSource } from "./tokenizer-source.js";
import type { FromTokenizerThread, ToTokenizerThread } from "./tokenizer-thread.js";

/** Compiled: tests run the rest from source, which a thread of its own could not. */
const THREAD = "dist/src/text/tokenizer-thread.js";

/** Characters, or ids, that the caller's thread takes on: some ten milliseconds at the most. */
const MAX_SHORT_JOB = 16 * 1024;

interface Waiting {
  readonly job: Job;
  readonly resolve: (result: JobResult) => void;
  readonly reject: (error: unknown) => void;
}

export class AsyncTokenizer {
  #worker: Worker | undefined;
  readonly #waiting = new Map<number, Waiting>();
  #id = 0;

  /** @param source of the tokenizer; absent: the caller's thread does it all */
  constructor(
    private readonly tokenizer: Tokenizer,
    private source?: TokenizerSource,
  ) {}

  /** @returns the ids of each text */
  encode(texts: readonly string[], options: EncodeOptions): Promise<readonly Int32Array[]> {
    return this.#run({ kind: "encode", texts, options }) as Promise<readonly Int32Array[]>;
  }

  /** A text's ids, written out, and on demand each one's text. */
  list(text: string, options: EncodeOptions, withTexts: boolean): Promise<TokenList> {
    return this.#run({ kind: "list", text, options, withTexts }) as Promise<TokenList>;
  }

  /** Throws `token_out_of_range`. */
  decode(ids: readonly number[] | Int32Array, { keepSpecial = false } = {}): Promise<string> {
    return this.#run({ kind: "decode", ids, keepSpecial }) as Promise<string>;
  }

  async #run(job: Job): Promise<JobResult> {
    if (jobSize(job) <= MAX_SHORT_JOB || this.source === undefined) return runJob(this.tokenizer, job);
    this.#worker ??= this.#start(this.source);
    const worker = this.#worker;
    const message: ToTokenizerThread = { id: ++this.#id, job };
    // The process stays as long as a request waits.
    worker.ref();
    return new Promise((resolve, reject) => {
      this.#waiting.set(message.id, { job, resolve, reject });
      worker.postMessage(message);
    });
  }

  #start(source: TokenizerSource): Worker {
    const worker = new Worker(join(packageRoot(), THREAD), { workerData: source });
    worker.on("message", (message: FromTokenizerThread) => this.#take(message));
    worker.on("error", (error) => this.#end(worker, String(error)));
    worker.on("exit", () => this.#end(worker, "it ended"));
    return worker;
  }

  #take(message: FromTokenizerThread): void {
    if (message.kind === "unusable") {
      this.#goOnHere();
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (this.#waiting.size === 0) this.#worker?.unref();
    if (message.kind === "done") waiting?.resolve(message.result);
    else waiting?.reject(errorFromRecord(message.error));
  }

  /** Files that cannot be read a second time, or are others by now, must not change what is served: this thread's tokenizer does it all. */
  #goOnHere(): void {
    this.source = undefined;
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { job, resolve, reject } of all) {
      try {
        resolve(runJob(this.tokenizer, job));
      } catch (thrown) {
        reject(thrown);
      }
    }
  }

  #end(worker: Worker, reason: string): void {
    if (this.#worker !== worker) return;
    this.#worker = undefined;
    const error = new MillraceError("internal_error", `expected the tokenizer's thread to go on, got: ${reason}`);
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
