/**
 * The input of the first layer: the embeddings of a step's tokens. Encoders may add the embedding of each token's
 * position and that of the text it is in (first or second), and norm the sum.
 */
import type { Backend } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER, type WeightHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { StepBatch } from "../step/step-batch.js";
import { recordNorm } from "./products.js";
import type { ModelWeights } from "./weights.js";

export class Embedding {
  /** [M, width]: rows of one table on their way to the sum. */
  readonly #part: BufferHandle = NO_BUFFER;

  constructor(
    private readonly config: ServableModel,
    private readonly weights: Pick<ModelWeights, "embedding" | "positions" | "tokenTypes" | "embeddingNorm">,
    backend: Backend,
    maxRows: number,
  ) {
    const { positions, tokenTypes } = weights;
    if (positions !== undefined || tokenTypes !== undefined) this.#part = backend.allocate(maxRows * config.width * 4);
  }

  /** Records the operations that fill `hidden` [numRows, width]. */
  record(program: Program, hidden: BufferHandle, { tokenIds, positions, tokenTypes, numRows }: StepBatch): void {
    const { width, rmsEps, embeddingScale: scale } = this.config;
    const { embedding: weight, positions: positionTable, tokenTypes: typeTable, embeddingNorm } = this.weights;
    program.record("embed", { out: hidden, weight, ids: tokenIds.buffer, numRows, scale });
    const add = (table: WeightHandle | undefined, ids: BufferHandle) => {
      if (table === undefined) return;
      program.record("embed", { out: this.#part, weight: table, ids, numRows, scale: 1 });
      program.record("add", { out: hidden, x: this.#part, numRows, width });
    };
    add(typeTable, tokenTypes.buffer);
    add(positionTable, positions.buffer);
    recordNorm(program, hidden, hidden, numRows, { weights: embeddingNorm, width, eps: rmsEps });
  }
}
