/**
 * Follows the prefix caches of ready instances through their event streams (src/serve/kv-events.ts). A stream begins with a snapshot, so reconnecting repairs
 * any error. Until then the cache counts as unknown, which is safer than a stale view.
 */
import { request } from "undici";
import { z } from "zod";
import { pause } from "../../core/abort-signals.js";
import { CachedBlocks } from "../../text/cached-blocks.js";
import type { Upstream, UpstreamPool, UpstreamTarget } from "../upstream/upstream.js";

/** Time of three heartbeats. */
const SILENCE_MS = 45_000;
const CONNECT_MS = 5_000;
const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 5_000;
/** Largest event: the snapshot of a cache of two million blocks. */
const MAX_EVENT_BYTES = 64 * 2 ** 20;

interface Followed {
  readonly starts: number;
  readonly end: AbortController;
  blocks: CachedBlocks | undefined;
}

const cacheEvent = z.object({
  sequence: z.number(),
  /** Changes in the format of CachedBlocks. */
  blocks: z.array(z.number()),
  // Only snapshots have these two.
  block_size: z.int().min(1).optional(),
  windows: z.array(z.number().min(0)).min(1).max(31).optional(),
});

type CacheEvent = z.output<typeof cacheEvent>;

export class CacheWatch {
  readonly #followed = new Map<string, Followed>();
  readonly #endListening: () => void;

  /** @param pathOf path of an engine's event stream; undefined where it has none */
  constructor(
    pool: UpstreamPool,
    private readonly pathOf: (upstream: Upstream) => string | undefined,
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
    const path = state === "ready" ? this.pathOf(upstream) : undefined;
    const known = this.#followed.get(id);
    if (known !== undefined && (path === undefined || known.starts !== starts)) this.#leave(id);
    if (path === undefined || target === undefined || this.#followed.has(id)) return;
    const followed: Followed = { starts, end: new AbortController(), blocks: undefined };
    this.#followed.set(id, followed);
    void this.#follow(followed, target, path);
  }

  #leave(id: string): void {
    this.#followed.get(id)?.end.abort();
    this.#followed.delete(id);
  }

  /** Never rejects. An instance that refuses for good (an older version, a missing key) is asked again after its next start. */
  async #follow(followed: Followed, target: UpstreamTarget, path: string): Promise<void> {
    const { signal } = followed.end;
    for (let pauseMs = FIRST_PAUSE_MS; !signal.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        const answer = await request(target.url + path, {
          headers: target.apiKey === undefined ? {} : { authorization: `Bearer ${target.apiKey}` },
          headersTimeout: CONNECT_MS,
          bodyTimeout: SILENCE_MS,
          reset: true,
          signal,
        });
        const isStream = String(answer.headers["content-type"]).startsWith("text/event-stream");
        if (!isStream && answer.statusCode < 500) return void (await answer.body.dump());
        for await (const event of eventsOf(answer.body)) {
          followed.blocks = applied(followed.blocks, event);
          pauseMs = FIRST_PAUSE_MS;
        }
      } catch {
        // Health checks judge the instance; here its cache only becomes unknown.
      }
      followed.blocks = undefined;
      await pause(pauseMs, signal);
    }
  }
}

function applied(blocks: CachedBlocks | undefined, event: CacheEvent): CachedBlocks {
  const { sequence, block_size, windows } = event;
  if (block_size !== undefined && windows !== undefined) {
    return new CachedBlocks(windows, block_size, sequence, event.blocks);
  }
  if (blocks === undefined || sequence !== blocks.revision + 1) {
    throw new Error(
      `expected ${blocks === undefined ? "a snapshot" : `event ${blocks.revision + 1}`}, got event ${sequence}`,
    );
  }
  blocks.apply(event.blocks);
  return blocks;
}

/** Parses server-sent events from a stream cut at any place. Throws if an event is malformed or too large. */
async function* eventsOf(body: AsyncIterable<Buffer>): AsyncGenerator<CacheEvent> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_EVENT_BYTES) throw new Error(`expected events of at most ${MAX_EVENT_BYTES} bytes`);
    if (!text.includes("\n\n")) continue;
    const events = text.split("\n\n");
    text = events.pop()!;
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (data !== undefined) yield cacheEvent.parse(JSON.parse(data));
    }
  }
}
