/**
 * A tokenizer for texts of any length. A text of a megabyte takes up to a second, during which the server could answer
 * no request. Long jobs therefore run on a separate thread, which reads the same tokenizer at the first such job.
 */
import { errorFromRecord, MillraceError } from "../core/errors.js";
import { FairThread } from "../core/fair-thread.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer/tokenizer.js";
import {
  type Encoded,
  type JobResult,
  jobSize,
  runJob,
  type TokenDetails,
  type TokenizerJob,
  type TokenList,
} from "./tokenizer-job.js";
import type { TokenizerSource } from "./tokenizer-source.js";
import type { FromTokenizerThread } from "./tokenizer-thread.js";

/** The largest job, in characters or ids, that runs on the caller's thread: about ten milliseconds. */
const MAX_SHORT_JOB = 16 * 1024;

/**
 * Time limit of a job in the thread, including loading the tokenizer: twenty times the time that texts of published
 * models take.
 */
const LIMIT_MS = 20_000;
const LIMIT_MS_PER_CHARACTER = 0.02;

type TokenizerThread = FairThread<TokenizerJob, FromTokenizerThread>;

/** The tenant and the client that a job belongs to. */
export interface JobOwner {
  /** Long jobs take turns between tenants. */
  readonly tenant: string;
  /**
   * Calls `leave` when the client has left, immediately if it already has; returns the function that ends the watch.
   * Absent: the job always runs.
   */
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

  /** A text's ids as JSON and, on request, each token's text or piece. */
  list(text: string, options: EncodeOptions, details: TokenDetails): Promise<TokenList> {
    return this.#run({ kind: "list", text, options, details }) as Promise<TokenList>;
  }

  /** Special tokens are kept. Throws `token_out_of_range`. */
  decode(ids: readonly number[] | Int32Array): Promise<string> {
    return this.#run({ kind: "decode", ids }) as Promise<string>;
  }

  /**
   * Ends the tokenizer for all requests once the model is no longer served. Pending jobs still finish; then the
   * thread's memory is freed.
   */
  end(): void {
    this.#shared.thread?.end();
  }

  /**
   * Encodes in the thread the texts that the caller's thread encodes itself later. Does nothing where the time of the
   * tokenizer's expressions is known.
   */
  async tryOut(texts: readonly string[]): Promise<void> {
    if (!this.tokenizer.hasOwnExpressions) return;
    for (const parseSpecial of [true, false]) await this.encode(texts, { addSpecial: true, parseSpecial });
  }

  async #run(job: TokenizerJob): Promise<JobResult> {
    const cost = jobSize(job);
    const { thread } = this.#shared;
    const isUntried = this.tokenizer.hasOwnExpressions === true && job.kind !== "decode";
    if (thread !== undefined && (cost > MAX_SHORT_JOB || isUntried)) {
      const answer = await this.#runElsewhere(thread, job, cost);
      if (answer.kind === "done") return answer.result;
      if (answer.kind === "failed") throw errorFromRecord(answer.error);
      if (isUntried) throw filesChanged();
      // If the files became unreadable or changed, the caller's thread continues with the loaded tokenizer.
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
      const limitMs = LIMIT_MS + LIMIT_MS_PER_CHARACTER * cost;
      return await thread.run(job, { tenant, cost, onWait, limitMs, beyondLimit: (ms) => tooSlow(cost, ms) });
    } finally {
      endWatch();
    }
  }
}

function tooSlow(cost: number, limitMs: number): MillraceError {
  const seconds = Math.round(limitMs / 1000);
  const message = `expected the tokenizer to be done with ${cost} characters within ${seconds} s, got no answer`;
  return new MillraceError("tokenizer_timeout", `${message}: tokenizer.json has a regular expression of its own`, {
    hint: "Use a GGUF file of this model, whose tokenizer is described by name.",
  });
}

const filesChanged = (): MillraceError =>
  new MillraceError("model_file_changed", "expected the tokenizer's files as they were at the start, got others", {
    hint: "Start again: texts are encoded by a thread that reads them anew.",
  });
