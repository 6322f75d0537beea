/** Tensors beside a layer's experts that change its output and that nothing computes. */
import type { TensorSource } from "../../backend/tensor-source.js";
import type { ExpertsFeedForward } from "./model-description.js";
import { unservedVariant } from "./servable.js";

const MATRICES = ["ffn_gate", "ffn_up", "ffn_down"] as const;
const STACKS = [...MATRICES, "ffn_gate_up"].map((matrix) => `${matrix}_exps`);

/** Under llama.cpp's names, each after its layer's prefix, by what they are. */
const UNSERVED_OF_EXPERTS: Readonly<Record<string, readonly string[]>> = {
  "a bias of the router's scores": ["ffn_gate_inp.bias", "exp_probs_b.bias", "exp_probs_b"],
  "biases of their own": STACKS.map((stack) => `${stack}.bias`),
  "scales of their own": STACKS.map((stack) => `${stack}.scale`),
  "a part that every token passes": [
    "ffn_gate_inp_shexp.weight",
    ...["shexp", "chexps"].flatMap((shared) => MATRICES.map((matrix) => `${matrix}_${shared}.weight`)),
  ],
};

/**
 * @param prefix of the layer's tensor names
 * @throws architecture_unsupported, where the layer has a tensor that would be left out
 */
export function refuseUnservedExperts(
  source: Pick<TensorSource, "has">,
  { count }: ExpertsFeedForward,
  prefix: string,
): void {
  const refuse = (what: string, tensor: string): void => {
    if (source.has(tensor)) throw unservedVariant(`expected experts without ${what}, got a tensor ${tensor}`);
  };
  for (const [what, names] of Object.entries(UNSERVED_OF_EXPERTS)) {
    for (const name of names) refuse(what, `${prefix}${name}`);
  }
  // Folders and older files have a tensor for each expert.
  for (let expert = 0; expert < count; expert++) {
    for (const matrix of MATRICES) refuse("biases of their own", `${prefix}${matrix}.${expert}.bias`);
  }
}
