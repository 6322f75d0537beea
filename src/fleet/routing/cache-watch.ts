/**
 * Follows the prefix caches of ready instances, as their adapters report them. After a lost report, the adapter starts
 * again. A malformed report is an error of ours: the adapter then waits until the instance becomes ready again. In the
 * meantime the cache counts as unknown, which is safer than a stale view.
 */
import { pause } from "../../core/abort-signals.js";
import { MillraceError } from "../../core/errors.js";
import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { Upstream, UpstreamPool, UpstreamTarget } from "../upstream/upstream.js";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** A longer report resets the pause; a short one does not, since each attempt begins with the complete cache. */
const LASTING_MS = 5_000;

type Follow = (target: UpstreamTarget, signal: AbortSignal) => AsyncIterable<CachedBlocks>;

interface Followed {
  readonly starts: number;
  readonly end: AbortController;
  blocks: CachedBlocks | undefined;
}

export class CacheWatch {
  readonly #followed = new Map<string, Followed>();
  readonly #endListening: () => void;

  /**
   * @param followOf follows an engine's cache (`Adapter.followCache`); undefined: the engine has no reports
   * @param onFault called with the first error since the instance became ready
   */
  constructor(
    pool: UpstreamPool,
    private readonly followOf: (upstream: Upstream) => Follow | undefined,
    private readonly onFault: (id: string, thrown: unknown) => void = () => {},
  ) {
    for (const model of pool.models()) for (const upstream of pool.upstreams(model)) this.#look(upstream);
    this.#endListening = pool.onChange((upstream) => this.#look(upstream));
  }

  /** The cached blocks of an instance's current process; undefined while they are unknown. */
  blocksOf({ id, starts }: Pick<Upstream, "id" | "starts">): CachedBlocks | undefined {
    const followed = this.#followed.get(id);
    return followed?.starts === starts ? followed.blocks : undefined;
  }

  close(): void {
    this.#endListening();
    for (const id of [...this.#followed.keys()]) this.#leave(id);
  }

  #look(upstream: Upstream): void {
    const { id, starts, state, target } = upstream;
    const follow = state === "ready" ? this.followOf(upstream) : undefined;
    const known = this.#followed.get(id);
    if (known !== undefined && (follow === undefined || known.starts !== starts)) this.#leave(id);
    if (follow === undefined || target === undefined || this.#followed.has(id)) return;
    const followed: Followed = { starts, end: new AbortController(), blocks: undefined };
    this.#followed.set(id, followed);
    void this.#keep(id, followed, () => follow(target, followed.end.signal));
  }

  #leave(id: string): void {
    this.#followed.get(id)?.end.abort();
    this.#followed.delete(id);
  }

  /** Never rejects. An engine without reports is asked again after its next start. */
  async #keep(id: string, followed: Followed, follow: () => AsyncIterable<CachedBlocks>): Promise<void> {
    const { signal } = followed.end;
    let isFaulty = false;
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      let reportedMs: number | undefined;
      try {
        for await (const blocks of follow()) {
          followed.blocks = blocks;
          reportedMs ??= performance.now();
        }
        if (reportedMs === undefined) return;
      } catch (thrown) {
        // Health checks judge the instance; here its cache only becomes unknown.
        followed.blocks = undefined;
        if (!isFaulty && !signal.aborted) this.onFault(id, thrown);
        isFaulty = true;
        if (thrown instanceof MillraceError) return;
      }
      followed.blocks = undefined;
      // Measured from the first report, since an idle engine has nothing new to report.
      if (reportedMs !== undefined && performance.now() - reportedMs > LASTING_MS) pauseMs = FIRST_PAUSE_MS;
      await pause(pauseMs, signal);
    }
  }
}
