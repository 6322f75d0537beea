/** Headers of models with a Mamba-2, and of layers that are one part each. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { arr, u32, type WritableValue } from "../../formats/gguf/write.js";
import { openModel } from "../open-model.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-mamba-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let numFiles = 0;
function opened(
  architecture: "granitehybrid" | "nemotron_h" | "nemotron_h_moe",
  changes: Record<string, WritableValue>,
) {
  const path = join(folder, `${numFiles++}.gguf`);
  const metadata = Object.fromEntries(Object.entries(changes).map(([key, value]) => [`${architecture}.${key}`, value]));
  writeRandomModel(path, { architecture, seed: 1, metadata });
  return openModel(path).config;
}

it("layers are what their key/value heads and widths say", () => {
  const kinds = (config: ReturnType<typeof opened>) =>
    config.layers.map(({ mixer, feedForward }) => `${mixer.kind} ${feedForward.kind} ${feedForward.width}`);
  expect(kinds(opened("granitehybrid", {}))).toEqual([
    "mamba experts 64",
    "attention experts 64",
    "mamba experts 64",
    "attention experts 64",
  ]);
  expect(kinds(opened("nemotron_h_moe", {}))).toEqual([
    "mamba dense 0",
    "attention dense 0",
    "none experts 64",
    "mamba dense 0",
    "none experts 64",
  ]);
  expect(opened("nemotron_h", {}).layers[1]!.mixer).toMatchObject({ rope: -1 });
});

it.each([
  ["granitehybrid", { "ssm.group_count": u32(3) }, "gguf_metadata", /4 heads .* whole groups, got 3/],
  [
    "granitehybrid",
    { "ssm.state_size": u32(0) },
    "gguf_metadata",
    /ssm.state_size to be an integer in \[1, 1024\], got 0/,
  ],
  [
    "granitehybrid",
    { "ssm.conv_kernel": u32(2 ** 31) },
    "gguf_metadata",
    /ssm.conv_kernel to be an integer in \[1, 64\]/,
  ],
  [
    "granitehybrid",
    { "ssm.inner_size": u32(161) },
    "gguf_metadata",
    /4 value heads of at most 1024 values .*, got 161/,
  ],
  ["granitehybrid", { "attention.head_count_kv": arr("i32", [0, 0, 0, 0]) }, "gguf_metadata", /above 0 in some layer/],
  ["nemotron_h", { feed_forward_length: arr("i32", [0, 0]) }, "gguf_metadata", /a list of 5, got 2/],
  [
    "nemotron_h_moe",
    { moe_latent_size: u32(32) },
    "architecture_unsupported",
    /no nemotron_h_moe.moe_latent_size, got 32/,
  ],
] as const)("what no model has is refused (%#)", (architecture, changes, code, message) => {
  let thrown: unknown;
  try {
    opened(architecture, changes);
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toMatchObject({ code, message: expect.stringMatching(message) });
});
