/**
 * Records a step's operations as numbers in one Float64Array, so that a whole forward pass crosses into native code once.
 *
 * Encoding of one operation: [opcode, flags, numArgs, ...args], where the arguments are its operands in the order of ops.ts. Flag bit 0
 * (`CONCURRENT`): the next operation does not depend on this one, so no barrier follows it.
 */
import { CODES, type KvType, OP_NAMES, type OperandsOf, type OpName, operandsIn } from "./ops.js";

export const CONCURRENT = 1;

/** Words before an operation's arguments: opcode, flags, numArgs. */
export const HEADER_WORDS = 3;

export const KV_VALUE_BYTES: Readonly<Record<KvType, number>> = { f16: 2, f32: 4, int8: 1 };

/** Stored bytes of one token's key (or value) of one head. */
export function kvEntryBytes(kvType: KvType, headDim: number): number {
  return headDim * KV_VALUE_BYTES[kvType] + (kvType === "int8" ? 4 : 0);
}

/** What a linear layer multiplies and adds. */
export type LinearOperands = Required<Pick<OperandsOf<"linear">, "x" | "weight" | "bias">>;

export type KvShape = Pick<
  OperandsOf<"pagedAttention">,
  "kvType" | "numHeads" | "numKvHeads" | "headDim" | "blockSize"
>;

/** Where the sampler finds its inputs and leaves its results. */
export type SampleBuffers = Omit<OperandsOf<"sample">, "logits" | "numRows" | "vocabSize">;

/** Two linear layers as `gatedLinear` takes them. */
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
  /** Beside each operand the names whose places are its codes; none where its word is a number or a flag. */
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
   * Appends an operation. @param options `concurrent`: the next operation neither reads nor writes what this one writes
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

/** @param names that a code stands for, in order; an operand that was left out is 0 */
function wordOf(value: Exclude<Value, number>, names: readonly string[]): number {
  if (typeof value === "string") return names.indexOf(value);
  return value === true ? 1 : 0;
}
