/**
 * Damaged files: whatever the damage, the reader answers with tensors inside the file or with a MillraceError of its
 * own codes.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { encodeSafetensors, encodeWithHeader } from "../../../test/helpers/safetensors-writer.js";
import { MillraceError } from "../../core/errors.js";
import { readSafetensors } from "./read.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-safetensors-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "model.safetensors");

const VALID = encodeSafetensors({
  "model.embed_tokens.weight": { dtype: "BF16", shape: [5, 4] },
  "model.layers.0.self_attn.q_proj.weight": { dtype: "F8_E4M3", shape: [4, 4] },
  "model.layers.0.self_attn.q_proj.weight_scale": { dtype: "F32", shape: [] },
  "model.norm.weight": { dtype: "F32", shape: [4] },
});

function outcomeOf(bytes: Uint8Array): string {
  rmSync(path, { force: true });
  writeFileSync(path, bytes);
  try {
    const { tensors } = readSafetensors(folder);
    for (const { byteOffset, byteLength } of tensors.values()) {
      expect(byteOffset + byteLength).toBeLessThanOrEqual(bytes.length);
    }
    return "accepted";
  } catch (thrown) {
    if (!(thrown instanceof MillraceError)) throw thrown;
    expect(thrown.code).toMatch(/^(safetensors_\w+|tensor_type_unsupported)$/);
    return thrown.code;
  }
}

const position = fc.noBias(fc.integer({ min: 0, max: VALID.length - 1 }));
const damage = fc.oneof(
  fc.record({ at: position, drop: fc.integer({ min: 0, max: 40 }), put: fc.uint8Array({ maxLength: 8 }) }),
  // Digits and marks keep the JSON sound more often, so that the numbers behind it are reached.
  fc.record({
    at: position,
    drop: fc.constant(1),
    put: fc.constantFrom(..."0123456789-.,").map((c) => Buffer.from(c)),
  }),
);

it("damaged files are refused with a code, or read with every tensor inside the file", () => {
  const numByOutcome = new Map<string, number>();
  fc.assert(
    fc.property(fc.array(damage, { minLength: 1, maxLength: 3 }), (damages) => {
      const bytes = damages.reduce<Buffer>(
        (file, { at, drop, put }) => Buffer.concat([file.subarray(0, at), put, file.subarray(at + drop)]),
        VALID,
      );
      const outcome = outcomeOf(bytes);
      numByOutcome.set(outcome, (numByOutcome.get(outcome) ?? 0) + 1);
    }),
    { seed: 20_261_121, numRuns: 2000 },
  );
  for (const outcome of ["accepted", "safetensors_corrupt", "safetensors_truncated", "tensor_type_unsupported"]) {
    expect(numByOutcome.get(outcome) ?? 0, outcome).toBeGreaterThan(3);
  }
});

it("any JSON as header is refused or read", () => {
  const entry = fc.record(
    {
      dtype: fc.oneof(fc.constantFrom("F32", "U8", "F64", "__proto__"), fc.jsonValue()),
      shape: fc.oneof(fc.array(fc.integer()), fc.jsonValue()),
      data_offsets: fc.oneof(fc.tuple(fc.nat(64), fc.nat(64)), fc.jsonValue()),
    },
    { requiredKeys: [] },
  );
  const header = fc.oneof(fc.dictionary(fc.string(), fc.oneof(entry, fc.jsonValue())), fc.jsonValue());
  fc.assert(
    fc.property(header, fc.nat(64), (value, dataBytes) => {
      outcomeOf(encodeWithHeader(JSON.stringify(value), dataBytes));
    }),
    { seed: 3, numRuns: 1000 },
  );
});
