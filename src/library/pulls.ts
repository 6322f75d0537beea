/**
 * Downloads in the background: a few at once, each model once, resumed after an interruption, and remembered for a
 * while
 * after their end.
 */
import { randomUUID } from "node:crypto";
import { MillraceError, toMillraceError } from "../core/errors.js";
import type { Pull, PullStatus } from "../core/model-library.js";
import { type ResolveOptions, resolveModelPath } from "../formats/hub.js";

const MOST_AT_ONCE = 3;
const MOST_REMEMBERED = 50;

class Download implements Pull {
  readonly ended: Promise<void>;
  readonly #id = randomUUID();
  readonly #abort = new AbortController();
  readonly #startedAtMs = Date.now();
  #state: PullStatus["state"] = "running";
  #progress: Pick<PullStatus, "file" | "receivedBytes" | "totalBytes"> = {
    file: undefined,
    receivedBytes: 0,
    totalBytes: 0,
  };
  #error: MillraceError | undefined;
  #endedAtMs: number | undefined;

  constructor(
    readonly model: string,
    options: ResolveOptions,
  ) {
    this.ended = this.#run(options);
  }

  get isOver(): boolean {
    return this.#endedAtMs !== undefined;
  }

  status(): PullStatus {
    return {
      id: this.#id,
      model: this.model,
      state: this.#state,
      ...this.#progress,
      error: this.#error,
      startedAtMs: this.#startedAtMs,
      endedAtMs: this.#endedAtMs,
    };
  }

  cancel(): Promise<void> {
    this.#abort.abort();
    return this.ended;
  }

  async #run(options: ResolveOptions): Promise<void> {
    const { signal } = this.#abort;
    try {
      await resolveModelPath(this.model, {
        ...options,
        signal,
        onProgress: (progress) => {
          this.#state = "running";
          this.#progress = progress;
        },
        onWait: () => {
          this.#state = "waiting";
        },
      });
      this.#state = "done";
    } catch (thrown) {
      this.#state = signal.aborted ? "cancelled" : "failed";
      if (!signal.aborted) this.#error = toMillraceError(thrown);
    }
    this.#endedAtMs = Date.now();
  }
}

export class Pulls {
  /** Oldest first. */
  #all: readonly Download[] = [];

  constructor(private readonly options: ResolveOptions) {}

  list(): readonly PullStatus[] {
    return this.#all.map((each) => each.status());
  }

  /** @param spec hf:org/repo[@revision][:file] */
  start(spec: string): Pull {
    const running = this.#all.filter(({ isOver }) => !isOver);
    const same = running.find(({ model }) => model === spec);
    if (same !== undefined) return same;
    if (running.length >= MOST_AT_ONCE) {
      throw new MillraceError("pull_limit", `expected at most ${MOST_AT_ONCE} downloads at once, got one more`, {
        hint: "wait until one has ended, or cancel one",
      });
    }
    const pull = new Download(spec, this.options);
    const numEnded = this.#all.length - running.length;
    const oldest = this.#all.find(({ isOver }) => isOver);
    this.#all = [...this.#all.filter((each) => numEnded < MOST_REMEMBERED || each !== oldest), pull];
    return pull;
  }

  get(id: string): Download {
    const found = this.#all.find((each) => each.status().id === id);
    if (found !== undefined) return found;
    throw new MillraceError("not_found", `expected the id of a download, got ${JSON.stringify(id.slice(0, 80))}`, {
      hint: `the last ${MOST_REMEMBERED} are remembered until the server ends`,
    });
  }
}
