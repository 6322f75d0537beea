/** Keys and values of all layers in blocks: what the KV manager's block numbers stand for. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { KvType } from "../../backend/ops.js";
import type { KvShape } from "../../backend/program.js";
import type { ModelConfig } from "../../model/config.js";
import type { BlockMemory } from "./disk-tier.js";
import type { KvGroupSpec } from "./groups.js";

export interface KvLayout {
  readonly kvType: KvType;
  readonly blockSize: number;
  /** Per group. */
  readonly numBlocks: readonly number[];
  readonly groups: readonly KvGroupSpec[];
}

/** One layer's memory, as `ropeAndWriteKv` lays it out. */
export interface LayerCache {
  readonly keys: BufferHandle;
  readonly values: BufferHandle;
  readonly shape: KvShape;
  /** Whose block tables and slots the layer goes by. */
  readonly group: number;
}

export class KvCaches implements BlockMemory {
  readonly #layers: readonly LayerCache[];
  /** All layers' K and V, with the group of each. */
  readonly #buffers: readonly { readonly group: number; readonly buffer: BufferHandle }[];
  /** Of one block in one layer's K or V. */
  readonly #layerBlockBytes: number;
  /** Of one block in all layers. */
  readonly blockBytes: number;

  constructor(
    { layers, numHeads, numKvHeads, headDim }: ModelConfig,
    { kvType, blockSize, numBlocks, groups }: KvLayout,
    private readonly backend: Backend,
  ) {
    const shape = { kvType, numHeads, numKvHeads, headDim, blockSize };
    this.#layerBlockBytes = blockSize * numKvHeads * backend.kvEntryBytes(kvType, headDim);
    const allocate = (group: number) => backend.allocate(numBlocks[group]! * this.#layerBlockBytes);
    this.#layers = layers.map((_, layer) => {
      const group = groups.findIndex((each) => each.layers.includes(layer));
      return { keys: allocate(group), values: allocate(group), shape, group };
    });
    this.#buffers = this.#layers.flatMap(({ keys, values, group }) => [
      { group, buffer: keys },
      { group, buffer: values },
    ]);
    this.blockBytes = this.#layerBlockBytes * this.#buffers.length;
  }

  layer(index: number): LayerCache {
    return this.#layers[index]!;
  }

  async copyOut(blocks: ArrayLike<number>, target: Uint8Array): Promise<void> {
    const size = this.#layerBlockBytes;
    const reads = this.#buffers.map(({ group, buffer }, i) =>
      this.backend.read(buffer, blocks[group]! * size, target.subarray(i * size, (i + 1) * size)),
    );
    await Promise.all(reads);
  }

  copyIn(blocks: ArrayLike<number>, source: Uint8Array): void {
    const size = this.#layerBlockBytes;
    this.#buffers.forEach(({ group, buffer }, i) => {
      this.backend.write(buffer, blocks[group]! * size, source.subarray(i * size, (i + 1) * size));
    });
  }
}
