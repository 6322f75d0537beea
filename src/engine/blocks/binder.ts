/**
 * Takes tensors by their names and places them in the backend: weights of a model, and of heads beside it. The source
 * checks that every tensor is there and has the shape that is asked for.
 */
import type { Backend, LoadReport, WeightSet } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER, type WeightHandle, type WeightStackHandle } from "../../backend/handles.js";
import { type MatrixSpec, type TensorSource, unstacked } from "../../backend/tensor-source.js";

export interface Linear {
  /** [outputs, inputs] */
  readonly weight: WeightHandle;
  /** f32 [outputs] or NO_BUFFER */
  readonly bias: BufferHandle;
}

/** A linear layer of each expert. */
export interface LinearStack {
  /** [experts, outputs, inputs] */
  readonly weights: WeightStackHandle;
  /** f32 [experts, outputs] or NO_BUFFER */
  readonly biases: BufferHandle;
}

/** Rows [start, start + rows) of each of `count` matrices [totalRows, cols]; without start and rows: all of them. */
interface StackPart {
  readonly count: number;
  readonly totalRows: number;
  readonly cols: number;
  readonly start?: number;
  readonly rows?: number;
  /** Each has a bias. */
  readonly isBiased: boolean;
}

/** Takes tensors one by one, in the order of the forward pass. */
export interface Binder {
  has(name: string): boolean;
  /**
   * Rows [start, start + rows) of the matrix `<name>.weight` [totalRows, cols], and the same part of `<name>.bias` if
   * it exists.
   */
  linear(name: string, totalRows: number, cols: number, start?: number, rows?: number): Linear;
  /** A part of the matrices that `<name>.weight` stacks, and the same part of `<name>.bias` where they are biased. */
  stack(name: string, part: StackPart): LinearStack;
  /** For exact products: the matrix keeps its stored values. @param isBiased it has a bias */
  exact(name: string, rows: number, cols: number, isBiased: boolean): Linear;
  /** Rows [start, start + rows) of a matrix that keep their stored values: for row look-ups. */
  rows(name: string, rows: number, cols: number, start?: number, totalRows?: number): WeightHandle;
  vector(name: string, length: number): BufferHandle;
  /** A bias of a norm. */
  optionalVector(name: string, length: number): BufferHandle | undefined;
  values(name: string, length: number): Float32Array;
  /** A small matrix f32 [length, count] that is stored as `count` vectors. */
  transposed(name: string, length: number, count: number): BufferHandle;
  /** The tensor may be there; it is not read. */
  ignore(name: string): void;
}

/** A model's tensors with their facts. */
interface TensorSet extends Omit<WeightSet, "matrices"> {
  readonly source: TensorSource;
  /**
   * Whether every linear layer and every LayerNorm must have a bias; absent: biases are used where the file has them.
   */
  readonly areBiased?: boolean;
  /** Names of tensors that other code reads. */
  readonly otherNames?: readonly string[];
}

/**
 * Binds tensors. `bind` runs twice: first to list the matrices, then with the handles that the backend has placed them
 * under.
 * @returns the result of the second run
 */
export async function bindTensors<T>(
  tensors: TensorSet,
  backend: Backend,
  report: LoadReport,
  bind: (binder: Binder) => T,
): Promise<T> {
  const plan = new MatrixPlan(tensors.source);
  bind(plan);
  const { otherNames = [], areBiased = false, ...set } = tensors;
  tensors.source.expectNoOthers(new Set([...plan.names, ...otherNames]));
  const placed = await backend.place({ ...set, matrices: plan.matrices }, report);
  return bind(new PlacedBinder(tensors.source, backend, placed, areBiased));
}

/** Only lists the tensors, so that the backend can place all matrices at once. */
class MatrixPlan implements Binder {
  readonly matrices: MatrixSpec[] = [];
  /** Names of all tensors that the loader takes. */
  readonly names = new Set<string>();

  constructor(private readonly source: TensorSource) {}

  has(name: string): boolean {
    return this.source.has(name);
  }

  linear(name: string, totalRows: number, cols: number, start = 0, rows = totalRows): Linear {
    this.#add({ name: `${name}.weight`, totalRows, cols, start, rows });
    this.names.add(`${name}.bias`);
    return { weight: 0 as WeightHandle, bias: NO_BUFFER };
  }

  stack(name: string, { count, totalRows, cols, start = 0, rows = totalRows, isBiased }: StackPart): LinearStack {
    for (let e = 0; e < count; e++) {
      const spec = { name: `${name}.weight`, totalRows: count * totalRows, cols, start: e * totalRows + start, rows };
      this.#add({ ...spec, numStacked: count });
    }
    if (isBiased) this.names.add(`${name}.bias`);
    return { weights: 0 as WeightStackHandle, biases: NO_BUFFER };
  }

  exact(name: string, rows: number, cols: number, isBiased: boolean): Linear {
    if (isBiased) this.names.add(`${name}.bias`);
    return { weight: this.rows(name, rows, cols), bias: NO_BUFFER };
  }

  rows(name: string, rows: number, cols: number, start = 0, totalRows = rows): WeightHandle {
    this.#add({ name: `${name}.weight`, totalRows, cols, start, rows, keepsValues: true });
    return 0 as WeightHandle;
  }

  vector(name: string): BufferHandle {
    this.names.add(name);
    return NO_BUFFER;
  }

  optionalVector(name: string): undefined {
    this.names.add(name);
  }

  values(name: string): Float32Array {
    this.names.add(name);
    return new Float32Array();
  }

  transposed(name: string): BufferHandle {
    return this.vector(name);
  }

  ignore(name: string): void {
    this.names.add(name);
  }

  #add(spec: MatrixSpec): void {
    this.matrices.push(spec);
    this.names.add(spec.name);
    if (spec.numStacked !== undefined) this.names.add(unstacked(spec).name);
  }
}

class PlacedBinder implements Binder {
  #numBound = 0;

  /** @param placed handles of the plan's matrices, in the same order */
  constructor(
    private readonly source: TensorSource,
    private readonly backend: Backend,
    private readonly placed: readonly WeightHandle[],
    private readonly areBiased: boolean,
  ) {}

  has(name: string): boolean {
    return this.source.has(name);
  }

  linear(name: string, totalRows: number, _cols: number, start = 0, rows = totalRows): Linear {
    const isBiased = this.areBiased || this.has(`${name}.bias`);
    return { weight: this.rows(), bias: this.#biases(name, isBiased, totalRows, start, rows) };
  }

  exact(name: string, rows: number, _cols: number, isBiased: boolean): Linear {
    return { weight: this.rows(), bias: this.#biases(name, isBiased, rows, 0, rows) };
  }

  stack(name: string, { count, totalRows, start = 0, rows = totalRows, isBiased }: StackPart): LinearStack {
    const weights = this.backend.stack(Array.from({ length: count }, () => this.rows()));
    return { weights, biases: this.#biases(name, isBiased, totalRows, start, rows, count) };
  }

  /** Values [start, start + rows) of each of `count` vectors; undefined: of one that is no stack. */
  #biases(
    name: string,
    isBiased: boolean,
    totalRows: number,
    start: number,
    rows: number,
    count?: number,
  ): BufferHandle {
    if (!isBiased) return NO_BUFFER;
    const all = this.source.values(`${name}.bias`, totalRows, count);
    const wanted = Float32Array.from({ length: rows * (count ?? 1) }, (_, i) => {
      const index = Math.floor(i / rows);
      return all[index * totalRows + start + (i % rows)]!;
    });
    return this.#upload(wanted);
  }

  rows(): WeightHandle {
    return this.placed[this.#numBound++]!;
  }

  optionalVector(name: string, length: number): BufferHandle | undefined {
    return this.areBiased || this.has(name) ? this.vector(name, length) : undefined;
  }

  vector(name: string, length: number): BufferHandle {
    return this.#upload(this.values(name, length));
  }

  values(name: string, length: number): Float32Array {
    return this.source.values(name, length);
  }

  transposed(name: string, length: number, count: number): BufferHandle {
    const stored = this.source.values(name, length, count);
    return this.#upload(stored.map((_, i) => stored[(i % count) * length + Math.floor(i / count)]!));
  }

  ignore(): void {}

  #upload(values: Float32Array): BufferHandle {
    const buffer = this.backend.allocate(values.byteLength);
    this.backend.write(buffer, 0, values);
    return buffer;
  }
}
