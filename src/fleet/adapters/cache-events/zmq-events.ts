/**
 * vLLM's cache events over ZeroMQ: a PUB socket, whose messages are [topic, number, batch], and a ROUTER socket that sends the last ones
 * again, from a number on (ZmqEventPublisher of vllm/distributed/kv_events.py).
 */
import { decode } from "@msgpack/msgpack";
import type { CachedBlocks } from "../../../text/cached-blocks.js";
import type { CacheEventSockets } from "../../upstream/upstream.js";
import { VllmBlocks } from "./vllm-blocks.js";

const REPLAY_MS = 10_000;
/** A batch has the blocks of one step. */
const MAX_BATCH_BYTES = 64 * 2 ** 20;

/** @yields the blocks after each batch; ends without any where the ZeroMQ client, an optional package, is not installed */
export async function* followZmq(sockets: CacheEventSockets, signal: AbortSignal): AsyncGenerator<CachedBlocks> {
  const zmq = await import("zeromq").catch(() => undefined);
  if (zmq === undefined || signal.aborted) return;
  const subscriber = new zmq.Subscriber({ maxMessageSize: MAX_BATCH_BYTES, receiveHighWaterMark: 0, linger: 0 });
  const replay = new zmq.Dealer({
    maxMessageSize: MAX_BATCH_BYTES,
    receiveTimeout: REPLAY_MS,
    receiveHighWaterMark: 0,
    linger: 0,
  });
  const close = () => {
    subscriber.close();
    replay.close();
  };
  signal.addEventListener("abort", close, { once: true });
  try {
    subscriber.connect(sockets.events);
    // Before the replay: messages published meanwhile wait in the socket, and those sent twice are left out by their number.
    subscriber.subscribe("");
    replay.connect(sockets.replay);
    const blocks = new VllmBlocks();
    // The first batch that is left may be a late one. Blocks stored before it are not known, nor those that follow them: routing counts too few.
    let next: number | undefined;
    const take = (number: bigint | undefined, payload: Buffer | undefined): boolean => {
      if (number === undefined || payload === undefined || Number(number) < (next ?? 0)) return false;
      if (next !== undefined && Number(number) > next)
        throw new Error(`expected batch ${next} of cache events, got ${number}`);
      blocks.apply(decode(payload, { useBigInt64: true }));
      next = Number(number) + 1;
      return true;
    };
    await replay.send([Buffer.alloc(0), Buffer.alloc(8)]);
    for await (const frames of replay) {
      // An empty frame, then the topic where there is one to send again, the number, and the batch.
      const [payload, number] = [frames.at(-1), numberIn(frames.at(-2))];
      if (number === undefined || number < 0n) break;
      take(number, payload);
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

const numberIn = (frame: Buffer | undefined): bigint | undefined =>
  frame?.length === 8 ? frame.readBigInt64BE() : undefined;
