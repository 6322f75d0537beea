/**
 * GET /kv_events: what the prefix cache holds and what becomes of it, as server-sent events, so that a gateway can send requests where their beginning is
 * cached. After vLLM's KV events (BlockStored, BlockRemoved, AllBlocksCleared of vllm/distributed/kv_events.py), with two differences: a connection begins with
 * all there is, so that nothing is lost for longer than it takes to connect again, and blocks are named by the keys of src/text/block-hash.ts, without tokens.
 */
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { MillraceError } from "../core/errors.js";
import type { BlockChanges } from "../text/cached-blocks.js";
import type { AppContext, ServeContext } from "./http/context.js";
import { onDisconnect } from "./http/disconnect.js";
import { SseStream } from "./http/sse.js";

export function kvEvents(c: AppContext, context: ServeContext): Promise<Response> {
  const outgoing = c.env?.outgoing;
  if (outgoing === undefined || !("req" in outgoing)) {
    throw new MillraceError("internal_error", "expected a Node HTTP/1 response to stream to, got none");
  }
  const { engine, limits, lifecycle, isolatesApiKeys } = context;
  // What is cached, and when, is news of everybody; and no key here is more than one tenant's.
  if (isolatesApiKeys === true) {
    throw new MillraceError(
      "forbidden",
      "expected a server whose keys share cached prefixes, got one that keeps them apart",
      {
        hint: "give the engine one key, which a gateway in front of it knows, or start it with --no-isolate-api-keys (in a fleet's file isolate-api-keys: false)",
      },
    );
  }
  const { cachedBlocks } = engine;
  const event = (name: string, fields: object) =>
    `event: ${name}\ndata: ${JSON.stringify({ sequence: cachedBlocks.revision, ...fields })}\n\n`;
  const { blockSize: block_size, windows } = cachedBlocks;
  const snapshot = event("snapshot", { block_size, windows, blocks: cachedBlocks.snapshot() });
  return new Promise((resolve) => {
    let endWatch = () => {};
    const end = () => {
      endChanges();
      endWatch();
      lifecycle.endless.delete(end);
      stream.end();
      resolve(RESPONSE_ALREADY_SENT);
    };
    const stream = new SseStream(outgoing, {
      headers: { "X-Request-Id": c.get("requestId") },
      // Who reads too slowly is cut off, and begins again with all there is.
      maxBufferedBytes: limits.maxBufferedBytes,
      onOverflow: () => end(),
    });
    const onChanges = (changes: BlockChanges) => {
      stream.send(event("changes", { blocks: Array.from(changes) }));
      // Right behind the write, not in the next tick: a step's changes are on their way before anybody has its answer.
      queueMicrotask(() => outgoing.socket?.uncork());
    };
    const endChanges = engine.onCacheChanges(onChanges);
    lifecycle.endless.add(end);
    stream.send(snapshot);
    endWatch = onDisconnect(c, end);
  });
}
