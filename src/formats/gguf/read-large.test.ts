import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, test } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { fixturesDir } from "../../../test/helpers/fixtures.js";
import { readGguf } from "./read.js";
import { arr, writeGguf } from "./write.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("speed", () => {
  it("parses a 150k-token vocabulary without reading tensor data", () => {
    const tokens = Array.from({ length: 150_000 }, (_, id) => `Ġtoken${id}`);
    const merges = Array.from({ length: 150_000 }, (_, id) => `Ġ token${id}`);
    const path = join(folder, "vocabulary.gguf");
    const types = new Int32Array(tokens.length).fill(1);
    writeGguf(path, {
      metadata: { tokens: arr("string", tokens), merges: arr("string", merges), types: arr("i32", types) },
    });
    const durations = [1, 2, 3].map(() => {
      const start = computedMs();
      expect(readGguf(path).metadata.strings("tokens")).toHaveLength(150_000);
      return computedMs() - start;
    });
    // About 130 ms on an idle core; the bound leaves room for a busy one and still catches anything quadratic.
    expect(Math.min(...durations)).toBeLessThan(2000);
  });
});

const fixtures = fixturesDir();
const hasFixtures = existsSync(fixtures);
if (!hasFixtures)
  console.warn(`SKIPPED: GGUF fixtures not found at ${fixtures}; set MILLRACE_FIXTURES to their folder`);

test.skipIf(!hasFixtures)("every GGUF of the fixtures reads (needs fixtures/models)", () => {
  const paths = readdirSync(fixtures, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".gguf"));
  expect(paths.length).toBeGreaterThan(0);
  for (const name of paths) {
    const file = readGguf(join(fixtures, name));
    expect(file.metadata.string("general.architecture"), name).toBeTruthy();
    expect(file.metadata.strings("tokenizer.ggml.tokens")?.length, name).toBeGreaterThan(256);
    const last = [...file.tensors.values()].reduce(
      (end, { byteOffset, byteLength }) => Math.max(end, byteOffset + byteLength),
      0,
    );
    const { byteLength } = file.shards[0]!;
    expect(byteLength - last, name).toBeGreaterThanOrEqual(0);
    if (file.tensors.size > 0)
      expect(byteLength - last, `${name}: nothing but padding after the last tensor`).toBeLessThan(32);
  }
});
