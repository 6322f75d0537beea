/**
 * Both devices agree with the table of operations on the shapes of buffers and on which buffers are read and written.
 */
import { describe, expect, it, vi } from "vitest";
import { wordsOf } from "../../test/reference/cases.js";
import { Bench, withBench } from "../../test/reference/compare.js";
import type { BufferHandle } from "./handles.js";
import { KV_OCTET, OP_NAMES, type OperandSpec, operandsIn, SAMPLE_PARAMS } from "./ops.js";
import { HEADER_WORDS } from "./program.js";

const DEVICES = [
  { label: "the reference", open: () => Bench.reference() },
  { label: "native", open: () => Bench.native("portable", 2) },
];

type BufferSpec = Extract<OperandSpec, { readonly access: string }>;
const VALUE_BYTES = { f32: 4, i32: 4, f64: 8, bytes: 1, activations: 4, kvCache: 1 } as const;
const CONSTANTS: Readonly<Record<string, number>> = { KV_OCTET, SAMPLE_PARAMS };

/**
 * An operation's last test case: its program words, its operands' values and its weights' sizes by name, and its
 * buffers.
 */
function caseOf(bench: Bench, op: (typeof OP_NAMES)[number]) {
  const created = vi.spyOn(bench.device, "createWeight");
  const stacked = vi.spyOn(bench.device, "createWeightStack");
  const counts = new Map<number, number>();
  const words = wordsOf(bench, op);
  const sizes = new Map(created.mock.results.map(({ value }, i) => [value as number, created.mock.calls[i]!]));
  for (const [i, { value }] of stacked.mock.results.entries()) {
    const [members] = stacked.mock.calls[i]!;
    sizes.set(value as number, sizes.get(members[0]!)!);
    counts.set(value as number, members.length);
  }
  created.mockRestore();
  stacked.mockRestore();
  const values: Record<string, number> = { ...CONSTANTS };
  const buffers: { readonly operand: string; readonly index: number; readonly spec: BufferSpec }[] = [];
  operandsIn(op).forEach(([operand, spec], i) => {
    const index = HEADER_WORDS + i;
    const value = words[index]!;
    values[operand] = value;
    if ("access" in spec && value !== 0) buffers.push({ operand, index, spec });
    const weight = spec.kind === "weight" || spec.kind === "weights" ? sizes.get(value) : undefined;
    if (weight === undefined) return;
    values[`${operand}.rows`] = weight[3];
    values[`${operand}.cols`] = weight[4];
    values[`${operand}.count`] = counts.get(value) ?? 1;
  });
  return { words, values, buffers };
}

/** The buffer's size in bytes by the table; undefined if a dimension is `*`. */
function bytesOf({ kind, shape }: BufferSpec, values: Readonly<Record<string, number>>): number | undefined {
  const dims = shape.slice(1, -1).split(", ");
  if (dims.includes("*")) return undefined;
  return dims.reduce<number>((product, dim) => {
    const size = values[dim] ?? Number(dim);
    expect(size, `${dim} of ${shape}`).toBeGreaterThanOrEqual(0);
    return product * size;
  }, VALUE_BYTES[kind]);
}

describe.each(DEVICES)("the operation table, checked on $label", ({ open }) => {
  it.each(OP_NAMES)("states the buffer sizes of %s", (op) => {
    withBench(open(), (bench) => {
      const { words, values, buffers } = caseOf(bench, op);
      for (const { operand, index, spec } of buffers) {
        const numBytes = bytesOf(spec, values);
        if (numBytes === undefined) continue;
        const content = new Uint8Array(bench.device.view(words[index] as BufferHandle)).slice(0, numBytes);
        const tampered = words.slice();
        tampered[index] = bench.bytes(content);
        bench.device.submit(tampered, tampered.length);
        tampered[index] = bench.bytes(content.subarray(0, numBytes - 1));
        expect(() => bench.device.submit(tampered, tampered.length), `${operand} ${spec.shape}`).toThrow(
          `expected ${operand} to be at least ${numBytes} bytes`,
        );
      }
    });
  });

  it.each(OP_NAMES)("states which buffers %s reads and writes", (op) => {
    withBench(open(), (bench) => {
      const { words, buffers } = caseOf(bench, op);
      const handles = [...new Set(buffers.map(({ index }) => words[index] as BufferHandle))];
      const accessOf = (handle: BufferHandle) =>
        buffers.filter(({ index }) => words[index] === handle).map(({ spec }) => spec.access);
      const bytesIn = (handle: BufferHandle) => new Uint8Array(bench.device.view(handle));
      const pristine = new Map(handles.map((handle) => [handle, bytesIn(handle).slice()]));
      /** Results of a run on the original inputs, with write-only buffers filled with `filler` beforehand. */
      const resultsOver = (filler: number) => {
        for (const handle of handles) {
          bytesIn(handle).set(pristine.get(handle)!);
          if (accessOf(handle).every((access) => access === "writes")) bytesIn(handle).fill(filler);
        }
        bench.device.submit(words, words.length);
        return new Map(handles.map((handle) => [handle, bytesIn(handle).slice()]));
      };
      const [over0, over85] = [resultsOver(0), resultsOver(85)];
      for (const handle of handles) {
        const [first, second] = [over0.get(handle)!, over85.get(handle)!];
        const names = buffers.filter(({ index }) => words[index] === handle).map(({ operand }) => operand);
        if (accessOf(handle).every((access) => access === "reads")) {
          expect(first, `${names} is only read`).toEqual(pristine.get(handle));
          continue;
        }
        if (accessOf(handle).some((access) => access !== "writes")) {
          expect(first, `${names} is written`).not.toEqual(pristine.get(handle));
          continue;
        }
        const isWritten = Array.from(first, (byte, i) => byte !== 0 || second[i] !== 85);
        // The reference device does not use the scratch buffer.
        if (!names.includes("scratch")) expect(isWritten, `${names} is written`).toContain(true);
        expect(
          first.filter((_, i) => isWritten[i]),
          `${names} is not read`,
        ).toEqual(second.filter((_, i) => isWritten[i]));
      }
    });
  });
});
