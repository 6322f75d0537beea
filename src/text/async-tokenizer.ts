/**
 * A tokenizer for texts of any length. A text of a megabyte takes up to a second, during which the server could answer no request. Long jobs
 * therefore run on a separate thread, which reads the same tokenizer at the first such job.
 */
import { errorFromRecord } from "../core/errors.js";
import { FairThread } from "../core/fair-thread.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer/tokenizer.js";
import { type Encoded, type JobResult, jobSize, runJob, type TokenizerJob, type TokenList } from "./tokenizer-job.js";
import type { TokenizerSource } from "./tokenizer-source.js";
import type { FromTokenizerThread } from "./tokenizer-thread.js";

/** The largest job, in characters or ids, that runs on the caller's thread: about ten milliseconds. */
const MAX_SHORT_JOB = 16 * 1024;

type TokenizerThread = FairThread<TokenizerJob, FromTokenizerThread>;

/** The tenant and the client that a job belongs to. */
export interface JobOwner {
  /** Long jobs take turns between tenants. */
  readonly tenant: string;
  /** Calls `leave` when the client has left, immediately if it already has; returns the function that ends the watch. Absent: the job always runs. */
  readonly watch?: (leave: () => void) => () => void;
}

export class AsyncTokenizer {
  /** The tokenizers of all tenants share this object. Without a thread, the caller's thread does all jobs. */
  #shared: { thread: TokenizerThread | undefined };
  #owner: JobOwner = { tenant: "" };

  /** @param source the tokenizer's files; absent: the caller's thread does all jobs */
  constructor(
    private readonly tokenizer: Tokenizer,
    source?: TokenizerSource,
  ) {
    const options = { script: "text/tokenizer-thread.js", workerData: source, name: "the tokenizer's thread" };
    this.#shared = { thread: source && new FairThread(options) };
  }

  /** The same tokenizer for one request: a waiting job is dropped when the request's client leaves. */
  of(owner: JobOwner): AsyncTokenizer {
    const own = new AsyncTokenizer(this.tokenizer);
    own.#shared = this.#shared;
    own.#owner = owner;
    return own;
  }

  /**
   * The ids of each text.
   * @param maxTokens per text: a text that clearly has more is not encoded to its end
   */
  encode(
    texts: readonly string[],
    options: EncodeOptions,
    maxTokens = Number.POSITIVE_INFINITY,
  ): Promise<readonly Encoded[]> {
    return this.#run({ kind: "encode", texts, options, maxTokens }) as Promise<readonly Encoded[]>;
  }

  /** A text's ids as JSON and, on demand, the text of each id. */
  list(text: string, options: EncodeOptions, withTexts: boolean): Promise<TokenList> {
    return this.#run({ kind: "list", text, options, withTexts }) as Promise<TokenList>;
  }

  /** Special tokens are kept. Throws `token_out_of_range`. */
  decode(ids: readonly number[] | Int32Array): Promise<string> {
    return this.#run({ kind: "decode", ids }) as Promise<string>;
  }

  /** Ends the tokenizer for all requests once the model is no longer served. Pending jobs still finish; then the thread's memory is freed. */
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
      // If the files became unreadable or changed, the caller's thread continues with the tokenizer that is loaded.
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
