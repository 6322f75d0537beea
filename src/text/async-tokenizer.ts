/**
 * A tokenizer for texts of any length. A text of a megabyte takes up to a second, in which a server would answer no request: long jobs go to a thread, which reads
 * the same tokenizer when the first of them comes.
 */
import { errorFromRecord } from "../core/errors.js";
import { FairThread } from "../core/fair-thread.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer/tokenizer.js";
import { type Encoded, type JobResult, jobSize, runJob, type TokenizerJob, type TokenList } from "./tokenizer-job.js";
import type { TokenizerSource } from "./tokenizer-source.js";
import type { FromTokenizerThread } from "./tokenizer-thread.js";

/** Characters, or ids, that the caller's thread takes on: some ten milliseconds at the most. */
const MAX_SHORT_JOB = 16 * 1024;

type TokenizerThread = FairThread<TokenizerJob, FromTokenizerThread>;

/** Whose request a job is for. */
export interface JobOwner {
  /** Long jobs take turns between tenants. */
  readonly tenant: string;
  /** Calls `leave` when the client has gone, at once if it already has; returns the call that ends the watch. Absent: the job is done in any case. */
  readonly watch?: (leave: () => void) => () => void;
}

export class AsyncTokenizer {
  /** Those of all tenants share it; without a thread: the caller's does it all. */
  #shared: { thread: TokenizerThread | undefined };
  #owner: JobOwner = { tenant: "" };

  /** @param source of the tokenizer; absent: the caller's thread does it all */
  constructor(
    private readonly tokenizer: Tokenizer,
    source?: TokenizerSource,
  ) {
    const options = { script: "text/tokenizer-thread.js", workerData: source, name: "the tokenizer's thread" };
    this.#shared = { thread: source && new FairThread(options) };
  }

  /** The same for one request: a job that waits for its turn is dropped when the client goes. */
  of(owner: JobOwner): AsyncTokenizer {
    const own = new AsyncTokenizer(this.tokenizer);
    own.#shared = this.#shared;
    own.#owner = owner;
    return own;
  }

  /**
   * The ids of each text.
   * @param maxTokens of each: a text that clearly has more is not encoded to its end
   */
  encode(
    texts: readonly string[],
    options: EncodeOptions,
    maxTokens = Number.POSITIVE_INFINITY,
  ): Promise<readonly Encoded[]> {
    return this.#run({ kind: "encode", texts, options, maxTokens }) as Promise<readonly Encoded[]>;
  }

  /** A text's ids, written out, and on demand each one's text. */
  list(text: string, options: EncodeOptions, withTexts: boolean): Promise<TokenList> {
    return this.#run({ kind: "list", text, options, withTexts }) as Promise<TokenList>;
  }

  /** Special tokens are kept. Throws `token_out_of_range`. */
  decode(ids: readonly number[] | Int32Array): Promise<string> {
    return this.#run({ kind: "decode", ids }) as Promise<string>;
  }

  /** For all requests: the model is not served any more. Jobs are still done, and then the thread's memory is free. */
  end(): void {
    this.#shared.thread?.end();
  }

  async #run(job: TokenizerJob): Promise<JobResult> {
    const cost = jobSize(job);
    const { thread } = this.#shared;
    if (thread !== undefined && cost > MAX_SHORT_JOB) {
      const answer = await this.#runElsewhere(thread, job, cost);
      if (answer.kind === "done") return answer.result;
      if (answer.kind === "failed") throw errorFromRecord(answer.error);
      // Files that became unreadable or have changed must not change the served tokenizer.
      this.#shared.thread = undefined;
      thread.end();
    }
    return runJob(this.tokenizer, job);
  }
  async #runElsewhere(thread: TokenizerThread, job: TokenizerJob, cost: number): Promise<FromTokenizerThread> {
    const { tenant, watch } = this.#owner;
    let endWatch = () => {};
    const onWait = (leave: () => void) => {
      endWatch = watch?.(leave) ?? endWatch;
    };
    try {
      return await thread.run(job, { tenant, cost, onWait });
    } finally {
      endWatch();
    }
  }
}
