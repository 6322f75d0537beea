/**
 * Every fixture model served over HTTP reproduces the logits that llama.cpp computed in f32 from exactly dequantised
 * weights.
 */
import { readFileSync } from "node:fs";
import { describe, test } from "vitest";
import { fixture, hasFixture } from "../helpers/fixtures.js";
import { someOf } from "../helpers/long.js";
import type { ExpectedText } from "../helpers/reference.js";
import { expectReference, TOLERANCE } from "../helpers/reference.js";
import { startTestServer } from "../helpers/server.js";

const isPresent = hasFixture("models/expected.json");
if (!isPresent) console.warn("SKIPPED: reference models, no fixtures folder (set MILLRACE_FIXTURES)");

describe.skipIf(!isPresent)("reference models over HTTP [needs the fixtures folder]", () => {
  const expected = isPresent
    ? (JSON.parse(readFileSync(fixture("models/expected.json"), "utf8")) as Record<string, ExpectedText[]>)
    : {};

  test.each(someOf(Object.keys(expected), 4))("%s", async (name) => {
    await using server = await startTestServer([
      "--model",
      fixture(`models/${name}.gguf`),
      "--activation-dtype",
      "f32",
    ]);
    await expectReference(server.url, expected[name]!);
  });

  const quantized = Object.keys(expected).filter((name) => /-(q\d|iq)/.test(name));
  test.each(someOf(quantized, 2))("%s, activations rounded to integers", async (name) => {
    await using server = await startTestServer(["--model", fixture(`models/${name}.gguf`)]);
    await expectReference(server.url, expected[name]!, TOLERANCE.integer);
  });
});
