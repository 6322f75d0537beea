/** How much attention the observed queries give to each stored entry, counted in the layers that evict entries. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { AttentionMixer, LatentMixer } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { LayerAttention } from "./eviction.js";
import type { KvGroupSpec } from "./groups.js";

/** The memory of one layer, as `countAttention` reads it. */
export interface LayerCounts {
  /** i32 [seats, countStride] */
  readonly counts: BufferHandle;
  /** i32 [seats] */
  readonly entropies: BufferHandle;
  readonly countStride: number;
  readonly unit: number;
}

/** Upper bound of a count: `unit` is so small that the weights of all observed queries and heads add up to no more. */
const MOST_SUM = 2 ** 30;

export class AttentionCounts {
  readonly #layers = new Map<number, LayerCounts>();

  /**
   * @param numObserved most queries of a sequence that are counted before its counts are cleared;
   * @param countStride most entries of a sequence
   */
  constructor(
    { layers }: ServableModel,
    groups: readonly KvGroupSpec[],
    private readonly backend: Backend,
    numSeats: number,
    countStride: number,
    numObserved: number,
  ) {
    for (const layer of groups.flatMap(({ window, layers }) => (window === 0 ? layers : []))) {
      const unit =
        2 **
        Math.floor(
          Math.log2(MOST_SUM / (numObserved * (layers[layer]!.mixer as AttentionMixer | LatentMixer).numHeads)),
        );
      // The operating system provides the buffer page by page as it is written, so short sequences use little memory.
      const counts = backend.allocate(numSeats * countStride * 4);
      this.#layers.set(layer, { counts, entropies: backend.allocate(numSeats * 4), countStride, unit });
    }
  }

  ofLayer(layer: number): LayerCounts | undefined {
    return this.#layers.get(layer);
  }

  /**
   * Call before a sequence's first observed query.
   * @param numEntries most entries that the last observed query will see
   */
  clear(seat: number, numEntries: number): void {
    const zeros = new Uint8Array(numEntries * 4);
    for (const { counts, entropies, countStride } of this.#layers.values()) {
      this.backend.write(counts, seat * countStride * 4, zeros);
      this.backend.write(entropies, seat * 4, zeros.subarray(0, 4));
    }
  }

  /** By layer that evicts. @param numEntries by layer: entries stored now */
  async read(seat: number, numEntries: readonly number[]): Promise<LayerAttention[]> {
    return await Promise.all(
      [...this.#layers.values()].map(async ({ counts, entropies, countStride }, i) => {
        const ofLayer = new Int32Array(numEntries[i]!);
        const entropy = new Int32Array(1);
        await this.backend.read(counts, seat * countStride * 4, new Uint8Array(ofLayer.buffer));
        await this.backend.read(entropies, seat * 4, new Uint8Array(entropy.buffer));
        return { counts: ofLayer, entropy: entropy[0]! };
      }),
    );
  }
}
