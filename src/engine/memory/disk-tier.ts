/**
 * Published KV blocks on disk. Every published block is written in the background; a sequence whose prefix is not in
 * memory continues from blocks of earlier sequences and processes. A block's key is chained from its parent's key and
 * its tokens; the first key derives from the cache salt and a secret of this machine, so that file names reveal nothing
 * of prompts.
 */
import { createHash, createHmac, randomBytes } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from "node:worker_threads";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";
import type { Closed } from "../api/engine.js";
import type { DiskTierOptions } from "../api/options.js";
import { type DiskTierStats, NO_DISK_TIER } from "../api/stats.js";
import { listBlocks, readBlock } from "./disk-files.js";
import type { DiskWriterData, FromDiskWriter, ToDiskWriter } from "./disk-writer.js";
import type { PrefixNode } from "./prefix-index.js";

/** Access to K and V of a block in all layers. */
export interface BlockMemory {
  readonly blockBytes: number;
  /** @param blocks one id per KV group */
  copyOut(blocks: ArrayLike<number>, target: Uint8Array): Promise<void>;
  copyIn(blocks: ArrayLike<number>, source: Uint8Array): void;
}

/** The compiled file: unlike the tests, a thread cannot run TypeScript sources. */
const WRITER = "dist/src/engine/memory/disk-writer.js";
/** Bytes read back in one step, at most. */
const RESTORED_PER_STEP_BYTES = 64 * 2 ** 20;
/** Bytes copied and not yet written, at most. */
const MAX_PENDING_BYTES = 256 * 2 ** 20;
/** Bytes copied for writing after one step, at most. */
const COPIED_PER_STEP_BYTES = 8 * 2 ** 20;

/** A disk that does not answer for this long is given up when the engine ends. */
const MAX_SILENCE_MS = 20_000;

export class DiskTier {
  readonly #folder: string;
  readonly #secret: Buffer;
  readonly #known: Set<string>;
  readonly #writer: Worker;
  readonly #port: MessagePort;
  /** Published blocks that wait to be copied. */
  readonly #queue: PrefixNode[] = [];
  /** Copies out of memory that are under way. */
  readonly #copies = new Set<Promise<void>>();
  readonly #keys = new WeakMap<PrefixNode, string>();
  #numPendingBytes = 0;
  #numFlushes = 0;
  /** When the writer's last message came. */
  #heardMs = 0;
  #hasEnded = false;
  /** The note about failed writes was given. */
  #isNoted = false;
  #stats = { ...NO_DISK_TIER };

  /**
   * @param fingerprint hash of everything that determines a block's bytes
   * @param note called once when writing fails
   * Throws invalid_option when the folder cannot be used.
   */
  constructor(
    options: DiskTierOptions,
    fingerprint: string,
    private readonly memory: BlockMemory,
    private readonly note: (text: string) => void,
  ) {
    this.#folder = join(options.folder, fingerprint);
    this.#secret = readSecret(options.folder);
    this.#known = new Set(listBlocks(this.#folder));
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const { folder: root, maxBytes } = options;
    const workerData: DiskWriterData = { root, maxBytes, folder: this.#folder, port: port2 };
    this.#writer = new Worker(join(packageRoot(), WRITER), { workerData, transferList: [port2] });
    this.#writer.on("error", (error) => note(`the prefix cache on disk stopped: ${error.message}`));
    this.#writer.once("exit", () => {
      this.#hasEnded = true;
    });
    this.#writer.unref();
    this.#port.unref();
  }

  /** Counts the writes that have ended by now, also while no step runs. */
  get stats(): DiskTierStats {
    this.#receiveAll();
    return this.#stats;
  }

  get blocksPerStep(): number {
    return Math.max(1, Math.floor(RESTORED_PER_STEP_BYTES / this.memory.blockBytes));
  }

  /** Is the block of these tokens after `parent` on disk? */
  has(parent: PrefixNode, tokens: Int32Array): boolean {
    this.#stats.numQueries++;
    return this.#known.has(this.#keyAfter(parent, tokens));
  }

  /** Fills `blocks` from disk; false if the file is gone or damaged. */
  restore(parent: PrefixNode, tokens: Int32Array, blocks: ArrayLike<number>): boolean {
    const key = this.#keyAfter(parent, tokens);
    const payload = readBlock(this.#folder, key);
    if (payload === undefined || payload.length !== this.memory.blockBytes) {
      this.#known.delete(key);
      return false;
    }
    this.memory.copyIn(blocks, payload);
    this.#stats.numHits++;
    return true;
  }

  onPublished(node: PrefixNode): void {
    this.#queue.push(node);
  }

  /** Reads the writer's messages and hands it a few published blocks; returns true while more wait. */
  work(): boolean {
    this.#receiveAll();
    for (let numBytes = 0; numBytes < COPIED_PER_STEP_BYTES && this.#queue.length > 0; ) {
      numBytes += this.#store(this.#queue.shift()!);
    }
    return this.#queue.length > 0;
  }

  /** Resolves when every published block is written or dropped. @returns false: the disk has stopped to answer */
  async #flush(): Promise<boolean> {
    while (this.work()) {}
    await Promise.all(this.#copies);
    this.#numFlushes++;
    this.#send({ kind: "flush" });
    this.#heardMs = performance.now();
    while (this.#numFlushes > 0 && !this.#hasEnded) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      this.work();
      if (performance.now() - this.#heardMs > MAX_SILENCE_MS) return false;
    }
    return true;
  }

  /** Writes the remaining blocks. Abandons the writer's thread if it hangs in a disk call, since nothing can end it. */
  async close(): Promise<Closed> {
    if (await this.#flush()) {
      await this.#writer.terminate();
      return "ended";
    }
    this.note(`the prefix cache's disk has not answered for ${MAX_SILENCE_MS / 1000} s: what was not written is lost`);
    void this.#writer.terminate();
    return "stuck";
  }

  /** @returns bytes copied */
  #store(node: PrefixNode): number {
    if (node.parent === null || !node.isLive || node.blocks.includes(-1)) return 0;
    const key = this.#keyOf(node);
    if (this.#known.has(key)) return 0;
    const { blockBytes } = this.memory;
    if (this.#numPendingBytes + blockBytes > MAX_PENDING_BYTES) {
      this.#stats.numDropped++;
      return 0;
    }
    const payload = new Uint8Array(blockBytes);
    this.#known.add(key);
    this.#numPendingBytes += blockBytes;
    // The copy takes effect before later steps write to the memory, although it resolves after them.
    const isCopied = this.memory.copyOut(node.blocks, payload).then(
      () => this.#send({ kind: "write", key, payload }, [payload.buffer]),
      (thrown: Error) => this.#drop(key, thrown.message),
    );
    this.#copies.add(isCopied);
    void isCopied.then(() => this.#copies.delete(isCopied));
    return blockBytes;
  }

  #receiveAll(): void {
    for (let mail = receiveMessageOnPort(this.#port); mail !== undefined; mail = receiveMessageOnPort(this.#port)) {
      this.#heardMs = performance.now();
      this.#receive(mail.message as FromDiskWriter);
    }
  }

  #receive(message: FromDiskWriter): void {
    if (message.kind === "flushed") this.#numFlushes--;
    else if (message.kind === "tidied") {
      this.#stats.numBytes = message.numBytes;
      this.#stats.numEvicted += message.numEvicted;
    } else if (message.isStored) {
      this.#numPendingBytes -= this.memory.blockBytes;
      this.#stats.numWritten++;
      this.#stats.numBytes += this.memory.blockBytes;
    } else this.#drop(message.key, message.problem);
  }

  /** A block whose write failed is not stored. */
  #drop(key: string, problem: string | undefined): void {
    this.#numPendingBytes -= this.memory.blockBytes;
    this.#known.delete(key);
    this.#stats.numDropped++;
    if (!this.#isNoted) this.note(`the prefix cache on disk cannot be written: ${problem}`);
    this.#isNoted = true;
  }

  #send(message: ToDiskWriter, transfer: readonly ArrayBuffer[] = []): void {
    this.#port.postMessage(message, transfer);
  }

  #keyOf(node: PrefixNode): string {
    let key = this.#keys.get(node);
    if (key === undefined) {
      key =
        node.parent === null
          ? createHmac("sha256", this.#secret).update(node.salt).digest("hex")
          : this.#keyAfter(node.parent, node.tokens);
      this.#keys.set(node, key);
    }
    return key;
  }

  #keyAfter(parent: PrefixNode, tokens: Int32Array): string {
    const bytes = new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength);
    return createHash("sha256").update(this.#keyOf(parent)).update(bytes).digest("hex");
  }
}

/** 32 random bytes, created once per folder; a second process reads those of the first. */
function readSecret(folder: string): Buffer {
  const path = join(folder, "secret");
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const own = `${path}.${randomBytes(6).toString("hex")}.tmp`;
    writeFileSync(own, randomBytes(32), { flag: "wx", mode: 0o600 });
    try {
      // A link appears whole or not at all.
      linkSync(own, path);
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code !== "EEXIST") throw thrown;
    } finally {
      rmSync(own);
    }
    const secret = readFileSync(path);
    if (secret.length === 32) return secret;
    throw new Error(`expected 32 bytes in ${path}, got ${secret.length}`);
  } catch (thrown) {
    throw new MillraceError(
      "invalid_option",
      `expected a folder for the prefix cache that can be written, got ${folder}: ${(thrown as Error).message}`,
      { hint: "Choose another with MILLRACE_CACHE, or start without --prefix-cache-disk.", cause: thrown },
    );
  }
}
