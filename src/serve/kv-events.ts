/**
 * GET /kv_events: the content of the prefix cache and its changes, as server-sent events. A gateway uses them to send a
 * request to the engine that has cached its prefix. Modelled on vLLM's KV events (BlockStored, BlockRemoved,
 * AllBlocksCleared of vllm/distributed/kv_events.py), with two differences: a connection begins with a snapshot, so
 * reconnecting repairs every loss, and events name blocks by the keys of src/text/block-hash.ts, without tokens.
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
  // The events include all tenants, and no key may see another tenant's.
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
      // A slow reader is cut off; its next connection begins with a snapshot.
      maxBufferedBytes: limits.maxBufferedBytes,
      onOverflow: () => end(),
    });
    const onChanges = (changes: BlockChanges) => {
      stream.send(event("changes", { blocks: Array.from(changes) }));
      // Directly after the write, not in the next tick: a step's changes go out before any client has its answer.
      queueMicrotask(() => outgoing.socket?.uncork());
    };
    const endChanges = engine.onCacheChanges(onChanges);
    lifecycle.endless.add(end);
    stream.send(snapshot);
    endWatch = onDisconnect(c, end);
  });
}
