/**
 * The cache events of our own engine (src/serve/kv-events.ts): a stream of server-sent events that begins with a
 * snapshot, so that reconnecting repairs any error.
 */
import { request } from "undici";
import { z } from "zod";
import { CachedBlocks } from "../../../text/cached-blocks.js";
import type { UpstreamTarget } from "../../upstream/upstream.js";

/** Three heartbeat intervals. */
const SILENCE_MS = 45_000;
const CONNECT_MS = 5_000;
/** Largest event: the snapshot of a cache of two million blocks. */
const MAX_EVENT_BYTES = 64 * 2 ** 20;

const cacheEvent = z.object({
  sequence: z.number(),
  /** CachedBlocks checks the format of changes. */
  blocks: z.array(z.number()),
  // Only snapshots have these two.
  block_size: z.int().min(1).optional(),
  windows: z.array(z.number().min(0)).min(1).max(31).optional(),
});

type CacheEvent = z.output<typeof cacheEvent>;

/**
 * @yields the blocks after each event; ends without yielding if the engine always refuses: an older version, or a
 * missing key
 */
export async function* followEventStream(
  { url, apiKey }: UpstreamTarget,
  path: string,
  signal: AbortSignal,
): AsyncGenerator<CachedBlocks> {
  const answer = await request(url + path, {
    headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    headersTimeout: CONNECT_MS,
    bodyTimeout: SILENCE_MS,
    reset: true,
    signal,
  });
  const isStream = String(answer.headers["content-type"]).startsWith("text/event-stream");
  if (!isStream) {
    await answer.body.dump();
    if (answer.statusCode < 500) return;
    throw new Error(`expected a stream of cache events, got status ${answer.statusCode}`);
  }
  let blocks: CachedBlocks | undefined;
  for await (const event of eventsOf(answer.body)) {
    blocks = applied(blocks, event);
    yield blocks;
  }
  throw new Error("expected a stream of cache events without an end, got its end");
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

/** Parses server-sent events from a stream that is cut anywhere. Throws if an event is malformed or too large. */
async function* eventsOf(body: AsyncIterable<Buffer>): AsyncGenerator<CacheEvent> {
  const decoder = new TextDecoder();
  // Chunks are joined once, at the event's end.
  let pieces: string[] = [];
  let length = 0;
  for await (const chunk of body) {
    const piece = decoder.decode(chunk, { stream: true });
    const before = pieces.at(-1)?.at(-1) ?? "";
    pieces.push(piece);
    length += piece.length;
    if (length > MAX_EVENT_BYTES) throw new Error(`expected events of at most ${MAX_EVENT_BYTES} bytes`);
    if (!(before + piece).includes("\n\n")) continue;
    const events = pieces.join("").split("\n\n");
    pieces = [events.pop()!];
    length = pieces[0]!.length;
    for (const event of events) {
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (data !== undefined) yield cacheEvent.parse(JSON.parse(data));
    }
  }
}
