/**
 * vLLM's cached blocks under our own keys. vLLM names a block by its own hash and reports the tokens once, when the
 * block is stored (BlockStored, BlockRemoved and AllBlocksCleared of vllm/distributed/kv_events.py, 0.32). This class
 * keeps each hash with our key of the same tokens, so that a removal, which carries only the hash, finds the key.
 */
import { z } from "zod";
import { blockKey, rootKey } from "../../../text/block-hash.js";
import { CachedBlocks } from "../../../text/cached-blocks.js";

/** 16 million tokens in blocks of 16; a report of more blocks is damaged. */
const MAX_BLOCKS = 1 << 20;
const MAX_GROUPS = 31;
/** Upper bound of a block's hash; SHA-512 has this many bytes. */
const MAX_HASH_BYTES = 64;

const hash = z.union([
  z.bigint(),
  z.number(),
  z.instanceof(Uint8Array).refine(({ length }) => length <= MAX_HASH_BYTES, `expected at most ${MAX_HASH_BYTES} bytes`),
]);
const stored = z.object({
  type: z.literal("BlockStored"),
  block_hashes: z.array(hash),
  parent_block_hash: hash.nullable(),
  token_ids: z.array(z.union([z.number(), z.bigint()])),
  block_size: z.int().min(1),
  medium: z.string().nullish(),
  lora_name: z.string().nullish(),
  extra_keys: z.array(z.array(z.unknown()).nullable()).nullish(),
  group_idx: z
    .int()
    .min(0)
    .max(MAX_GROUPS - 1)
    .nullish(),
  kv_cache_spec_sliding_window: z.int().min(0).nullish(),
});
const removed = z.object({
  type: z.literal("BlockRemoved"),
  block_hashes: z.array(hash),
  medium: z.string().nullish(),
  group_idx: z.int().min(0).nullish(),
});
const cleared = z.object({ type: z.literal("AllBlocksCleared") });
/** [time, events, rank] */
const batch = z
  .tuple([z.number(), z.array(z.discriminatedUnion("type", [stored, removed, cleared]))])
  .rest(z.unknown());

type Stored = z.output<typeof stored>;
type Removed = z.output<typeof removed>;

interface KnownBlock {
  readonly key: number;
  /** Copies of the block in each group; vLLM reports each copy when it is stored and when it is removed. */
  readonly copies: Map<number, number>;
}

export class VllmBlocks {
  readonly #known = new Map<string, KnownBlock>();
  /** Sliding window of each group; 0: full attention. */
  readonly #windows = new Map<number, number>();
  #blocks: CachedBlocks | undefined;

  /** Undefined until the first block is stored, which states the block size. */
  get blocks(): CachedBlocks | undefined {
    return this.#blocks;
  }

  /** Applies one decoded batch. Throws if it is malformed. */
  apply(message: unknown): void {
    const [, events] = batch.parse(message);
    for (const event of events) {
      if (event.type === "BlockStored") this.#store(event);
      else if (event.type === "BlockRemoved") this.#remove(event);
      else this.#clear();
    }
    if (this.#blocks !== undefined) this.#blocks.revision++;
  }

  #store(event: Stored): void {
    const { block_hashes, block_size, token_ids, parent_block_hash, group_idx, extra_keys, lora_name, medium } = event;
    // Routing counts on blocks in device memory only. Groups with blocks that have no key or another size are skipped:
    // vLLM reports the tokens of a sliding window's blocks without the hashes of dropped blocks.
    if (!isOnDevice(medium) || token_ids.length !== block_hashes.length * block_size) return;
    const group = group_idx ?? 0;
    if (!this.#meet(group, event.kv_cache_spec_sliding_window ?? 0, block_size)) return;
    const salt = saltOf(extra_keys?.[0]);
    let parent: number | undefined;
    if (parent_block_hash !== null) parent = this.#known.get(nameOf(parent_block_hash))?.key;
    // Adapters and images are part of vLLM's hash, but not of our keys.
    else if (lora_name == null && salt !== undefined) parent = rootKey(salt);
    const tokens = token_ids.map(Number);
    block_hashes.forEach((each, index) => {
      const isFirst = index === 0 && parent_block_hash === null;
      if (!isFirst && hasOtherKeys(extra_keys?.[index])) parent = undefined;
      if (parent === undefined) return;
      parent = blockKey(parent, tokens, index * block_size, block_size);
      this.#count(nameOf(each), parent, group, 1);
    });
  }

  #remove({ block_hashes, group_idx, medium }: Removed): void {
    if (!isOnDevice(medium)) return;
    for (const each of block_hashes) {
      const name = nameOf(each);
      const known = this.#known.get(name);
      if (known !== undefined) this.#count(name, known.key, group_idx ?? 0, -1);
    }
  }

  #count(name: string, key: number, group: number, change: 1 | -1): void {
    const known = this.#known.get(name) ?? { key, copies: new Map<number, number>() };
    const count = (known.copies.get(group) ?? 0) + change;
    if (count > 0) known.copies.set(group, count);
    else known.copies.delete(group);
    if (known.copies.size > 0) this.#known.set(name, known);
    else this.#known.delete(name);
    if (this.#known.size > MAX_BLOCKS) throw new Error(`expected at most ${MAX_BLOCKS} cached blocks, got more`);
    let groups = 0;
    for (const held of known.copies.keys()) groups |= 1 << held;
    // Keep the key under which a removal will find the block. A hash that returns with other tokens is damaged.
    this.#blocks?.change(known.key, groups);
  }

  #clear(): void {
    this.#known.clear();
    if (this.#blocks !== undefined) this.#blocks = this.#made(this.#blocks.blockSize);
  }

  /**
   * A group becomes known with its first block. Until then, no prompt's block that the group would have to hold counts
   * as cached.
   * @returns false for blocks of another size than the first group's
   * @throws for a group that changes its window
   */
  #meet(group: number, window: number, blockSize: number): boolean {
    if (this.#blocks !== undefined && this.#blocks.blockSize !== blockSize) return false;
    const known = this.#windows.get(group);
    if (known === window) return true;
    // Each change of a window would cost a copy of all blocks.
    if (known !== undefined) throw new Error(`expected group ${group} to keep its window of ${known}, got ${window}`);
    this.#windows.set(group, window);
    this.#blocks = this.#made(blockSize, this.#blocks?.snapshot());
    return true;
  }

  #made(blockSize: number, blocks: readonly number[] = []): CachedBlocks {
    const numGroups = Math.max(...this.#windows.keys()) + 1;
    const windows = Array.from({ length: numGroups }, (_, group) => this.#windows.get(group) ?? 0);
    return new CachedBlocks(windows, blockSize, 0, blocks);
  }
}

const isOnDevice = (medium: string | null | undefined): boolean => medium == null || medium === "GPU";

const nameOf = (value: z.output<typeof hash>): string =>
  value instanceof Uint8Array ? Buffer.from(value).toString("hex") : String(value);

/** The salt of a prompt's first block; undefined if the block depends on more than tokens and salt. */
function saltOf(keys: readonly unknown[] | null | undefined): string | undefined {
  if (keys == null || keys.length === 0) return "";
  return keys.length === 1 && typeof keys[0] === "string" ? keys[0] : undefined;
}

const hasOtherKeys = (keys: readonly unknown[] | null | undefined): boolean => keys != null && keys.length > 0;
