/** Moving scales changes the weights of every family, but none of the model's results. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { completionsOf, expectClose, weightsOnly } from "../../test/helpers/converted.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { writeFusedFolder } from "../../test/helpers/fused-experts.js";
import { isReadOnlyFolder, MODEL_FOLDERS } from "../../test/helpers/hf-models.js";
import { someOf } from "../../test/helpers/long.js";
import { type RandomArchitecture, writeRandomModel } from "../../test/helpers/random-model.js";
import { TestRng } from "../../test/helpers/rng.js";
import { DECODERS } from "../model/description/architectures.js";
import { type OpenModel, openModel } from "../model/open-model.js";
import { type Channels, channelsOf, MovedScales } from "./channels.js";

const root = mkdtempSync(join(tmpdir(), "millrace-channels-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

/** Scales all channels of a model by random factors between a quarter and four. */
function scaled(model: OpenModel, seed: number): OpenModel {
  const rng = new TestRng(seed);
  const moved = new MovedScales();
  for (const layer of model.config.layers.keys()) {
    for (const channels of channelsOf(model, layer)) {
      moved.move(
        channels,
        Float32Array.from({ length: channels.count }, () => 4 ** (2 * rng.next() - 1)),
      );
    }
  }
  return moved.applyTo(model);
}

const nameOf = ({ maker }: Channels): string => ("norm" in maker ? maker.norm : maker.matrix).split(".").at(-2)!;

/** Makers of the last layer's channels. */
const makersOf = (path: string): readonly string[] => {
  const model = openModel(path);
  return channelsOf(model, model.config.layers.length - 1).map(nameOf);
};

async function expectSame(original: string, copy: string): Promise<void> {
  const copyOf = place(copy.endsWith(".gguf") ? ".gguf" : "");
  weightsOnly(original, copyOf);
  const plain = await completionsOf(copyOf);
  weightsOnly(original, copy, (model) => scaled(model, 5));
  const answers = await completionsOf(copy);
  expectClose(answers, plain);
  // The weights differ, so the products are summed from other numbers.
  expect(answers).not.toEqual(plain);
}

const architectures = DECODERS.filter((name): name is RandomArchitecture => name !== "mistral");

describe("files", () => {
  test.each(someOf(architectures, 5))("of %s answer alike", async (architecture) => {
    const original = place(".gguf");
    writeRandomModel(original, { architecture, seed: 3 });
    await expectSame(original, place(".gguf"));
  });

  test("of experts that are fused or apart answer alike", async () => {
    for (const expertLayout of ["fused", "apart"] as const) {
      const original = place(".gguf");
      writeRandomModel(original, { architecture: "qwen3moe", seed: 4, expertLayout });
      await expectSame(original, place(".gguf"));
    }
  });
});

describe("folders", () => {
  // No copy can state the tiny llama's rope, and folders cannot express gpt-oss's experts.
  const names = MODEL_FOLDERS.filter((name) => name !== "llama" && !name.startsWith("gptoss"));
  /** Copies that cannot express the tiny model. */
  const refused = new Set(["gemma3.gguf", "qwen3moe.gguf", "glm4_moe_lite.gguf", "nemotron_h_mixed.gguf"]);
  const isFolder = (copy: string) => !copy.endsWith(".gguf");
  // There is no folder writer for these.
  const copies = names
    .flatMap((name) => [name, `${name}.gguf`])
    .filter((copy) => !refused.has(copy) && !((copy.startsWith("gemma4") || isReadOnlyFolder(copy)) && isFolder(copy)));
  test.each(someOf(copies, 6))("answer alike as %s", async (copy) => {
    const [name] = copy.split(".");
    await expectSame(fixture(`hf/${name}`), place(copy.slice(name!.length)));
  });

  test("of fused experts answer alike", async () => {
    await expectSame(writeFusedFolder(fixture("hf/qwen3moe"), place()), place());
  });
});

test("each family moves what it can", () => {
  const makers = (architecture: RandomArchitecture): readonly string[] => {
    const path = place(".gguf");
    writeRandomModel(path, { architecture, seed: 3 });
    return makersOf(path);
  };
  expect(makers("llama")).toEqual(["attn_norm", "attn_v", "ffn_norm", "ffn_up"]);
  // olmo2 has no norm before its sub-layers.
  expect(makers("olmo2")).toEqual(["attn_v", "ffn_up"]);
  // gpt-oss's up projections are clamped, and each expert would have its own channels.
  expect(makers("gpt-oss")).toEqual(["attn_norm", "attn_v", "ffn_norm"]);
  expect(makers("qwen3moe")).toEqual(["attn_norm", "attn_v", "ffn_norm"]);
  expect(makers("glm4moe")).toEqual(["attn_norm", "attn_v", "ffn_norm", "ffn_up_shexp"]);
  // The heads of a recurrent layer share the norm that makes the output's input.
  expect(makersOf(fixture("hf/qwen35"))).toEqual(["attn_norm", "ssm_norm", "ffn_norm", "ffn_up"]);
  expect(makersOf(fixture("hf/qwen3next"))).toEqual(["attn_norm", "ssm_norm", "ffn_norm", "ffn_up_shexp"]);
  // The gate after a convolution multiplies the output's input.
  expect(makersOf(fixture("hf/lfm2"))).toEqual(["attn_norm", "in_proj", "ffn_norm", "ffn_up"]);
  // Gemma 4's values have a norm, and its experts and the part beside them have separate norms.
  expect(makersOf(fixture("hf/gemma4_moe"))).toEqual(["attn_norm", "ffn_norm", "pre_ffw_norm_2", "ffn_up"]);
  expect(makersOf(fixture("hf/phi3"))).toEqual(["attn_norm", "attn_qkv", "ffn_norm", "ffn_up"]);
});

test("query heads that share a value head share its channels", () => {
  const path = place(".gguf");
  writeRandomModel(path, { architecture: "llama", seed: 3, heads: 4, kvHeads: 2, width: 64 });
  const values = channelsOf(openModel(path), 0).find((channels) => nameOf(channels) === "attn_v")!;
  expect(values).toMatchObject({ cols: 64, count: 32 });
  const channels = [0, 15, 16, 31, 32, 48, 63].map((col) => values.channelOf(col));
  expect(channels).toEqual([0, 15, 0, 15, 16, 16, 31]);
});
