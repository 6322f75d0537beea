/** Against sockets that behave as vLLM's publisher does. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { encode } from "@msgpack/msgpack";
import { afterEach, expect, test } from "vitest";
import { Publisher, Router } from "zeromq";
import { until } from "../../../../test/helpers/fake-server.js";
import { followZmq } from "./zmq-events.js";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

class StandInPublisher {
  readonly sockets;
  readonly #events = new Publisher({ linger: 0 });
  readonly #replay = new Router({ linger: 0 });
  readonly #sent: Buffer[] = [];
  #numDropped = 0;
  numReplays = 0;

  constructor() {
    const folder = mkdtempSync(join(tmpdir(), "millrace-zmq-"));
    folders.push(folder);
    this.sockets = { events: `ipc://${join(folder, "events")}`, replay: `ipc://${join(folder, "replay")}` };
  }

  async open(): Promise<void> {
    await this.#events.bind(this.sockets.events);
    await this.#replay.bind(this.sockets.replay);
    void this.#answer();
  }

  /** Forgets the oldest batches, as vLLM does with more than buffer_steps batches. */
  forget(count: number): void {
    this.#numDropped += count;
  }

  async publish(hash: number, isLost = false): Promise<void> {
    const event = {
      type: "BlockStored",
      block_hashes: [hash],
      parent_block_hash: null,
      token_ids: [hash, hash],
      block_size: 2,
      lora_id: null,
      medium: "GPU",
      lora_name: null,
    };
    await this.publishBatch(Buffer.from(encode([1, [event], 0])), isLost);
  }

  async publishBatch(batch: Buffer, isLost = false): Promise<void> {
    const frames = [Buffer.alloc(0), numbered(this.#sent.length), batch];
    this.#sent.push(batch);
    if (!isLost) await this.#events.send(frames);
  }

  close(): void {
    this.#events.close();
    this.#replay.close();
  }

  async #answer(): Promise<void> {
    for await (const [client, , start] of this.#replay) {
      for (let i = Math.max(this.#numDropped, Number(start!.readBigInt64BE())); i < this.#sent.length; i++) {
        await this.#replay.send([client!, "", "", numbered(i), this.#sent[i]!]);
      }
      await this.#replay.send([client!, "", "", numbered(-1), ""]);
      this.numReplays++;
    }
  }
}

function numbered(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(value));
  return bytes;
}

async function opened(): Promise<StandInPublisher & Disposable> {
  const publisher = new StandInPublisher();
  await publisher.open();
  return Object.assign(publisher, { [Symbol.dispose]: () => publisher.close() });
}

test("earlier batches are sent again, later ones follow, and the end of the signal is the end", async () => {
  using publisher = await opened();
  await publisher.publish(1);
  await publisher.publish(2);
  const end = new AbortController();
  const sizes: number[] = [];
  for await (const blocks of followZmq(publisher.sockets, end.signal)) {
    sizes.push(blocks.size);
    if (blocks.size < 5) await publisher.publish(blocks.size + 1);
    else end.abort();
  }
  expect(sizes).toEqual([2, 3, 4, 5]);
});

test("a lost batch is an error, and the next attempt has it", async () => {
  using publisher = await opened();
  await publisher.publish(1);
  const follow = async (until: number) => {
    for await (const blocks of followZmq(publisher.sockets, new AbortController().signal)) {
      if (blocks.size === until) return;
      await publisher.publish(2, true);
      await publisher.publish(3);
    }
  };
  await expect(follow(9)).rejects.toThrow("expected batch 1 of cache events, got 2");
  await follow(3);
});

test.each([
  ["lists that are not there", Buffer.from("dd01c9c380".repeat(20), "hex")],
  ["events of older versions", Buffer.from(encode([1, [["AllBlocksCleared"]]]))],
])("a batch that cannot be read is an error of ours, after which nobody asks again: %s", async (_, batch) => {
  using publisher = await opened();
  await publisher.publishBatch(batch);
  const following = followZmq(publisher.sockets, new AbortController().signal);
  await expect(following.next()).rejects.toMatchObject({ code: "upstream_failed" });
});

test("an engine that no longer has its first batches is followed from the first one left", async () => {
  using publisher = await opened();
  await publisher.publish(1);
  await publisher.publish(2);
  publisher.forget(1);
  const following = followZmq(publisher.sockets, new AbortController().signal);
  expect((await following.next()).value?.size).toBe(1);
  await publisher.publish(3);
  expect((await following.next()).value?.size).toBe(2);
  await following.return(undefined);
});

test("an engine that has stored nothing yet is followed all the same", async () => {
  using publisher = await opened();
  const following = followZmq(publisher.sockets, new AbortController().signal);
  let isFirstThere = false;
  const first = following.next().finally(() => {
    isFirstThere = true;
  });
  await until(() => publisher.numReplays === 1, "the question for earlier batches");
  // Batches published before the subscription reaches the publisher are lost.
  while (!isFirstThere) {
    await publisher.publish(1);
    await sleep(10);
  }
  expect((await first).value?.size).toBe(1);
  await following.return(undefined);
});

test("nothing is opened for a signal that has ended already", async () => {
  const sockets = { events: "ipc:///nowhere/events", replay: "ipc:///nowhere/replay" };
  expect((await followZmq(sockets, AbortSignal.abort()).next()).done).toBe(true);
});
