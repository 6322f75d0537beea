/** Matrices of a model that folders have as rows of a larger one. */
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

/** Parts under one name are rows of one matrix. @returns undefined for tensors that folders have one by one */
export function rowPartOf(name: string, model: ServableModel): RowPart | undefined {
  const [, part = ""] = /^blk\.\d+\.(\w+)\.weight$/.exec(name) ?? [];
  const { attn_q, attn_k, ffn_gate_shexp, ffn_up_shexp } = partsOf(model.architecture);
  if (attn_q !== undefined && attn_q === attn_k) return ofKeyHeads(part, model);
  if (ffn_gate_shexp === undefined || ffn_gate_shexp !== ffn_up_shexp) return undefined;
  return ofGatedPart(part, expertsOf(model)?.sharedWidth ?? 0);
}

/** Of each key head, its queries, its key and its value; or all queries, then all keys, then all values. */
function ofKeyHeads(part: string, model: ServableModel): RowPart | undefined {
  const [mixer] = attentionMixers(model);
  const numGroups = partsOf(model.architecture).attn_q!.endsWith("wqkv") ? mixer!.numKvHeads : 1;
  const queries = queryWidth({ mixer: mixer! }) / numGroups;
  const rows = keyWidth({ mixer: mixer! }) / numGroups;
  const group = { numGroups, groupRows: queries + 2 * rows };
  if (part === "attn_q") return { ...group, offset: 0, rows: queries };
  if (part === "attn_k") return { ...group, offset: queries, rows };
  return part === "attn_v" ? { ...group, offset: queries + rows, rows } : undefined;
}

/** A gate above the matrix that it is beside. */
function ofGatedPart(part: string, rows: number): RowPart | undefined {
  if (part !== "ffn_gate_shexp" && part !== "ffn_up_shexp") return undefined;
  return { numGroups: 1, groupRows: 2 * rows, offset: part === "ffn_gate_shexp" ? 0 : rows, rows };
}

/** `count` rows from row `first` of the larger matrix on, which are rows of the part from `at` on. */
interface Run {
  readonly first: number;
  readonly count: number;
  readonly at: number;
}

/** Rows [start, start + count) of a part, as far as each group has them. */
export function runsOf({ groupRows, offset, rows }: RowPart, start: number, count: number): readonly Run[] {
  const runs: Run[] = [];
  for (let at = start; at < start + count; ) {
    const within = at % rows;
    const length = Math.min(rows - within, start + count - at);
    runs.push({ first: Math.floor(at / rows) * groupRows + offset + within, count: length, at });
    at += length;
  }
  return runs;
}
