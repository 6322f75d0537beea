/** Memory of the KV blocks: keys and values of all layers. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { KvType } from "../../backend/ops.js";
import type { KvShape } from "../../backend/program.js";
import type { AttentionMixer, LatentMixer } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import { latentWidth } from "../../model/description/sizes.js";
import type { BlockMemory } from "./disk-tier.js";
import type { KvGroupSpec } from "./groups.js";

export interface KvLayout {
  readonly kvType: KvType;
  readonly blockSize: number;
  /** Per pool. */
  readonly numBlocks: readonly number[];
  readonly groups: readonly KvGroupSpec[];
  /** Extra blocks, for forks, after those of each pool; absent: none. */
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
  /** The keys' where values are a part of them. */
  readonly values: BufferHandle;
  readonly shape: KvShape;
  /** KV group whose block tables and slots the layer uses. */
  readonly group: number;
}

/** Heads of the entries; latent attention has one, whose values are the end of its key. */
function entryShape(mixer: AttentionMixer | LatentMixer) {
  if (mixer.kind === "latent") {
    return { numHeads: mixer.numHeads, numKvHeads: 1, headDim: latentWidth(mixer), latentDim: mixer.kvRank };
  }
  const { numHeads, numKvHeads, headDim } = mixer;
  return { numHeads, numKvHeads, headDim };
}

export class KvCaches implements BlockMemory {
  /** undefined: a recurrent layer, which keeps no keys and values */
  readonly #layers: readonly (LayerCache | undefined)[];
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
    const place = (group: number, buffer: BufferHandle, numBytes: number): void => {
      parts.push({ group, buffer, start: blockBytes, numBytes });
      blockBytes += numBytes;
    };
    /** By pool, then by the layer's place in its group: the layers of groups that share a pool share its memory. */
    const ofPool: { readonly keys: BufferHandle; readonly values: BufferHandle }[][] = groups.map(() => []);
    this.#layers = layers.map(({ mixer }, layer) => {
      if (mixer.kind !== "attention" && mixer.kind !== "latent") return undefined;
      const shape = { kvType, blockSize, ...entryShape(mixer) };
      const isLatent = mixer.kind === "latent";
      const keysOf = isLatent ? undefined : mixer.keysOf;
      const storing = keysOf ?? layer;
      const group = groups.findIndex((each) => each.layers.includes(storing));
      const numBytes = blockSize * shape.numKvHeads * backend.kvEntryBytes(kvType, shape.headDim);
      const { pool, layers: together } = groups[group]!;
      // The layers of an encoder use one memory in turn, since no later step reads what they store.
      const index = isCausal ? together.indexOf(storing) : 0;
      const allocate = () => backend.allocate((numBlocks[pool]! + numSpare) * numBytes);
      const known = ofPool[pool]![index];
      const allocateBoth = () => {
        const keys = allocate();
        return { keys, values: isLatent ? keys : allocate() };
      };
      const own = known ?? allocateBoth();
      ofPool[pool]![index] = own;
      if (known === undefined || (isCausal && keysOf === undefined)) {
        place(group, own.keys, numBytes);
        if (!isLatent) place(group, own.values, numBytes);
      }
      return { ...own, shape, group };
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
