/**
 * Medusa's network (arXiv 2401.10774): head k drafts the token k + 2 places after t from the hidden state of t alone,
 * through residual blocks x + silu(W x + b) and an output matrix, which is the model's where the heads have none.
 */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import { bindTensors, type Linear } from "../blocks/binder.js";
import { Products } from "../blocks/products.js";
import type { HeadNetwork, HeadsTarget } from "./head-network.js";
import type { HeadsPlace } from "./heads-file.js";
import type { MedusaFolder } from "./medusa-folder.js";

interface MedusaHead {
  /** At least one, each [width, width]. */
  readonly blocks: readonly Linear[];
  /** [vocabSize, width]; undefined: the model's */
  readonly output?: Linear;
}

/** Heads of the hub. Rejects with model_tensor where a tensor is missing, has another shape, or is not computed. */
export async function createMedusaOfHub(
  { numHeads, numBlocks, tensors, numBytes }: MedusaFolder,
  target: HeadsTarget,
  place: HeadsPlace,
): Promise<HeadNetwork> {
  const { width, vocabSize } = target.config;
  const set = { name: "medusa", files: [], numBytes, memoryBytes: numBytes, source: tensors };
  const heads = await bindTensors(set, place.backend, place.report, (binder) =>
    Array.from({ length: numHeads }, (_, head) => ({
      blocks: Array.from({ length: numBlocks }, (__, block) => binder.linear(`heads.${head}.${block}`, width, width)),
      output: binder.linear(`heads.${head}.output`, vocabSize, width),
    })),
  );
  // Factors and bounds of logits are those of the model's own output matrix.
  const config = { ...target.config, name: "medusa", ropes: [], layers: [], logitScale: 1, logitCap: 0 };
  return medusaNetwork(heads, config, target, place);
}

/** @param config has no layers, and the model's width */
export function medusaNetwork(
  heads: readonly MedusaHead[],
  config: ServableModel,
  target: HeadsTarget,
  { backend, maxRows }: HeadsPlace,
): HeadNetwork {
  const { width } = config;
  const products = new Products(backend, maxRows);
  const inner = backend.allocate(maxRows * width * 4);
  /** out = silu(block(x)) */
  const activated = (program: Program, out: BufferHandle, x: BufferHandle, block: Linear, numRows: number) => {
    products.multiply(program, out, x, block, numRows, width);
    program.record("activate", { x: out, numRows, width, kind: "silu" });
  };
  return {
    name: "medusa",
    config,
    weights: { ...target.weights, layers: [], layerInputs: undefined, outputNorm: undefined },
    outputs: heads.map(({ output }) => output ?? target.weights.output!),
    maxTokens: heads.length,
    readsOwn: false,
    recordInput(program, hidden, states, { numRows }, depth) {
      const [first, ...others] = heads[depth]!.blocks;
      activated(program, hidden, states.buffer, first!, numRows);
      program.record("add", { out: hidden, x: states.buffer, numRows, width });
      for (const block of others) {
        activated(program, inner, hidden, block, numRows);
        program.record("add", { out: hidden, x: inner, numRows, width });
      }
    },
  };
}
