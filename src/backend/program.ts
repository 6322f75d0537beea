/**
 * Records a step's operations as numbers in one Float64Array, so that a whole forward pass crosses into native code in
 * one call.
 *
 * One operation is encoded as [opcode, flags, numArgs, ...args]; the arguments are its operands in the order of ops.ts.
 * Flag bit 0 (`CONCURRENT`) says that the next operation does not depend on this one, so no barrier separates them.
 */
import { CODES, type KvType, OP_NAMES, type OperandsOf, type OpName, operandsIn } from "./ops.js";

export const CONCURRENT = 1;

/** Words before an operation's arguments: opcode, flags, numArgs. */
export const HEADER_WORDS = 3;

/** Values of an fp4 entry that share a scale. */
export const FP4_GROUP = 16;

/** Stored bytes of one token's key (or value) of one head, without its scales. */
export function kvValueBytes(kvType: KvType, headDim: number): number {
  if (kvType === "fp4") return (FP4_GROUP / 2) * Math.ceil(headDim / FP4_GROUP);
  return headDim * (kvType === "f32" ? 4 : kvType === "f16" ? 2 : 1);
}

/** Stored bytes of one token's key (or value) of one head. */
export function kvEntryBytes(kvType: KvType, headDim: number): number {
  const scales = { f16: 0, f32: 0, int8: 4, fp8_e4m3: 1, fp8_e5m2: 0, fp4: Math.ceil(headDim / FP4_GROUP) + 1 };
  return kvValueBytes(kvType, headDim) + scales[kvType];
}

/** Inputs of a linear layer: x [numRows, cols], weight [rows, cols] and bias [rows], or NO_BUFFER for no bias. */
export type LinearOperands = Required<Pick<OperandsOf<"linear">, "x" | "weight" | "bias">>;

export type KvShape = Pick<
  OperandsOf<"pagedAttention">,
  "kvType" | "numHeads" | "numKvHeads" | "headDim" | "blockSize" | "latentDim"
>;

/** Buffers from which `sample` reads its inputs and into which it writes its results. */
export type SampleBuffers = Omit<OperandsOf<"sample">, "logits" | "numRows" | "vocabSize">;

/** The operands of `gatedLinear` that name its two linear layers. */
export function gatedOperands(gate: LinearOperands, up: LinearOperands) {
  return {
    gateX: gate.x,
    gateWeight: gate.weight,
    gateBias: gate.bias,
    upX: up.x,
    upWeight: up.weight,
    upBias: up.bias,
  };
}

interface OpLayout {
  readonly opcode: number;
  readonly operands: readonly string[];
  /** For each operand, the names that its codes stand for, in order of code; empty for operands that are no code. */
  readonly names: readonly (readonly string[])[];
}

const LAYOUTS = Object.fromEntries(
  OP_NAMES.map((name, opcode): readonly [OpName, OpLayout] => {
    const operands = operandsIn(name);
    const names = operands.map(([, spec]) => (spec.kind === "code" ? CODES[spec.of] : []));
    return [name, { opcode, operands: operands.map(([operand]) => operand), names }];
  }),
) as Readonly<Record<OpName, OpLayout>>;

type Value = number | boolean | string | undefined;

export class Program {
  #words = new Float64Array(4096);
  #numWords = 0;

  get words(): Float64Array {
    return this.#words;
  }

  get numWords(): number {
    return this.#numWords;
  }

  clear(): void {
    this.#numWords = 0;
  }

  /**
   * Appends an operation.
   * @param options `concurrent`: the next operation neither reads nor writes the results of this one
   * @example program.record("add", { out, x, numRows, width });
   */
  record<Name extends OpName>(
    name: Name,
    operands: OperandsOf<Name>,
    options?: { readonly concurrent?: boolean | undefined },
  ): void {
    const layout = LAYOUTS[name];
    const values = operands as Readonly<Record<string, Value>>;
    const numArgs = layout.operands.length;
    this.#reserve(HEADER_WORDS + numArgs);
    const words = this.#words;
    let at = this.#numWords;
    words[at++] = layout.opcode;
    words[at++] = options?.concurrent === true ? CONCURRENT : 0;
    words[at++] = numArgs;
    for (let i = 0; i < numArgs; i++) {
      const value = values[layout.operands[i]!];
      words[at++] = typeof value === "number" ? value : wordOf(value, layout.names[i]!);
    }
    this.#numWords = at;
  }

  #reserve(numWords: number): void {
    if (this.#numWords + numWords <= this.#words.length) return;
    const grown = new Float64Array(this.#words.length * 2);
    grown.set(this.#words);
    this.#words = grown;
  }
}

/**
 * Encodes an operand; one that was left out becomes 0.
 * @param names the names that codes stand for, in order of code
 */
function wordOf(value: Exclude<Value, number>, names: readonly string[]): number {
  if (typeof value === "string") return names.indexOf(value);
  return value === true ? 1 : 0;
}
