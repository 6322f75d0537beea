/** Keeps connections to instances open between requests, in one pool per address. */
import { Pool } from "undici";

/** Drops an address after this time without use: a restarted instance may have another port. */
const FORGET_AFTER_MS = 10 * 60_000;
const MAX_ANSWER_HEADER_BYTES = 64 * 1024;

interface KeptPool {
  readonly pool: Pool;
  usedMs: number;
}

export class UpstreamConnections {
  readonly #pools = new Map<string, KeptPool>();

  constructor(
    private readonly connectMs: number,
    private readonly now: () => number,
  ) {}

  poolOf(url: string): Pool {
    const known = this.#pools.get(url);
    if (known !== undefined) {
      known.usedMs = this.now();
      return known.pool;
    }
    this.#forgetOld();
    const pool = new Pool(url, {
      connectTimeout: this.connectMs,
      // One request per connection at a time. The attempt enforces the time limits, since it knows the client's pace.
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: MAX_ANSWER_HEADER_BYTES,
    });
    this.#pools.set(url, { pool, usedMs: this.now() });
    return pool;
  }

  async close(): Promise<void> {
    const pools = [...this.#pools.values()];
    this.#pools.clear();
    await Promise.all(pools.map(({ pool }) => pool.destroy()));
  }

  #forgetOld(): void {
    for (const [url, { pool, usedMs }] of this.#pools) {
      if (this.now() - usedMs < FORGET_AFTER_MS) continue;
      this.#pools.delete(url);
      // The pool closes after its last request.
      void pool.close();
    }
  }
}
