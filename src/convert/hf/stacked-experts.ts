/**
 * Writes experts in transformers' layouts with one tensor for all experts of a layer. gpt-oss's are transposed, with
 * alternating columns of gate and up (src/model/hf/stacked-experts.ts reads them); Gemma 4's are stored like linear
 * layers, with each expert's gate above its up.
 */
import type { TensorSource } from "../../backend/tensor-source.js";
import type { PlainType } from "../../formats/files/plain-values.js";
import type { WritableTensor } from "../../formats/safetensors/write.js";
import type { Architecture } from "../../model/description/architectures.js";
import { hfNameOf, type StackedPart, stackedPartOf } from "../../model/hf/names.js";
import {
  bytesOf,
  encoded,
  type ModelTensor,
  type Preparation,
  prepared,
  unstackedTensors,
} from "../weights/tensors.js";

interface Part extends StackedPart {
  readonly tensor: ModelTensor;
}

const isBias = ({ tensor }: Part): boolean => tensor.shape.length === 1;

/** @returns stacked: each folder tensor that holds several of the model's, with these; others: all other tensors */
export function splitStacked(
  tensors: readonly ModelTensor[],
  architecture: Architecture,
  model: string,
): { readonly stacked: readonly (readonly Part[])[]; readonly others: readonly ModelTensor[] } {
  const groups = new Map<string, Part[]>();
  const others: ModelTensor[] = [];
  for (const tensor of tensors) {
    const part = stackedPartOf(tensor.name, architecture, { model });
    if (part === undefined) {
      others.push(tensor);
      continue;
    }
    const name = storedName({ ...part, tensor });
    const group = groups.get(name) ?? [];
    groups.set(name, group);
    group.push({ ...part, tensor });
  }
  return { stacked: [...groups.values()], others };
}

const storedName = (part: Part): string => `${part.experts}.${part.name}${isBias(part) ? "_bias" : ""}`;

/** @param parts of one tensor of the folder */
export function stackedTensor(source: TensorSource, parts: readonly Part[], type: PlainType): WritableTensor {
  const [first] = parts as [Part];
  const name = storedName(first);
  const { step, tensor } = first;
  const [length, cols] = tensor.shape;
  if (cols === undefined) {
    const count = tensor.count ?? 1;
    const bytes = function* () {
      const out = new Float32Array(count * length * step);
      for (const { tensor: own, phase } of parts) {
        const values = source.values(own.name, length, count);
        values.forEach((value, i) => {
          out[i * step + phase] = value;
        });
      }
      yield encoded(name, "F32", out);
    };
    return { name, type: "F32", shape: [count, step * length], bytes };
  }
  const count = tensor.stack?.count ?? 1;
  const rows = length / count;
  const bytes = function* () {
    const own = parts.map((part) => ({ ...part, matrices: unstackedTensors(part.tensor) }));
    for (let expert = 0; expert < count; expert++) {
      const out = new Float32Array(cols * step * rows);
      for (const { matrices, phase } of own) {
        let at = 0;
        for (const piece of bytesOf(source, matrices[expert]!, "F32")) {
          const values = new Float32Array(piece.slice().buffer);
          for (const value of values) {
            out[(at % cols) * step * rows + Math.floor(at / cols) * step + phase] = value;
            at++;
          }
        }
      }
      yield encoded(name, type, out);
    }
  };
  return { name, type, shape: [count, cols, step * rows], bytes };
}

/** Parts of each expert in a folder's joined tensor, by the tensor's part name; the upper part first. */
const JOINED_EXPERTS = { ffn_gate_up_exps: ["ffn_gate_exps", "ffn_up_exps"], ffn_down_exps: ["ffn_down_exps"] };
const JOINED: Partial<Record<Architecture, Readonly<Record<string, readonly string[]>>>> = {
  gemma4: JOINED_EXPERTS,
  granitemoe: { ...JOINED_EXPERTS, ffn_up_shexp: ["ffn_gate_shexp", "ffn_up_shexp"] },
};

interface JoinedExperts {
  /** Name of the folder's tensor. */
  readonly name: string;
  readonly parts: readonly ModelTensor[];
}

/** @returns joined: experts that one tensor holds unchanged; others: all other tensors */
export function splitJoined(
  tensors: readonly ModelTensor[],
  architecture: Architecture,
  prefixes: Parameters<typeof hfNameOf>[2],
): { readonly joined: readonly JoinedExperts[]; readonly others: readonly ModelTensor[] } {
  const byName = new Map(tensors.map((tensor) => [tensor.name, tensor] as const));
  const joined = tensors.flatMap(({ name }): readonly JoinedExperts[] => {
    const [, layer, part] = /^(blk\.\d+\.)(\w+)\.weight$/.exec(name) ?? [];
    return Object.entries(JOINED[architecture] ?? {}).flatMap(([whole, own]) => {
      if (layer === undefined || part !== own[0]) return [];
      const parts = own.map((each) => byName.get(`${layer}${each}.weight`)!);
      return [{ name: hfNameOf(`${layer}${whole}.weight`, architecture, prefixes)!, parts }];
    });
  });
  const taken = new Set(joined.flatMap(({ parts }) => parts));
  return { joined, others: tensors.filter((tensor) => !taken.has(tensor)) };
}

export function joinedTensor(
  source: TensorSource,
  { name, parts }: JoinedExperts,
  type: PlainType,
  preparation: Preparation | undefined,
): WritableTensor {
  const matrices = parts.map(unstackedTensors);
  const count = matrices[0]!.length;
  const rows = matrices.reduce((sum, [first]) => sum + first!.shape[0], 0);
  const bytes = function* () {
    for (let expert = 0; expert < count; expert++) {
      for (const own of matrices) {
        const tensor = own[expert]!;
        yield* prepared(preparation, tensor.name, () => bytesOf(source, tensor, type));
      }
    }
  };
  const shape = [rows, parts[0]!.shape[1]!];
  return { name, type, shape: parts[0]!.stack === undefined ? shape : [count, ...shape], bytes };
}
