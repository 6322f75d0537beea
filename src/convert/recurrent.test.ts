/**
 * Models with recurrent layers: a copy in the other format is the same model, even where its value heads have another
 * order. src/model/gguf/recurrent.test.ts compares the contents of a file's tensors.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { changedFolder } from "../../test/helpers/changed-folder.js";
import { completionsOf, expectClose, notesOfFile, weightsOnly } from "../../test/helpers/converted.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { expectLogprobs, TOLERANCES } from "../../test/helpers/hf-models.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { readGguf } from "../formats/gguf/read.js";
import { u32 } from "../formats/gguf/write.js";
import { readHfFolder } from "../formats/hf/folder.js";

const root = mkdtempSync(join(tmpdir(), "millrace-recurrent-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);

describe.each([
  "qwen35",
  "qwen35_vision",
  "qwen35moe",
  "qwen3next",
  "lfm2",
  "lfm2_moe",
  "lfm3",
])("a folder of %s", (name) => {
  const original = fixture(`hf/${name}`);

  test("becomes a file with transformers' log-probabilities, and a folder again with its tensors", async () => {
    const [file, folder] = [place(".gguf"), place()];
    weightsOnly(original, file);
    weightsOnly(file, folder);
    const expected = JSON.parse(readFileSync(join(original, "expected.json"), "utf8"));
    for (const copy of [file, folder]) await expectLogprobs(copy, expected, TOLERANCES[name]);
    const completions = await completionsOf(original);
    // These models' value heads keep their order, so all sums have the same order.
    if (name === "qwen3next" || name === "lfm2") expect(await completionsOf(file)).toEqual(completions);
    else expectClose(await completionsOf(file), completions);
    expectClose(await completionsOf(folder), completions);
    const shapes = (path: string) =>
      [...readHfFolder(path).files.tensors.values()].flatMap(({ name: stored, shape }) =>
        stored.includes("visual") ? [] : [`${stored.replace("language_model.", "")} ${shape}`],
      );
    expect(shapes(folder).sort()).toEqual(shapes(original).sort());
  });

  test("becomes a folder with its own bits", async () => {
    const folder = place();
    weightsOnly(original, folder);
    expect(await completionsOf(folder)).toEqual(await completionsOf(original));
  });
});

describe.each(["granitehybrid", "granitehybrid_dense", "nemotron_h", "nemotron_h_moe"])("a folder of %s", (name) => {
  test("becomes a file with transformers' log-probabilities, and that file a file with its own bits", async () => {
    const [file, again] = [place(".gguf"), place(".gguf")];
    weightsOnly(fixture(`hf/${name}`), file);
    const expected = JSON.parse(readFileSync(join(fixture(`hf/${name}`), "expected.json"), "utf8"));
    await expectLogprobs(file, expected, TOLERANCES[name]);
    weightsOnly(file, again);
    expect(await completionsOf(again)).toEqual(await completionsOf(file));
    // The shapes of llama.cpp's files.
    const { tensors } = readGguf(file);
    expect(tensors.get("blk.0.ssm_a")).toMatchObject({ type: "F32", shape: [1, name.startsWith("nemotron") ? 6 : 4] });
    expect(tensors.get("blk.0.ssm_norm.weight")!.shape).toEqual(
      { granitehybrid: [32, 2], granitehybrid_dense: [64, 1], nemotron_h: [30, 2], nemotron_h_moe: [30, 2] }[name],
    );
    expect(() => weightsOnly(file, place())).toThrow(/an architecture of which folders are written/);
  });
});

test("a Nemotron whose layers have experts or a dense part becomes no file", () => {
  expect(() => weightsOnly(fixture("hf/nemotron_h_mixed"), place(".gguf"))).toThrow(
    /experts in every feed-forward part/,
  );
});

describe.each(["qwen35", "qwen35moe", "qwen3next"] as const)("a file of %s", (architecture) => {
  test("becomes a file with its own bits, without the blocks that draft, and a folder that answers alike", async () => {
    const [original, drafting, file, folder, again] = [".gguf", ".gguf", ".gguf", "", ".gguf"].map(place);
    writeRandomModel(original!, { architecture, seed: 7 });
    // The model's last layer becomes a drafting block.
    const metadata = { [`${architecture}.nextn_predict_layers`]: u32(1) };
    writeRandomModel(drafting!, { architecture, seed: 7, layers: 5, metadata });
    weightsOnly(drafting!, file!);
    const completions = await completionsOf(drafting!);
    expect(await completionsOf(file!)).toEqual(completions);
    const { metadata: written, tensors } = readGguf(file!);
    expect(written.number(`${architecture}.block_count`)).toBe(4);
    expect([...tensors.keys()].filter((name) => name.startsWith("blk.4."))).toEqual([]);
    weightsOnly(original!, folder!);
    expectClose(await completionsOf(folder!), await completionsOf(original!));
    weightsOnly(folder!, again!);
    expectClose(await completionsOf(again!), await completionsOf(original!));
  });
});

test.each([
  "granitehybrid",
  "nemotron_h_moe",
] as const)("a file of %s becomes a file with its own bits", async (architecture) => {
  const [original, file] = [place(".gguf"), place(".gguf")];
  writeRandomModel(original, { architecture, seed: 7 });
  weightsOnly(original, file);
  expect(await completionsOf(file)).toEqual(await completionsOf(original));
});

test.each(["lfm2", "lfm2moe"] as const)("a file of %s becomes a folder that answers alike", async (architecture) => {
  const [original, file, folder, again] = [".gguf", ".gguf", "", ".gguf"].map(place);
  writeRandomModel(original!, { architecture, seed: 7 });
  weightsOnly(original!, file!);
  const completions = await completionsOf(original!);
  expect(await completionsOf(file!)).toEqual(completions);
  const { metadata, tensors } = readGguf(file!);
  expect(metadata.get(`${architecture}.attention.head_count_kv`)).toEqual(Int32Array.of(0, 2, 0, 2));
  expect(tensors.get("blk.0.shortconv.conv.weight")).toMatchObject({ type: "F32", shape: [3, 128] });
  weightsOnly(original!, folder!);
  weightsOnly(folder!, again!);
  for (const copy of [folder!, again!]) expectClose(await completionsOf(copy), completions);
});

test("a file whose recurrent layers llama.cpp does not take is noted", () => {
  // qwen35_vision's values are wider than its keys.
  const notes = ["qwen35_vision", "qwen35"].map((name) => notesOfFile(fixture(`hf/${name}`), place(".gguf")));
  expect(notes).toEqual([[expect.stringMatching(/as wide as keys: the file is for millrace/)], []]);
});

test("a file says which layers are recurrent", () => {
  const swapped = (name: string) =>
    name.replace(/layers\.([01])\./, (_, layer: string) => `layers.${1 - Number(layer)}.`);
  const layer_types = ["full_attention", "linear_attention", "linear_attention"];
  const changed = changedFolder(fixture("hf/qwen35moe"), place(), {
    settings: { layer_types },
    tensors: (stored) => Object.fromEntries(Object.entries(stored).map(([name, tensor]) => [swapped(name), tensor])),
  });
  const said = (folder: string) => {
    const file = place(".gguf");
    weightsOnly(folder, file);
    const { metadata } = readGguf(file);
    return ["full_attention_interval", "attention.recurrent_layers", "rope.dimension_sections"].map((key) =>
      metadata.get(`qwen35moe.${key}`),
    );
  };
  // Two pairs of a head of 16 values are rotated.
  const sections = Int32Array.of(1, 1, 0, 0);
  expect(said(fixture("hf/qwen35moe"))).toEqual([2, undefined, sections]);
  expect(said(changed)).toEqual([undefined, [false, true, true], sections]);
});
