/** Matrices of a model that folders have as rows of a larger one. */
import type { Architecture } from "../description/architectures.js";
import { attentionMixers, type ServableModel } from "../description/servable.js";
import { expertsOf, keyWidth, queryWidth } from "../description/sizes.js";
import { partsOf } from "./part-names.js";

/** `rows` rows of each group, from row `offset` of the group on. */
export interface RowPart {
  readonly numGroups: number;
  readonly groupRows: number;
  readonly offset: number;
  readonly rows: number;
}

const QKV = ["attn_q", "attn_k", "attn_v"] as const;

/** Of each key head, its queries, its key and its value; others have all queries, then all keys, then all values. */
const BY_KEY_HEAD: readonly Architecture[] = ["internlm2", "gptneox"];

/**
 * Parts under one name are rows of one matrix.
 * @returns the parts of which the tensor's rows are made, in order; undefined for tensors that folders have one by one
 */
export function rowPartsOf(name: string, model: ServableModel): readonly RowPart[] | undefined {
  const [, part = ""] = /^blk\.\d+\.(\w+)\.(?:weight|bias)$/.exec(name) ?? [];
  const { attn_q, attn_k, attn_qkv, ffn_gate_shexp, ffn_up_shexp } = partsOf(model.architecture);
  if (part === "attn_qkv" && attn_qkv !== undefined && BY_KEY_HEAD.includes(model.architecture)) {
    return QKV.map((each) => ofHeads(each, model));
  }
  if (attn_q !== undefined && attn_q === attn_k) {
    const ofQkv = QKV.find((each) => each === part);
    return ofQkv && [ofHeads(ofQkv, model)];
  }
  if (ffn_gate_shexp === undefined || ffn_gate_shexp !== ffn_up_shexp) return undefined;
  return ofGatedPart(part, expertsOf(model)?.sharedWidth ?? 0);
}

function ofHeads(part: (typeof QKV)[number], model: ServableModel): RowPart {
  const [mixer] = attentionMixers(model);
  const numGroups = BY_KEY_HEAD.includes(model.architecture) ? mixer!.numKvHeads : 1;
  const queries = queryWidth({ mixer: mixer! }) / numGroups;
  const rows = keyWidth({ mixer: mixer! }) / numGroups;
  const group = { numGroups, groupRows: queries + 2 * rows };
  if (part === "attn_q") return { ...group, offset: 0, rows: queries };
  return { ...group, offset: part === "attn_k" ? queries : queries + rows, rows };
}

/** A gate above the matrix that it is beside. */
function ofGatedPart(part: string, rows: number): readonly RowPart[] | undefined {
  if (part !== "ffn_gate_shexp" && part !== "ffn_up_shexp") return undefined;
  return [{ numGroups: 1, groupRows: 2 * rows, offset: part === "ffn_gate_shexp" ? 0 : rows, rows }];
}

/** `count` rows from row `first` of the larger matrix on, which are rows of the tensor from `at` on. */
interface Run {
  readonly first: number;
  readonly count: number;
  readonly at: number;
}

/** Rows [start, start + count) of a tensor that is made of parts, as far as each group has them. */
export function runsOf(parts: readonly RowPart[], start: number, count: number): readonly Run[] {
  const runs: Run[] = [];
  let before = 0;
  for (const { numGroups, groupRows, offset, rows } of parts) {
    const end = Math.min(numGroups * rows, start + count - before);
    for (let at = Math.max(0, start - before); at < end; ) {
      const within = at % rows;
      const length = Math.min(rows - within, end - at);
      runs.push({ first: Math.floor(at / rows) * groupRows + offset + within, count: length, at: before + at });
      at += length;
    }
    before += numGroups * rows;
  }
  return runs;
}

/** Rows of the larger matrix. */
export const numRowsAround = ([part]: readonly RowPart[]): number => part!.numGroups * part!.groupRows;

/** The values of a vector that is made of parts. @param stored of the larger vector */
export function gathered(stored: Float32Array, parts: readonly RowPart[], length: number): Float32Array {
  const values = new Float32Array(length);
  for (const { first, count, at } of runsOf(parts, 0, length)) values.set(stored.subarray(first, first + count), at);
  return values;
}
