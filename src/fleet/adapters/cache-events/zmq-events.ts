/**
 * vLLM's cache events over ZeroMQ: a PUB socket with messages of [topic, number, batch], and a ROUTER socket that
 * replays the last batches from a given number (ZmqEventPublisher of vllm/distributed/kv_events.py).
 */
import { decode } from "@msgpack/msgpack";
import { MillraceError } from "../../../core/errors.js";
import type { CachedBlocks } from "../../../text/cached-blocks.js";
import type { CacheEventSockets } from "../../upstream/upstream.js";
import { expectBoundedMessage } from "./msgpack-bounds.js";
import { VllmBlocks } from "./vllm-blocks.js";

/** Time limits for the next replayed batch, and for the last one. */
const NEXT_REPLAY_MS = 10_000;
const REPLAY_MS = 60_000;
/** A batch holds the blocks of one step. */
const MAX_BATCH_BYTES = 4 * 2 ** 20;
/**
 * Batches in the receive queue. vLLM replays its last 10,000 (buffer_steps) and drops batches that the queue has no
 * room for, which leaves a gap.
 */
const MAX_WAITING = 4096;
const MAX_REPLAYED = 16_384;

/**
 * @yields the blocks after each batch; ends without yielding if the ZeroMQ client, an optional package, is missing
 * @throws upstream_failed for a malformed batch; other errors after a lost batch, which a new attempt replays
 */
export async function* followZmq(sockets: CacheEventSockets, signal: AbortSignal): AsyncGenerator<CachedBlocks> {
  const zmq = await import("zeromq").catch(() => undefined);
  if (zmq === undefined || signal.aborted) return;
  const common = { maxMessageSize: MAX_BATCH_BYTES, linger: 0 };
  const subscriber = new zmq.Subscriber({ ...common, receiveHighWaterMark: MAX_WAITING });
  const replay = new zmq.Dealer({ ...common, receiveHighWaterMark: MAX_REPLAYED, receiveTimeout: NEXT_REPLAY_MS });
  const close = () => {
    subscriber.close();
    replay.close();
  };
  signal.addEventListener("abort", close, { once: true });
  try {
    subscriber.connect(sockets.events);
    // Subscribe before the replay: later messages wait in the socket, and batches that come twice are skipped by
    // number.
    subscriber.subscribe("");
    replay.connect(sockets.replay);
    const blocks = new VllmBlocks();
    // The replay may begin with a late batch. Blocks stored before it stay unknown, as do all blocks after them in a
    // prompt: routing then counts too few.
    let next: number | undefined;
    const take = (number: bigint | undefined, payload: Buffer | undefined): boolean => {
      if (number === undefined || payload === undefined || Number(number) < (next ?? 0)) return false;
      if (next !== undefined && Number(number) > next)
        throw new Error(`expected batch ${next} of cache events, got ${number}`);
      applyBatch(blocks, payload);
      next = Number(number) + 1;
      return true;
    };
    const deadlineMs = performance.now() + REPLAY_MS;
    await replay.send([Buffer.alloc(0), Buffer.alloc(8)]);
    for await (const frames of replay) {
      // The frames: an empty one, the topic before a replayed batch, its number, and the batch.
      const [payload, number] = [frames.at(-1), numberIn(frames.at(-2))];
      if (number === undefined || number < 0n) break;
      take(number, payload);
      if (performance.now() > deadlineMs) throw new Error(`expected all earlier cache events within ${REPLAY_MS} ms`);
    }
    if (blocks.blocks !== undefined) yield blocks.blocks;
    for await (const [, number, payload] of subscriber) {
      if (take(numberIn(number), payload) && blocks.blocks !== undefined) yield blocks.blocks;
    }
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

function applyBatch(blocks: VllmBlocks, payload: Buffer): void {
  try {
    expectBoundedMessage(payload);
    blocks.apply(decode(payload, { useBigInt64: true }));
  } catch (thrown) {
    const got = thrown instanceof Error ? thrown.message : String(thrown);
    throw new MillraceError("upstream_failed", `expected cache events as vLLM 0.32 writes them, got others: ${got}`, {
      hint: "Routing guesses what this instance holds. Versions from 0.26 on write events as maps: install a newer vLLM.",
      cause: thrown,
    });
  }
}

const numberIn = (frame: Buffer | undefined): bigint | undefined =>
  frame?.length === 8 ? frame.readBigInt64BE() : undefined;
