/**
 * Damaged files: whatever the damage, the reader answers with a file or with a MillraceError of its own codes, in
 * bounded time and memory.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { MillraceError } from "../../core/errors.js";
import { readGguf } from "./read.js";
import { arr, bool, encodeGguf, f32, i64, nested, str, u8, u32, u64 } from "./write.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-fuzz-"));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, "damaged.gguf");

const VALID_FILES: readonly Buffer[] = [
  encodeGguf({
    metadata: {
      "general.architecture": str("llama"),
      "general.alignment": u32(32),
      "llama.block_count": u32(2),
      "llama.rope.freq_base": f32(10_000),
      "tokenizer.ggml.tokens": arr("string", ["<unk>", "Ġthe", "é", "", "🌊"]),
      "tokenizer.ggml.scores": arr("f32", [0, -1, -2, -3, -4]),
      "tokenizer.ggml.add_bos_token": bool(true),
    },
    tensors: [
      { name: "token_embd.weight", type: "F16", shape: [32, 5] },
      { name: "blk.0.attn_q.weight", type: "Q8_0", shape: [32, 32] },
      { name: "output_norm.weight", type: "F32", shape: [32] },
    ],
  }),
  encodeGguf({
    version: 2,
    metadata: {
      nested: nested([arr("u8", [1, 2]), nested([arr("string", ["x"])])]),
      big: u64(2n ** 60n),
      negative: i64(-1n),
      flags: arr("bool", [true, false]),
      small: u8(7),
      "split.count": u8(1),
    },
    tensors: [
      { name: "a", type: "Q6_K", shape: [256, 2, 1, 1] },
      { name: "b.weight", type: "NVFP4", shape: [64, 3] },
      { name: "b.scale", type: "F32", shape: [1] },
      { name: "c.weight", type: "IQ1_M", shape: [256, 2] },
    ],
  }),
  encodeGguf({ metadata: { a: str("no tensors") } }),
];

/** Values that break arithmetic: around powers of two, beyond the safe integers, plausible but wrong. */
const EVIL_WORDS: readonly bigint[] = [
  0n,
  1n,
  3n,
  9n,
  10n,
  0x7fff_ffffn,
  0x8000_0000n,
  0xffff_ffffn,
  2n ** 40n,
  2n ** 53n - 1n,
  2n ** 53n,
  2n ** 61n,
  2n ** 63n,
  2n ** 64n - 1n,
];

type Damage = (bytes: Buffer) => Buffer;

/** From 0 to 1, evenly: fast-check's own preference for edge cases would damage the magic number in most runs. */
const position = fc.noBias(fc.integer({ min: 0, max: 65_535 })).map((step) => step / 65_536);
/** Behind the magic number, and mostly in the header, where damage can do harm. */
const at = (where: number, bytes: Buffer): number =>
  Math.min(4, bytes.length) + Math.floor(where * where * Math.max(bytes.length - 4, 0));

const flipByte: fc.Arbitrary<Damage> = fc
  .tuple(position, fc.integer({ min: 1, max: 255 }))
  .map(([where, mask]) => (bytes) => {
    const damaged = Buffer.from(bytes);
    const index = at(where, damaged);
    if (index < damaged.length) damaged[index]! ^= mask;
    return damaged;
  });

const overwriteWord: fc.Arbitrary<Damage> = fc
  .tuple(position, fc.constantFrom(...EVIL_WORDS), fc.constantFrom(4, 8))
  .map(([where, word, numBytes]) => (bytes) => {
    const encoded = Buffer.alloc(8);
    encoded.writeBigUInt64LE(word);
    const damaged = Buffer.from(bytes);
    if (damaged.length > 4) encoded.copy(damaged, at(where, damaged), 0, numBytes);
    return damaged;
  });

const truncate: fc.Arbitrary<Damage> = position.map((where) => (bytes) => bytes.subarray(0, at(where, bytes)));

const cutOut: fc.Arbitrary<Damage> = fc
  .tuple(position, fc.integer({ min: 1, max: 64 }))
  .map(([where, numBytes]) => (bytes) => {
    const begin = at(where, bytes);
    return Buffer.concat([bytes.subarray(0, begin), bytes.subarray(begin + numBytes)]);
  });

const splice: fc.Arbitrary<Damage> = fc
  .tuple(position, position, fc.integer({ min: 1, max: 200 }), fc.constantFrom(...VALID_FILES))
  .map(([where, from, numBytes, donor]) => (bytes) => {
    const begin = at(where, bytes);
    const source = at(from, donor);
    return Buffer.concat([bytes.subarray(0, begin), donor.subarray(source, source + numBytes), bytes.subarray(begin)]);
  });

const damagedFile = fc
  .tuple(
    fc.constantFrom(...VALID_FILES),
    fc.array(fc.oneof(flipByte, overwriteWord, truncate, cutOut, splice), { minLength: 1, maxLength: 4 }),
  )
  .map(([file, damages]) => damages.reduce((bytes, damage) => damage(bytes), file));

const EXPECTED_CODES = /^(gguf_\w+|tensor_type_unsupported)$/;

/** Reads a damaged file; returns the refusal's code, or "accepted". */
function outcomeOf(bytes: Buffer): string {
  // A new file each time: overwriting one makes some file systems write it out to disk.
  rmSync(path, { force: true });
  writeFileSync(path, bytes);
  try {
    const file = readGguf(path);
    for (const { byteOffset, byteLength, shard } of file.tensors.values()) {
      expect(byteOffset + byteLength).toBeLessThanOrEqual(file.shards[shard]?.byteLength ?? 0);
    }
    return "accepted";
  } catch (thrown) {
    if (!(thrown instanceof MillraceError)) throw thrown;
    expect(thrown.code).toMatch(EXPECTED_CODES);
    return thrown.code;
  }
}

describe("damaged files", () => {
  it("are refused with a code or read with every tensor inside the file", () => {
    const numByOutcome = new Map<string, number>();
    const bytesBefore = process.memoryUsage().arrayBuffers;
    let slowestMs = 0;
    fc.assert(
      fc.property(damagedFile, (bytes) => {
        const start = computedMs();
        const outcome = outcomeOf(bytes);
        slowestMs = Math.max(slowestMs, computedMs() - start);
        numByOutcome.set(outcome, (numByOutcome.get(outcome) ?? 0) + 1);
      }),
      { seed: 20_260_117, numRuns: 2000 },
    );
    // Reads of a few kilobytes: a bound far above a busy machine's hiccup, far below what a lying count would cost.
    expect(slowestMs).toBeLessThan(5000);
    expect(process.memoryUsage().arrayBuffers - bytesBefore).toBeLessThan(256 * 1024 * 1024);
    // The damage reaches the checks of every part of the format.
    for (const outcome of ["accepted", "gguf_version", "gguf_truncated", "gguf_corrupt", "gguf_limit", "gguf_tensor"]) {
      expect(numByOutcome.get(outcome) ?? 0, outcome).toBeGreaterThan(10);
    }
  });

  it("random bytes after a valid start are refused or read", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 512 }), fc.integer({ min: 8, max: 64 }), (noise, numKept) => {
        outcomeOf(Buffer.concat([VALID_FILES[0]!.subarray(0, numKept), noise]));
      }),
      { seed: 7, numRuns: 500 },
    );
  });
});
