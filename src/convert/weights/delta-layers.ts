/**
 * Arranges a model's recurrent layers for a copy's format. GGUF files of some models order value heads differently from
 * folders, and one matrix of a folder may correspond to two of a file (decision 210).
 */
import type { MatrixRows, MatrixSpec, TensorSource } from "../../backend/tensor-source.js";
import { factsOf } from "../../model/description/architectures.js";
import { type DeltaMixer, layersOf } from "../../model/description/model-description.js";
import { readRange } from "../../model/description/read-rows.js";
import type { ServableModel } from "../../model/description/servable.js";
import { mixedWidth } from "../../model/description/sizes.js";
import { headOrder, valueOrder } from "../../model/description/value-heads.js";
import type { OpenModel } from "../../model/open-model.js";

/** @param isFile true for a GGUF file, false for a folder */
export function asWritten(model: OpenModel, isFile: boolean): OpenModel {
  const { config } = model;
  const { delta } = factsOf(config.architecture);
  if (delta === undefined) return model;
  const isTiled = isFile && delta.isTiledInFiles;
  const isFused = !isFile && delta.isFusedInFolders;
  const layers = layersOf(config.layers.length, (index) => {
    const layer = config.layers[index]!;
    return layer.mixer.kind === "delta" ? { ...layer, mixer: { ...layer.mixer, isTiled } } : layer;
  });
  return {
    ...model,
    config: { ...config, layers },
    tensors: () => new ReorderedSource(model.tensors(), config, { isTiled, isFused }),
  };
}

interface Layout {
  readonly isTiled: boolean;
  /** Whether queries, keys, values and gates are rows of one matrix, by key heads. */
  readonly isFused: boolean;
}

/** Rows of a matrix of the source. */
interface Run {
  readonly part: string;
  readonly totalRows: number;
  readonly start: number;
  readonly rows: number;
}

/** A recurrent layer of the source, in another layout. */
interface MovedLayer {
  readonly mixer: DeltaMixer;
  /** Rows of each matrix that the source arranges differently. */
  readonly matrices: ReadonlyMap<string, readonly Run[]>;
  /** Matrices of the source whose rows become part of others. */
  readonly gone: readonly string[];
  /** Place of each value head in the source; undefined: the order is the same. */
  readonly heads: readonly number[] | undefined;
}

const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

class ReorderedSource implements TensorSource {
  readonly #layers = new Map<number, MovedLayer>();

  constructor(
    private readonly source: TensorSource,
    private readonly config: ServableModel,
    private readonly layout: Layout,
  ) {}

  has(name: string): boolean {
    const { layer, part } = this.#partOf(name);
    if (layer?.matrices.has(part) === true) return true;
    return layer?.gone.includes(part) !== true && this.source.has(name);
  }

  expectNoOthers(names: ReadonlySet<string>): void {
    const own = [...names].flatMap((name) => {
      const { layer, prefix, part } = this.#partOf(name);
      const runs = layer?.matrices.get(part);
      return runs === undefined ? [name] : runs.map((run) => `${prefix}${run.part}`);
    });
    this.source.expectNoOthers(new Set(own));
  }

  values(name: string, length: number, count?: number): Float32Array {
    const values = this.source.values(name, length, count);
    const { layer, part } = this.#partOf(name);
    if (layer?.heads === undefined) return values;
    const { heads, mixer } = layer;
    if (part === "ssm_a" || part === "ssm_dt.bias") return values.map((_, head) => values[heads[head]!]!);
    if (part !== "ssm_conv1d.weight") return values;
    // [channels, taps]; the value heads' channels are the last ones.
    const places = valueOrder(mixer, this.layout.isTiled)!;
    const start = values.length - places.length * length;
    return Float32Array.from(values, (value, at) => {
      const channel = Math.floor((at - start) / length);
      return at < start ? value : values[start + places[channel]! * length + (at % length)]!;
    });
  }

  matrix(spec: MatrixSpec): MatrixRows {
    const { name, cols } = spec;
    const { layer, prefix, part } = this.#partOf(name);
    const runs = layer?.matrices.get(part);
    const columns = part === "ssm_out.weight" ? layer && valueOrder(layer.mixer, this.layout.isTiled) : undefined;
    if (runs === undefined && columns === undefined) return this.source.matrix(spec);
    // Values stored in 16 bits stay exact in 32.
    const convert = (target: ArrayBuffer): void => {
      const out = new Float32Array(target);
      const stored = { ...spec, keepsValues: true };
      if (runs !== undefined) {
        gather(this.source, stored, prefix, runs, out);
        return;
      }
      const values = readRange(this.source, stored);
      for (let at = 0; at < values.length; at++) out[at] = values[at - (at % cols) + columns![at % cols]!]!;
    };
    return { type: "F32", convert };
  }

  /** The recurrent layer of a tensor, and the rest of the tensor's name. */
  #partOf(name: string): { readonly layer: MovedLayer | undefined; readonly prefix: string; readonly part: string } {
    const [, prefix = "", number = "", part = ""] = /^(blk\.(\d+)\.)(.+)$/.exec(name) ?? [];
    const index = Number(number);
    const mixer = prefix === "" ? undefined : this.config.layers[index]?.mixer;
    if (mixer?.kind !== "delta") return { layer: undefined, prefix, part };
    const layer = this.#layers.get(index) ?? this.#move(mixer, prefix);
    this.#layers.set(index, layer);
    return { layer, prefix, part };
  }

  #move(mixer: DeltaMixer, prefix: string): MovedLayer {
    const { isTiled, isFused } = this.layout;
    const heads = headOrder(mixer, isTiled);
    const has = (part: string) => this.source.has(`${prefix}${part}`);
    const isFusedThere = has(FUSED);
    const matrices = new Map<string, readonly Run[]>();
    if (heads !== undefined || isFused !== isFusedThere) {
      const rows = isFusedThere ? rowsOfFused(mixer) : rowsOfSplit(mixer);
      const order = heads ?? range(mixer.numHeads);
      for (const [part, runs] of isFused ? fused(mixer, rows, order) : split(mixer, rows, order))
        matrices.set(part, runs);
    }
    for (const part of heads === undefined ? [] : GATES.filter(has)) {
      matrices.set(
        part,
        heads!.map((head) => ({ part, totalRows: mixer.numHeads, start: head, rows: 1 })),
      );
    }
    return { mixer, matrices, gone: isFused === isFusedThere ? [] : isFusedThere ? [FUSED] : [MIXED, GATE], heads };
  }
}

const FUSED = "ssm_in.weight";
const MIXED = "attn_qkv.weight";
const GATE = "attn_gate.weight";
const GATES: readonly string[] = ["ssm_alpha.weight", "ssm_beta.weight"];

/** Rows of a key head's query and key, and of a value head's value and gate, in the source. */
interface HeadRows {
  query(keyHead: number): Run;
  key(keyHead: number): Run;
  value(head: number): Run;
  gate(head: number): Run;
}

function rowsOfSplit(mixer: DeltaMixer): HeadRows {
  const { numHeads, numKeyHeads, headDim, valueDim } = mixer;
  const mixed = (start: number, rows: number): Run => ({ part: MIXED, totalRows: mixedWidth(mixer), start, rows });
  return {
    query: (keyHead) => mixed(keyHead * headDim, headDim),
    key: (keyHead) => mixed((numKeyHeads + keyHead) * headDim, headDim),
    value: (head) => mixed(2 * numKeyHeads * headDim + head * valueDim, valueDim),
    gate: (head) => ({ part: GATE, totalRows: numHeads * valueDim, start: head * valueDim, rows: valueDim }),
  };
}

/** Per key head: query, key, values, gates. */
function rowsOfFused({ numHeads, numKeyHeads, headDim, valueDim }: DeltaMixer): HeadRows {
  const perKeyHead = numHeads / numKeyHeads;
  const ofKeyHead = 2 * headDim + 2 * perKeyHead * valueDim;
  const run = (keyHead: number, start: number, rows: number): Run => ({
    part: FUSED,
    totalRows: numKeyHeads * ofKeyHead,
    start: keyHead * ofKeyHead + start,
    rows,
  });
  const ofValue = (head: number, first: number): Run =>
    run(Math.floor(head / perKeyHead), 2 * headDim + (first + (head % perKeyHead)) * valueDim, valueDim);
  return {
    query: (keyHead) => run(keyHead, 0, headDim),
    key: (keyHead) => run(keyHead, headDim, headDim),
    value: (head) => ofValue(head, 0),
    gate: (head) => ofValue(head, perKeyHead),
  };
}

type Matrices = readonly (readonly [part: string, runs: readonly Run[]])[];

/** @param heads place of each value head in the source */
function split({ numKeyHeads }: DeltaMixer, rows: HeadRows, heads: readonly number[]): Matrices {
  const keyHeads = range(numKeyHeads);
  return [
    [MIXED, [...keyHeads.map(rows.query), ...keyHeads.map(rows.key), ...heads.map(rows.value)]],
    [GATE, heads.map(rows.gate)],
  ];
}

function fused({ numKeyHeads }: DeltaMixer, rows: HeadRows, heads: readonly number[]): Matrices {
  const perKeyHead = heads.length / numKeyHeads;
  const runs = range(numKeyHeads).flatMap((keyHead) => {
    const own = heads.slice(keyHead * perKeyHead, (keyHead + 1) * perKeyHead);
    return [rows.query(keyHead), rows.key(keyHead), ...own.map(rows.value), ...own.map(rows.gate)];
  });
  return [[FUSED, runs]];
}

/** Reads the rows of `spec`, which is in the copy's layout, from their places in the source. */
function gather(source: TensorSource, spec: MatrixSpec, prefix: string, runs: readonly Run[], out: Float32Array): void {
  const { cols, start, rows } = spec;
  let first = 0;
  for (const run of runs) {
    const from = Math.max(start, first);
    const count = Math.min(start + rows, first + run.rows) - from;
    if (count > 0) {
      const name = `${prefix}${run.part}`;
      const part = { ...spec, name, totalRows: run.totalRows, start: run.start + from - first, rows: count };
      out.set(readRange(source, part), (from - start) * cols);
    }
    first += run.rows;
  }
}
