/** Memory of the KV blocks: keys and values of all layers. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { KvType } from "../../backend/ops.js";
import type { KvShape } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { BlockMemory } from "./disk-tier.js";
import type { KvGroupSpec } from "./groups.js";

export interface KvLayout {
  readonly kvType: KvType;
  readonly blockSize: number;
  /** Per group. */
  readonly numBlocks: readonly number[];
  readonly groups: readonly KvGroupSpec[];
  /** Blocks behind those of each group's pool; absent: none. */
  readonly numSpare?: number;
}

/** A layer's K or V within the copy of one block in all layers. */
interface BlockPart {
  readonly group: number;
  readonly buffer: BufferHandle;
  readonly start: number;
  readonly numBytes: number;
}

/** One layer's memory, as `ropeAndWriteKv` lays it out. */
export interface LayerCache {
  readonly keys: BufferHandle;
  readonly values: BufferHandle;
  readonly shape: KvShape;
  /** KV group whose block tables and slots the layer uses. */
  readonly group: number;
}

export class KvCaches implements BlockMemory {
  readonly #layers: readonly LayerCache[];
  /** K and V of all layers. */
  readonly #parts: readonly BlockPart[];
  /** Bytes of one block in all layers. */
  readonly blockBytes: number;

  constructor(
    { layers, isCausal }: ServableModel,
    { kvType, blockSize, numBlocks, groups, numSpare = 0 }: KvLayout,
    private readonly backend: Backend,
  ) {
    const parts: BlockPart[] = [];
    let blockBytes = 0;
    const allocate = (group: number, numBytes: number): BufferHandle => {
      const buffer = backend.allocate((numBlocks[group]! + numSpare) * numBytes);
      parts.push({ group, buffer, start: blockBytes, numBytes });
      blockBytes += numBytes;
      return buffer;
    };
    let shared: LayerCache | undefined;
    this.#layers = layers.map(({ mixer: { numHeads, numKvHeads, headDim } }, layer) => {
      const shape = { kvType, numHeads, numKvHeads, headDim, blockSize };
      const group = groups.findIndex((each) => each.layers.includes(layer));
      const numBytes = blockSize * numKvHeads * backend.kvEntryBytes(kvType, headDim);
      // The layers of an encoder use one memory in turn, since no later step reads what they store.
      if (shared !== undefined) return { ...shared, shape };
      const own = { keys: allocate(group, numBytes), values: allocate(group, numBytes), shape, group };
      if (!isCausal) shared = own;
      return own;
    });
    this.#parts = parts;
    this.blockBytes = blockBytes;
  }

  layer(index: number): LayerCache {
    return this.#layers[index]!;
  }

  async copyOut(blocks: ArrayLike<number>, target: Uint8Array): Promise<void> {
    const reads = this.#parts.map(({ group, buffer, start, numBytes }) =>
      this.backend.read(buffer, blocks[group]! * numBytes, target.subarray(start, start + numBytes)),
    );
    await Promise.all(reads);
  }

  copyIn(blocks: ArrayLike<number>, source: Uint8Array): void {
    for (const { group, buffer, start, numBytes } of this.#parts) {
      this.backend.write(buffer, blocks[group]! * numBytes, source.subarray(start, start + numBytes));
    }
  }
}
