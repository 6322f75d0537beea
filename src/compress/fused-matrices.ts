/**
 * Matrices that engines multiply as one: query, key and value, gate and up, and a recurrent layer's projections. With
 * one scale per tensor they share the largest of theirs: if a copy stores that scale for all of them, engines use its
 * codes unchanged.
 */
import { unstacked } from "../backend/tensor-source.js";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import { bytesOf, type ModelTensor, unstackedTensors } from "../convert/weights/tensors.js";
import type { OpenModel } from "../model/open-model.js";

const FUSED: readonly (readonly string[])[] = [
  ["attn_q", "attn_k", "attn_v"],
  ["attn_qkv", "attn_gate"],
  ["ffn_gate", "ffn_up"],
  ["ffn_gate_shexp", "ffn_up_shexp"],
];

/**
 * Names of the matrices that are multiplied together with this one, in a fixed order; each expert has its own.
 * @example "blk.0.ffn_gate.3.weight"
 */
function fusedWith(name: string): readonly string[] {
  const [, layer, part, expert = ""] = /^(blk\.\d+)\.(\w+?)(\.\d+)?\.weight$/.exec(name) ?? [];
  const parts = FUSED.find((each) => each.includes(part ?? ""));
  return parts?.map((each) => `${layer}.${each}${expert}.weight`) ?? [name];
}

/** Name of the matrix itself, if `name` is its stack's. */
function ownNameOf({ name, shape: [rows, cols = 1], stack }: ModelTensor): string {
  if (stack === undefined) return name;
  return unstacked({ name, totalRows: stack.totalRows, cols, start: stack.start, rows, numStacked: stack.count }).name;
}

export class FusedMatrices {
  #tensors: ReadonlyMap<string, ModelTensor> | undefined;
  /** Largest magnitudes, by the first name of the fused matrices. */
  readonly #largest = new Map<string, number>();

  /** @param model the source of the weights */
  constructor(private readonly model: OpenModel) {}

  /** The largest magnitude in the matrix and in those fused with it. Each is read once. */
  largest(tensor: ModelTensor): number {
    const names = fusedWith(ownNameOf(tensor));
    const known = this.#largest.get(names[0]!);
    if (known !== undefined) return known;
    const source = this.model.tensors();
    this.#tensors ??= new Map(
      tensorsOf(this.model.config, source).flatMap((each) => unstackedTensors(each).map((own) => [own.ownName, own])),
    );
    let largest = 0;
    for (const name of names) {
      const own = this.#tensors.get(name);
      for (const piece of own === undefined ? [] : bytesOf(source, own, "F32")) {
        const values = new Float32Array(piece.buffer, piece.byteOffset, piece.byteLength / 4);
        for (let i = 0; i < values.length; i++) largest = Math.max(largest, Math.abs(values[i]!));
      }
    }
    this.#largest.set(names[0]!, largest);
    return largest;
  }
}
