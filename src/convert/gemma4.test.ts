/**
 * Gemma 4: a copy in either format is the same model, also with experts, with layers' own inputs, and with layers that
 * read other layers' keys.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { completionsOf, expectClose, weightsOnly } from "../../test/helpers/converted.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { expectLogprobs } from "../../test/helpers/hf-models.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { readGguf } from "../formats/gguf/read.js";
import { readHfFolder } from "../formats/hf/folder.js";
import { createHfTokenizer } from "../text/hf/create-tokenizer.js";
import { loadTextSide } from "../text/text-side.js";
import { convertModel } from "./convert.js";
import { tokenizerMetadata } from "./gguf/tokenizer.js";

const root = mkdtempSync(join(tmpdir(), "millrace-gemma4-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

const shapesOf = (path: string): readonly string[] =>
  [...readHfFolder(path).files.tensors.values()]
    .map(({ name, shape }) => `${name.replace("language_model.", "")} ${shape}`)
    .sort();
const configOf = (path: string): Record<string, unknown> =>
  JSON.parse(readFileSync(join(path, "config.json"), "utf8")) as Record<string, unknown>;

describe.each(["gemma4", "gemma4_e", "gemma4_moe"])("a folder of %s", (name) => {
  const original = fixture(`hf/${name}`);

  test("becomes a folder, and through a file again one, with its tensors and transformers' log-probabilities", async () => {
    const [file, again, folder] = [place(".gguf"), place(), place()];
    weightsOnly(original, file);
    weightsOnly(file, again);
    weightsOnly(original, folder);
    const expected = JSON.parse(readFileSync(join(original, "expected.json"), "utf8"));
    for (const copy of [file, again, folder]) await expectLogprobs(copy, expected);
    expect(await completionsOf(folder)).toEqual(await completionsOf(original));
    for (const copy of [again, folder]) expect(shapesOf(copy)).toEqual(shapesOf(original));
  });

  test("keeps what its config.json says, in the words of published ones", () => {
    const folder = place();
    weightsOnly(original, folder);
    const whole = configOf(original);
    const stated = { ...whole, ...(whole.text_config as object | undefined) } as Record<string, unknown>;
    const kept = ["attention_k_eq_v", "enable_moe_block", "final_logit_softcapping", "hidden_size_per_layer_input"];
    const more = ["intermediate_size", "layer_types", "num_kv_shared_layers", "rope_parameters", "use_double_wide_mlp"];
    const written = configOf(folder);
    for (const key of [...kept, ...more]) expect(written[key], key).toEqual(stated[key]);
    const ofFull = { global_head_dim: 16, num_global_key_value_heads: name === "gemma4_e" ? null : 1 };
    expect(written).toMatchObject({ head_dim: 12, num_key_value_heads: 2, ...ofFull });
    expect(written.per_layer_config).toBeUndefined();
  });
});

test("a folder's tokenizer is in a file as Gemma 4's are, and in a folder again", async () => {
  const tokens = fixture("hf-tokenizers/gemma");
  const { size, samples } = JSON.parse(readFileSync(join(tokens, "expected.json"), "utf8")) as {
    readonly size: number;
    readonly samples: readonly { readonly text: string; readonly plain: readonly number[] }[];
  };
  const { metadata } = tokenizerMetadata(tokens, createHfTokenizer(tokens, size), "gemma4");
  const [file, folder, again] = [place(".gguf"), place(), place(".gguf")];
  writeRandomModel(file, { architecture: "gemma4", seed: 6, vocab: size, metadata });
  await convertModel({ model: file, out: folder, type: undefined });
  await convertModel({ model: folder, out: again, type: undefined });
  expect([file, again].map((path) => readGguf(path).metadata.string("tokenizer.ggml.model"))).toEqual([
    "gemma4",
    "gemma4",
  ]);
  for (const path of [file, folder, again]) {
    const { tokenizer, asyncTokenizer } = await loadTextSide(path);
    asyncTokenizer.end();
    for (const { text, plain } of samples) {
      expect(tokenizer.encode(text, { addSpecial: false, parseSpecial: true }), JSON.stringify(text)).toEqual(plain);
    }
    expect(tokenizer.encode("a", { addSpecial: true, parseSpecial: true })[0]).toBe(tokenizer.bosId);
  }
});

test.each([
  {},
  { layers: 6, sharesKeys: true },
  { ff: 64, experts: { count: 8, active: 3 } },
])("a file (%j) becomes a folder that answers alike", async (options) => {
  const [file, folder] = [place(".gguf"), place()];
  writeRandomModel(file, { architecture: "gemma4", seed: 5, ...options });
  weightsOnly(file, folder);
  expectClose(await completionsOf(folder), await completionsOf(file));
});
